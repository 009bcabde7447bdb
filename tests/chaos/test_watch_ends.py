"""A watch that ends for good ends the controller: with a status that says so, at once, whatever hangs meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.proxied_cluster import ONE, WATCHED, Stage
from tests.support.faults.api_proxy.proxy import Fate, Fault

PROMPT_SECONDS = 45.0
"""Less than anything that hangs here does so; no more is said by it, on a busy machine."""


def _nothing(stage: Stage) -> None:
    pass


def _bridge_dies(stage: Stage) -> None:
    stage.site.node.pod(ONE).kill_bridge()


def _bridge_hangs(stage: Stage) -> None:
    stage.site.node.pod(ONE).freeze_bridge(True)


def _status_hangs(stage: Stage) -> None:
    stage.proxy.arm(Fault(Fate.DELAYED, "patch", "efritrequests", times=3, seconds=60))


MEANWHILE = {
    "quiet": _nothing,
    "bridge-dies": _bridge_dies,
    "bridge-hangs": _bridge_hangs,
    "api-hangs": _status_hangs,
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
def test_the_controller_ends_and_says_that_it_failed(
    stage: Stage, meanwhile: Callable[[Stage], None], request: pytest.FixtureRequest
) -> None:
    word = f"ends-{request.node.callspec.id}"
    running = stage.ask(f"{word}-running", stage.gate(f"{word}-running"))
    stage.until_runs(running.name)
    process = stage.operator.process
    told = len(process.log.read_text())
    # kopf lists again when its stream has expired, and gives up when the list is refused with 410.
    stage.proxy.arm(Fault(Fate.GONE_410, "list", "efritrequests"))
    stage.proxy.arm(Fault(Fate.STREAM_EXPIRED, resource="efritrequests", name=word))
    meanwhile(stage)
    asked = stage.ask(word)
    try:
        stage.wait(lambda: process.status is not None, "the controller goes on", PROMPT_SECONDS)
    finally:
        stage.site.node.pod(ONE).freeze_bridge(False)
    assert process.status == 1, process.tail()
    log = process.log.read_text()[told:]
    assert "the controller stops: WatchEnded(" in log
    assert "too old resource version" in log, "the cause is not in the log"
    stage.proxy.heal()
    stage.open_gate(running.name)
    assert stage.ended(asked)["result"] == f'"{word}"'
    stage.examine()


@pytest.mark.parametrize("resource", WATCHED)
def test_it_ends_while_its_watches_begin(empty_stage: Stage, resource: str) -> None:
    # The janitor lists every kind once before the watches begin.
    armed = empty_stage.proxy.arm(Fault(Fate.GONE_410, "list", resource, skip=1))
    empty_stage.launch()
    process = empty_stage.operator.process
    empty_stage.wait(lambda: process.status is not None, "the controller goes on", PROMPT_SECONDS)
    assert armed.hits == 1
    assert process.status == 1, process.tail()
    assert "the controller stops: WatchEnded(" in process.log.read_text()
    empty_stage.until_leading()
    empty_stage.until_watching()
