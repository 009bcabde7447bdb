"""cli/chat.py: what a person types, and what of it is talk."""

from __future__ import annotations

import asyncio
import builtins
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from efrit.backend.interface import (
    Backend,
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
    RequestType,
    Session,
    Update,
    Work,
)
from efrit.cli import chat
from efrit.cli.commands import build
from efrit.cli.exit_codes import Terminated
from efrit.cli.place import Invocation
from efrit.protocol import SessionStatus


class Model:
    """A backend on which Ctrl-C comes during a command, and a chat ends at once in the session `s1`."""

    def __init__(self) -> None:
        self.work: list[Work] = []

    async def submit(self, work: Work) -> Handle:
        self.work.append(work)
        return Handle(f"r{len(self.work)}", "one")

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        if self.work[-1].type is RequestType.COMMAND:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        session = Session(id="s1", status=SessionStatus.COMPLETE)
        yield Update(
            RequestState(handle, Phase.SUCCEEDED, RequestReason.SUCCEEDED, outcome=Outcome.SUCCESS, session=session)
        )


def converse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Model, typed: Callable[[], str]) -> list[str]:
    """Have what `typed` returns be typed, until it raises EOFError; return the prompts."""
    prompts: list[str] = []

    def line(prompt: str) -> str:
        prompts.append(prompt)
        return typed()

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(builtins, "input", line)
    args = build().parse_args(["chat", "--quiet", "--dir", str(tmp_path)])
    args.invocation = Invocation()
    asyncio.run(chat._converse(cast("Backend", model), args))
    return prompts


def lines(*typed: str) -> Callable[[], str]:
    remaining = iter(typed)

    def line() -> str:
        for text in remaining:
            return text
        raise EOFError

    return line


def test_what_follows_a_command_that_was_left_running_is_talk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = Model()
    prompts = converse(monkeypatch, tmp_path, model, lines("good day", "/command tidy up", "and now?"))
    assert [work.type for work in model.work] == [RequestType.CHAT, RequestType.COMMAND, RequestType.CHAT]
    assert [work.session for work in model.work] == [None, "s1", "s1"]
    assert prompts == ["efrit> "] * 4


def test_sigterm_at_the_prompt_ends_the_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def line() -> str:
        raise Terminated

    with pytest.raises(Terminated):
        converse(monkeypatch, tmp_path, Model(), line)


def test_ctrl_c_at_the_prompt_empties_the_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    typed = lines("", "good day")
    presses = iter([True, False, True])

    def line() -> str:
        if next(presses, False):
            signal.raise_signal(signal.SIGINT)
        return typed()

    model = Model()
    assert len(converse(monkeypatch, tmp_path, model, line)) == 5
    assert [work.content for work in model.work] == ["good day"]


def test_the_history_of_lines_is_in_the_home_directory_where_the_variable_is_not_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    with chat._line_history():
        pass
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("history")] == [
        Path("home/.local/state/efrit/history")
    ]
