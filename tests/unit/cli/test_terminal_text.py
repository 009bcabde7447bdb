"""What others wrote reaches a terminal as text that moves no cursor, and a pipe or a file as it is."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from msgspec import structs

from efrit.backend.errors import NotReady
from efrit.backend.interface import (
    Backend,
    Finding,
    Handle,
    Instance,
    InstanceStatus,
    Phase,
    Removed,
    RequestReason,
    RequestState,
    RequestType,
    Update,
    Work,
)
from efrit.cli import chat, doctor, instances, plan_history, program, requests, results, top
from efrit.cli.output import write
from efrit.cli.place import Invocation
from efrit.cli.results import print_result
from efrit.protocol import Progress, Session

EVIL = "\x1b]0;owned\x07first\n\tsecond\x1b[2J\r\x9b2J\u202e\u2028done"
HANDLE = Handle("made", "one")
STATE = RequestState(
    HANDLE, Phase.SUCCEEDED, RequestReason.SUCCEEDED, EVIL, result=EVIL, output=EVIL, type=RequestType.CHAT
)
ARGS = Namespace(
    output=None,
    raw=False,
    name="made",
    follow=False,
    files=False,
    invocation=Invocation(),
    quiet=True,
    progress=False,
)


HASHES = Namespace(output="name", name="made", last=None)


OPEN = structs.replace(STATE, phase=Phase.RUNNING, content=EVIL, progress=Progress(message=EVIL))
ASKS = structs.replace(
    STATE, reason=RequestReason.INPUT_REQUIRED, result=None, session=Session(id="s-1", question=EVIL)
)
SHOWN = Instance(EVIL, InstanceStatus.ACTIVE, EVIL, emacs_version=EVIL)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Others:
    """A backend all of whose texts somebody else wrote."""

    kind, place = "local", "here"

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        return EVIL

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        return Handle(key, instance)

    async def get(self, handle: Handle) -> RequestState:
        return STATE

    async def submit(self, work: Work) -> Handle:
        return HANDLE

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        yield Update(text=EVIL)
        yield Update(STATE)

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        yield EVIL

    async def examine(self) -> list[Finding]:
        return [Finding(EVIL, False, EVIL, EVIL)]

    def planning(self) -> Others:
        return self

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        return {"commits": [{"hash": EVIL}]}

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        return Removed(EVIL)


def run(command: Callable[[Backend, Namespace], Coroutine[Any, Any, object]]) -> Callable[[], object]:
    return lambda: asyncio.run(command(cast("Backend", Others()), ARGS))


async def turn(backend: Backend, args: Namespace) -> object:
    return await chat._turn(backend, args, Work(RequestType.CHAT, "hello"))


PRINTS: dict[str, Callable[[], object]] = {
    "a result": run(requests.run_result),
    "a log": run(requests.run_logs),
    "the end of a request": lambda: print_result(STATE, None, ARGS),
    "a model's words": run(turn),
    "findings": run(doctor.run_doctor),
    "a removal": run(instances.run_rm),
    "requests": lambda: print(requests.requests_table([OPEN, STATE])),
    "instances": lambda: print(instances.instances_table([SHOWN])),
    "top": lambda: print(top.screen("local", "here", [SHOWN], [OPEN, STATE], NOW, (500, 50))),
    "a question": lambda: print_result(ASKS, None, ARGS),
    "an error": lambda: program._print_error(NotReady(EVIL, EVIL), Invocation()),
    "an internal error": lambda: program._internal(ValueError(EVIL)),
    "a warning": lambda: results.warn(NotReady(EVIL, EVIL), Invocation()),
    "JSON": lambda: write("json", STATE),
    "YAML": lambda: write("yaml", STATE),
    "names": lambda: write("name", [Finding(EVIL, False, EVIL, EVIL)]),
    "the commits of a plan": lambda: asyncio.run(plan_history.run_log(cast("Backend", Others()), HASHES)),
}


class Stream(io.StringIO):
    """Standard output or error; a terminal or not."""

    encoding = "utf-8"

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def printed(monkeypatch: pytest.MonkeyPatch, name: str, *, terminal: bool) -> str:
    out, err = Stream(terminal=terminal), Stream(terminal=terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    PRINTS[name]()
    return out.getvalue() + err.getvalue()


@pytest.mark.parametrize("name", PRINTS)
def test_at_a_terminal_it_moves_no_cursor(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text = printed(monkeypatch, name, terminal=True)
    assert "done" in text
    assert all(character.isprintable() or character == "\n" for character in text), repr(text)


@pytest.mark.parametrize("name", ["a result", "a log", "the end of a request", "a model's words"])
def test_a_program_gets_it_as_it_is(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert EVIL in printed(monkeypatch, name, terminal=False)


def test_json_at_a_terminal_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(printed(monkeypatch, "JSON", terminal=True))["result"] == EVIL
