"""A cancel at every point of a request's life: it ends once, and what ended before it ran did not run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.proxied_cluster import EPHEMERAL, ONE, Stage, succeeded, unbegun
from tests.support.faults.api_proxy.proxy import Fate, Fault
from tests.support.faults.api_proxy.rules import final_status
from tests.support.faults.history import End, Submitted

HELD_SECONDS = 0.5

Moment = Callable[[Stage, Submitted, str], None]
"""Waits for the moment at which the cancel comes; gets the instance."""


def _at_once(stage: Stage, asked: Submitted, to: str) -> None:
    del stage, asked, to


def _on_the_queue(stage: Stage, asked: Submitted, to: str) -> None:
    stage.until(lambda: stage.on_queue(asked, to), f"{asked.name} is not on the queue")


def _in_processing(stage: Stage, asked: Submitted, to: str) -> None:
    path = stage.site.node.pod(to).queue / "processing" / f"req_{asked.uid}.json"
    stage.until(path.exists, f"{asked.name} is not claimed")


def _running(stage: Stage, asked: Submitted, to: str) -> None:
    stage.until_runs(asked.word, to)


def _told_running(stage: Stage, asked: Submitted, to: str) -> None:
    del to
    stage.until(lambda: stage.status(asked).get("phase") == "Running", f"{asked.name} is not told to run")


def _as_it_ends(stage: Stage, asked: Submitted, to: str) -> None:
    stage.until_runs(asked.word, to)
    stage.open_gate(asked.word, to)


MOMENTS: dict[str, Moment] = {
    "at-once": _at_once,
    "on-the-queue": _on_the_queue,
    "as-it-is-claimed": _in_processing,
    "running": _running,
    "told-running": _told_running,
    "as-it-ends": _as_it_ends,
}

EITHER = (End("Cancelled", None, (0, 1)), unbegun("Cancelled"))


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancel_ends_a_request_once_whenever_it_comes(stage: Stage, moment: str, to: str) -> None:
    word = f"{moment}-{to}"
    asked = stage.ask(word, stage.gate(word), to=to, ends=(*EITHER, succeeded(word)))
    MOMENTS[moment](stage, asked, to)
    stage.site.cancel(asked.name)
    final = stage.ended(asked)
    if moment != "as-it-ends":
        assert final["reason"] == "Cancelled"
    stage.examine()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
@pytest.mark.parametrize("moment", ["at-once", "on-the-queue"])
def test_what_is_cancelled_behind_other_work_never_runs(stage: Stage, moment: str, to: str) -> None:
    word = f"behind-{moment}-{to}"
    ahead = stage.ask(f"{word}-ahead", stage.gate(f"{word}-ahead"), to=to)
    stage.until_runs(ahead.word, to)
    asked = stage.ask(word, to=to, ends=(unbegun("Cancelled"),))
    MOMENTS[moment](stage, asked, to)
    stage.site.cancel(asked.name)
    assert stage.ended(asked)["reason"] == "Cancelled"
    stage.open_gate(ahead.word, to)
    stage.examine()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
def test_an_answer_on_its_way_stands_against_a_cancel(stage: Stage, to: str) -> None:
    word = f"on-its-way-{to}"
    writing = stage.proxy.arm(
        Fault(Fate.DELAYED, "patch", "efritrequests", "status", word, when=final_status, seconds=HELD_SECONDS)
    )
    asked = stage.ask(word, to=to)
    stage.struck(writing)
    stage.site.cancel(word)
    assert stage.ended(asked)["result"] == f'"{word}"'
    stage.examine()


@pytest.mark.parametrize("to", [ONE, EPHEMERAL])
def test_a_cancel_after_the_end_changes_nothing(stage: Stage, to: str) -> None:
    asked = stage.ask(f"too-late-{to}", to=to)
    final = stage.ended(asked)
    stage.site.cancel(asked.name)
    stage.ended(stage.ask(f"after-too-late-{to}", to=to))
    assert stage.kube.get("efritrequests", stage.namespace, asked.name)["status"] == final
    stage.examine()


@pytest.mark.parametrize("moment", ["at-once", "on-the-queue", "running"])
def test_a_cancel_the_controller_dies_on_is_carried_out_by_the_next(stage: Stage, moment: str) -> None:
    word = f"dies-{moment}"
    asked = stage.ask(word, stage.gate(word), ends=EITHER)
    MOMENTS[moment](stage, asked, ONE)
    stage.operator.kill()
    stage.site.cancel(asked.name)
    assert stage.ended(asked)["reason"] == "Cancelled"
    stage.examine()
