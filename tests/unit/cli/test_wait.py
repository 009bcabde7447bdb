"""cli/wait.py: Ctrl-C while work is being handed over, when nobody knows its name yet."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from argparse import Namespace
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from efrit.backend.errors import RestartNeeded
from efrit.backend.interface import (
    Backend,
    Handle,
    Outcome,
    Phase,
    Progress,
    RequestReason,
    RequestState,
    RequestType,
    Session,
    Update,
    Work,
)
from efrit.cli import wait
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation
from efrit.cli.results import print_result
from efrit.cli.run import run_work
from efrit.cli.wait import Display
from efrit.protocol import SessionStatus

WORK = Work(RequestType.EVAL, "1")
HANDLE = Handle("made", "one")


class Slow:
    """A backend that takes work only after Ctrl-C, as often as it is asked to wait."""

    def __init__(self, *, ever: bool, kind: str = "cluster") -> None:
        self.ever = ever
        self.kind = kind
        self.gave_up = False

    async def submit(self, work: Work) -> Handle:
        assert work is WORK
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(0.05 if self.ever else 60)
        except asyncio.CancelledError:
            self.gave_up = True
            raise
        return HANDLE


class AtOnce:
    """A backend that takes work at once."""

    async def submit(self, work: Work) -> Handle:
        return HANDLE


class Refusing:
    """A backend that takes nothing."""

    async def submit(self, work: Work) -> Handle:
        raise LookupError("no such instance")


def hand_over(backend: Any) -> tuple[Handle, Exit | None]:
    return asyncio.run(wait.hand_over(cast("Backend", backend), WORK))


def test_ctrl_c_waits_until_it_is_known_what_it_leaves_behind() -> None:
    assert hand_over(Slow(ever=True)) == (HANDLE, Exit.DETACHED)


def test_without_ctrl_c_nothing_is_said_of_it() -> None:
    assert hand_over(AtOnce()) == (HANDLE, None)


def test_ctrl_c_ends_what_nobody_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "HAND_OVER_SECONDS", 0.05)
    backend = Slow(ever=False)
    with pytest.raises(KeyboardInterrupt):
        hand_over(backend)
    assert backend.gave_up


def test_ctrl_c_waits_for_no_emacs_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "HAND_OVER_SECONDS", 600.0)
    backend = Slow(ever=False, kind="local")
    with pytest.raises(KeyboardInterrupt):
        hand_over(backend)
    assert backend.gave_up


def test_what_is_refused_is_reported_as_it_is() -> None:
    with pytest.raises(LookupError, match="no such instance"):
        hand_over(Refusing())


def test_what_others_wrote_moves_no_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wait, "_QUIET_SECONDS", 0.0)
    evil = "\x1b]0;owned\x07\x1b[2Jdone"
    running = RequestState(HANDLE, Phase.RUNNING, RequestReason.RUNNING, progress=Progress(message=evil))
    pending = RequestState(HANDLE, Phase.PENDING, RequestReason.INSTANCE_NOT_READY, evil)
    for show, state in ((Display(progress=True), running), (Display(progress=True), pending), (Display(), pending)):
        wait._ProgressLine(show).show(state)
        stderr = capsys.readouterr().err
        assert "done" in stderr
        assert "\x1b" not in stderr.removeprefix("\r\x1b[2K")
        assert "\x07" not in stderr


def test_the_question_and_the_error_of_others_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "which\n  one\x1b[2J?"
    session = Session(id="s", status=SessionStatus.NEED_INPUT, question=evil)
    state = RequestState(HANDLE, Phase.FAILED, RequestReason.INPUT_REQUIRED, evil, session=session)
    print_result(state, None, Namespace(output=None, raw=False, invocation=Invocation()))
    stderr = capsys.readouterr().err
    assert stderr.count("which\n  one [2J?") == 2
    assert "\x1b" not in stderr


class Terminal(io.StringIO):
    """A terminal at which Ctrl-C, or a line, is typed."""

    def __init__(self, typed: str | None = None) -> None:
        super().__init__()
        self.typed = typed

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        if self.typed is None:
            signal.raise_signal(signal.SIGINT)
        return self.typed or ""


class Asking(AtOnce):
    """A backend whose every piece of work ends with a question, until it is answered."""

    def __init__(self) -> None:
        self.work: list[Work] = []

    async def submit(self, work: Work) -> Handle:
        self.work.append(work)
        return HANDLE

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        session = Session(id="s", status=SessionStatus.NEED_INPUT, question="Which one?")
        asks = len(self.work) == 1
        over = RequestState(handle, Phase.SUCCEEDED, RequestReason.SUCCEEDED, outcome=Outcome.SUCCESS)
        yield Update(
            replace(over, reason=RequestReason.INPUT_REQUIRED, outcome=Outcome.PARTIAL, session=session)
            if asks
            else over
        )


@pytest.mark.parametrize(("typed", "answers"), [(None, []), ("\n", []), ("this one\n", ["this one"])])
def test_the_question_of_a_model_is_answered_or_left_by_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, typed: str | None, answers: list[str]
) -> None:
    screen, backend = Terminal(), Asking()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", screen)
    args = Namespace(output=None, raw=False, quiet=True, no_input=False, invocation=Invocation())
    code = asyncio.run(run_work(cast("Backend", backend), args, WORK))
    assert [work.content for work in backend.work[1:]] == answers
    assert code is (Exit.DONE if answers else Exit.INPUT_REQUIRED)
    assert ("efrit: answer with" in screen.getvalue()) is not bool(answers)


def test_ctrl_c_at_the_offer_of_a_restart_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr", Terminal())
    needed = RestartNeeded("It was started with other settings.", "", "one")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(wait.offer_restart(cast("Backend", AtOnce()), needed))
