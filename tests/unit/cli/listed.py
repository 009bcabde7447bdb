"""A backend that answers from a list, and a command run over it."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from efrit.backend.interface import (
    Backend,
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
    RequestType,
    Update,
)
from efrit.backend.local.backend import LocalBackend
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation

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
