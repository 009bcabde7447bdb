"""Commands over a backend that answers from a list: limits, order, hints, colours, keys."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import termios
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from efrit.cli import color, wait
from efrit.cli.exit_codes import Exit
from efrit.cli.keys import pressed_keys, split
from efrit.cli.output import table
from efrit.cli.place import Invocation
from efrit.cli.requests import TABLE_ROWS, run_logs, run_requests, run_wait
from efrit.cli.results import print_result
from efrit.cli.top import View, after_key, screen
from efrit.client.interface import (
    MOST_LISTED,
    Backend,
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
    RequestType,
    Update,
)
from efrit.client.local.backend import LocalBackend
from efrit.client.local.queues import LocalQueues
from efrit.client.local.settings import load
from tests.support.timeout import TIMEOUT

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def over(number: int) -> RequestState:
    return RequestState(
        Handle(f"r{number}", "one"),
        Phase.SUCCEEDED,
        RequestReason.SUCCEEDED,
        type=RequestType.EVAL,
        outcome=Outcome.SUCCESS,
        created=NOW + timedelta(seconds=number),
    )


class Listed:
    """A backend with `count` requests that are over, oldest first; one called `open` waits for ever."""

    kind = "local"
    place = "here"

    def __init__(self, count: int = 0) -> None:
        self.states = [over(number) for number in range(count)]

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> list[RequestState]:
        return self.states if limit is None else self.states[-limit:]

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        return Handle(key, instance)

    async def get(self, handle: Handle) -> RequestState:
        return RequestState(
            handle,
            Phase.PENDING,
            RequestReason.INSTANCE_NOT_READY,
            "No instance has the labels tier=none.",
            RequestType.EVAL,
        )

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        yield Update(await self.get(handle))
        await asyncio.Event().wait()

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        lines: tuple[str, ...] = ()
        for line in lines:
            yield line


def run(function: Any, backend: Listed | LocalBackend, **options: Any) -> Exit:
    arguments = Namespace(**{"output": None, "name": [], "instance": None, "limit": None, "quiet": False, **options})
    arguments.invocation = Invocation("kubectl efrit", " --context 'my team' --namespace a")
    return cast("Exit", asyncio.run(function(cast("Backend", backend), arguments)))


BOUNDED = f"only the newest {MOST_LISTED} requests are listed; --limit N lists more"


@pytest.mark.parametrize(
    ("there", "limit", "output", "count", "note"),
    [
        (40, None, None, TABLE_ROWS, "only the newest 30 requests are listed; --limit 0 lists all"),
        (40, 5, None, 5, ""),
        (40, 0, None, 40, ""),
        (40, 40, None, 40, ""),
        (40, None, "name", 40, ""),
        (40, 2, "name", 2, ""),
        (MOST_LISTED + 1, 0, "name", MOST_LISTED, BOUNDED),
        (MOST_LISTED + 1, None, "name", MOST_LISTED, BOUNDED),
        (MOST_LISTED + 1, MOST_LISTED + 1, "name", MOST_LISTED + 1, ""),
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


def test_a_log_that_is_not_there_yet_is_said_to_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(run_logs, Listed(), name="open", follow=False) is Exit.DONE
    assert "open is InstanceNotReady and has no log yet; wait for it with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("run `efrit doctor`", "run `kubectl efrit --namespace a doctor`"),
        ("stop it first: efrit stop one", "stop it first: kubectl efrit --namespace a stop one"),
        ("install efrit-operator again", "install efrit-operator again"),
        ("efrit is a word", "efrit is a word"),
    ],
)
def test_what_is_suggested_reaches_the_same_place(text: str, suggestion: str) -> None:
    assert Invocation("kubectl efrit", " --namespace a").in_text(text) == suggestion


def test_an_invocation_repeats_what_was_given_and_quotes_it() -> None:
    arguments = Namespace(namespace="a", context="it's", config=None)
    assert Invocation.of("efrit", arguments).command("wait", "a b") == (
        "efrit --context 'it'\"'\"'s' --namespace a wait 'a b'"
    )


@pytest.mark.parametrize(
    ("kind", "options", "variable", "noted"),
    [
        ("cluster", {}, None, True),
        ("cluster", {"namespace": "a"}, None, False),
        ("cluster", {"backend": "cluster"}, None, False),
        ("cluster", {}, "cluster", False),
        ("local", {}, None, False),
    ],
)
def test_a_cluster_chosen_because_this_is_a_pod_is_named(
    kind: str,
    options: dict[str, str],
    variable: str | None,
    noted: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EFRIT_BACKEND", raising=False)
    if variable:
        monkeypatch.setenv("EFRIT_BACKEND", variable)
    backend = Listed()
    backend.kind, backend.place = kind, "this cluster, namespace team"
    Invocation().report_chosen_cluster(Namespace(**options), cast("Backend", backend))
    expected = "running in a pod, so this works in this cluster, namespace team; --backend"
    assert (expected in capsys.readouterr().err) is noted


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Screen(), {"TERM": "xterm"}, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    stream: io.StringIO, environment: dict[str, str], expected: bool
) -> None:
    assert color.color_enabled(stream, environment) is expected


def test_a_coloured_table_has_the_same_columns() -> None:
    rows = [("one", "Ready", "x"), ("other", "EvalError", "y")]
    plain, colored = (table(("NAME", "REASON", "WHAT"), rows, colored=colored) for colored in (False, True))
    assert "\x1b[32mReady\x1b[0m" in colored
    assert "\x1b[31mEvalError\x1b[0m" in colored
    for sequence in ("\x1b[32m", "\x1b[31m", "\x1b[0m"):
        colored = colored.replace(sequence, "")
    assert colored == plain


def test_what_others_wrote_moves_no_cursor_and_keeps_the_columns() -> None:
    text = table(("A", "B"), [("\x1b[2Jx\r", 1), ("日本", 2)])
    assert "\x1b" not in text
    assert [line.split()[-1] for line in text.splitlines()] == ["B", "1", "2"]


@pytest.mark.parametrize(
    ("key", "view"),
    [
        ("q", View(1, over=True)),
        ("\x03", View(1, over=True)),
        ("p", View(1, paused=True)),
        ("f", View(1, finished=False)),
        ("down", View(1, first=1)),
        ("up", View(1)),
        ("+", View(2)),
        ("-", View(0.5)),
        ("x", View(1)),
    ],
)
def test_keys_change_what_top_shows(key: str, view: View) -> None:
    assert after_key(View(1), key) == view


def test_the_delay_of_top_stays_within_its_bounds() -> None:
    short = long = View(1)
    for _ in range(40):
        short, long = after_key(short, "-"), after_key(long, "+")
    assert (short.delay, long.delay) == (0.1, 3600)


def test_a_view_scrolls_and_hides_finished_work_and_its_note_is_the_last_line() -> None:
    states = [over(number) for number in range(5)]

    def shown(view: View) -> list[str]:
        lines = screen("local", "here", [], states, NOW, (80, 13), view=view, note="q quit").splitlines()
        assert lines[-1] == "q quit"
        return [line.split()[0] for line in lines if line.startswith("r")]

    assert shown(View(1)) == ["r4", "r3", "r2", "r1", "r0"]
    assert shown(View(1, first=3)) == ["r1", "r0"]
    assert shown(View(1, first=99)) == ["r0"]
    assert shown(View(1, finished=False)) == []


@pytest.mark.parametrize(
    ("text", "keys"), [("q", ["q"]), ("\x1b[A\x1b[Bx", ["up", "down", "x"]), ("\x1b[5~", []), ("\x1b", []), ("", [])]
)
def test_what_a_terminal_sends_is_split_into_keys(text: str, keys: list[str]) -> None:
    assert split(text) == keys


def test_keys_come_without_enter_and_the_terminal_is_put_right() -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)

    async def read() -> str:
        with os.fdopen(slave, "r", closefd=False) as stream:
            async with pressed_keys(stream) as keys:
                os.write(master, b"q")
                return await asyncio.wait_for(keys.get(), TIMEOUT)

    assert asyncio.run(read()) == "q"
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("output", ["name", None, "json"])
def test_a_failure_is_reported_on_standard_error_or_in_the_json(
    output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RequestState(
        Handle("r1", "one"), Phase.FAILED, RequestReason.EVAL_ERROR, message="error: x", outcome=Outcome.FAILURE
    )
    assert print_result(state, None, Namespace(output=output, raw=False)) is Exit.FAILED
    printed = capsys.readouterr()
    if output == "json":
        assert (json.loads(printed.out)["message"], printed.err) == ("error: x", "")
    else:
        assert printed.out == ("r1\n" if output else "")
        assert printed.err == "efrit: r1 ended EvalError: error: x\n"
