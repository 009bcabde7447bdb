"""cli/requests.py over a backend that answers from a list: limits, order, hints."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from efrit.backend.errors import RequestNotFound
from efrit.backend.interface import (
    MAX_LISTED,
    Handle,
    Phase,
    RequestReason,
    RequestState,
    Update,
)
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import load
from efrit.cli import wait
from efrit.cli.exit_codes import Exit
from efrit.cli.requests import TABLE_ROWS, run_cancel, run_logs, run_requests, run_wait
from tests.unit.cli.listed import Listed, run

BOUNDED = f"only the newest {MAX_LISTED} requests are listed; --limit N lists more"


@pytest.mark.parametrize(
    ("there", "limit", "output", "count", "note"),
    [
        (40, None, None, TABLE_ROWS, "only the newest 30 requests are listed; --limit 0 lists all"),
        (40, 5, None, 5, ""),
        (40, 0, None, 40, ""),
        (40, 40, None, 40, ""),
        (40, None, "name", 40, ""),
        (40, 2, "name", 2, ""),
        (MAX_LISTED + 1, 0, "name", MAX_LISTED, BOUNDED),
        (MAX_LISTED + 1, None, "name", MAX_LISTED, BOUNDED),
        (MAX_LISTED + 1, MAX_LISTED + 1, "name", MAX_LISTED + 1, ""),
    ],
)
def test_requests_are_listed_newest_first_up_to_the_limit_which_is_reported(
    there: int, limit: int | None, output: str | None, count: int, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(run_requests, Listed(there), limit=limit, output=output) is Exit.DONE
    captured = capsys.readouterr()
    lines = captured.out.splitlines()[0 if output else 1 :]
    assert (lines[0].split()[0], len(lines)) == (f"r{there - 1}", count)
    assert note in captured.err if note else captured.err == ""


@pytest.mark.parametrize("limit", [0, None])
def test_all_requests_of_this_machine_are_listed(
    limit: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = tmp_path / "queue"
    (queue / "archive").mkdir(parents=True)
    for number in range(250):
        answer = {"id": f"r{number}", "version": "1.0.0", "status": "success", "result": "3"}
        (queue / f"archive/resp_r{number}.json").write_text(json.dumps(answer))
    settings = tmp_path / "config.json"
    settings.write_text(json.dumps({"instances": {"default": {"queue_dir": str(queue)}}}))
    assert run(run_requests, LocalBackend(LocalQueues(load(settings))), limit=limit, output="name") is Exit.DONE
    captured = capsys.readouterr()
    assert (len(captured.out.splitlines()), captured.err) == (250, "")


def test_no_requests_are_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(run_requests, Listed()) is Exit.DONE
    assert capsys.readouterr() == ("", "no requests in here\n")


def test_wait_for_says_that_its_time_is_over_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(run_wait, Listed(), name=["open", "other"], at_most=0.01) is Exit.NOT_READY
    assert capsys.readouterr().err == (
        "efrit: open has not finished after 10ms; "
        "go on with `kubectl efrit --context 'my team' --namespace a wait open other`\n"
    )


class Late(Listed):
    """A backend that tells of a request, and a minute goes by."""

    passed = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        yield Update(await self.get(handle))
        self.passed += 60
        await asyncio.Event().wait()


def test_work_that_cannot_begin_says_why_also_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = Late()
    monkeypatch.setattr(wait, "time", backend)
    assert run(run_wait, backend, name=["open"], at_most=30) is Exit.NOT_READY
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "efrit: open waits (InstanceNotReady): No instance has the labels tier=none."
    assert len(lines) == 2
    assert run(run_wait, backend, name=["open"], at_most=30, quiet=True) is Exit.NOT_READY
    assert "waits" not in capsys.readouterr().err


class Stopped(Late):
    """A clock and a request to an instance that has to be started."""

    async def get(self, handle: Handle) -> RequestState:
        return replace(await super().get(handle), message="Start it with `efrit start one`.")


def test_a_command_in_the_reason_of_a_wait_reaches_the_same_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = Stopped()
    monkeypatch.setattr(wait, "time", backend)
    run(run_wait, backend, name=["open"], at_most=30)
    assert "Start it with `kubectl efrit --context 'my team' --namespace a start one`." in capsys.readouterr().err


def test_a_log_that_is_not_there_yet_is_said_to_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(run_logs, Listed(), name="open", follow=False) is Exit.DONE
    assert "open is InstanceNotReady and has no log yet; wait for it with" in capsys.readouterr().err


class Cancelling(Listed):
    """A backend that cancels what is there."""

    async def cancel(self, handle: Handle) -> RequestState:
        if handle.id.startswith("no"):
            raise RequestNotFound(f"there is no request {handle.id}")
        return replace(await self.get(handle), phase=Phase.FAILED, reason=RequestReason.CANCELLED)


@pytest.mark.parametrize("output", [None, "name"])
def test_of_several_requests_to_cancel_each_is_cancelled_and_reported_though_one_is_not_there(
    output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RequestNotFound, match="there is no request none"):
        run(run_cancel, Cancelling(), name=["first", "none", "nothing", "last"], output=output)
    captured = capsys.readouterr()
    assert captured.out == ("first\nlast\n" if output else "first: Cancelled\nlast: Cancelled\n")
    assert captured.err == "efrit: there is no request nothing\n"
