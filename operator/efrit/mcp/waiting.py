"""Waiting for a request while telling how far it is. Leaving the wait, however it happens, never touches the work."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio
from mcp.shared.exceptions import MCPError

from efrit.client.interface import Backend, Handle, RequestState, Update
from efrit.errors import EfritError

T = TypeVar("T")

Report = Callable[[str], Awaitable[None]]
"""Tells whoever waits one sentence."""

SILENCE = 5.0
"""Seconds after which a wait without news says that it goes on: clients give up on a call that says nothing."""

PACE = 0.2
"""Seconds between two pieces of news of a model that talks."""

LONGEST = 500
"""Characters of a sentence at most."""


async def follow(backend: Backend, handle: Handle, seconds: float, report: Report) -> RequestState:
    """The request once it is final, or as it is after `seconds`. Raises what `Backend.watch` and `get` raise."""
    state = await within(seconds, lambda teller: _until_final(backend, handle, teller), report)
    return state if state is not None else await backend.get(handle)


async def within(seconds: float, work: Callable[[Teller], Awaitable[T | None]], report: Report) -> T | None:
    """What `work` returns, None where `seconds` were not enough; it tells, and silences are broken for it."""
    teller = Teller(report)
    found: T | None = None
    problem: EfritError | None = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            group.start_soon(teller.break_silences)
            try:
                found = await work(teller)
            except EfritError as error:
                # Raised in here it would come out as a group of one.
                problem = error
            group.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return found


@asynccontextmanager
async def watching(backend: Backend, handle: Handle) -> AsyncIterator[AsyncIterator[Update]]:
    """What `Backend.watch` tells, which is left at the end of the body and not when it is collected."""
    updates = backend.watch(handle)
    async with AsyncExitStack() as stack:
        if (close := getattr(updates, "aclose", None)) is not None:
            stack.push_async_callback(close)
        yield updates


async def _until_final(backend: Backend, handle: Handle, teller: Teller) -> RequestState | None:
    async with watching(backend, handle) as updates:
        async for update in updates:
            await teller.tell(update)
            if update.state is not None and update.state.final:
                return update.state
    return None


@asynccontextmanager
async def kept_alive(report: Report, text: str) -> AsyncIterator[None]:
    """Says `text` every few seconds while its body runs, which says nothing itself."""
    problem: Exception | None = None

    async def tell() -> None:
        began = time.monotonic()
        while True:
            await anyio.sleep(SILENCE)
            await report(f"{text} ({time.monotonic() - began:.0f} s)")

    async with anyio.create_task_group() as group:
        group.start_soon(tell)
        try:
            yield
        except (EfritError, MCPError) as error:
            # Raised in here it would come out as a group of one.
            problem = error
        group.cancel_scope.cancel()
    if problem is not None:
        raise problem


def sentence(state: RequestState) -> str:
    """Where a request stands, for people: what it says of itself, else the words of its status."""
    progress = state.progress
    if progress is not None and progress.message:
        step = f"step {progress.step}: " if progress.step is not None else ""
        return f"{step}{progress.message}"[:LONGEST]
    where = f" in {state.handle.instance}" if state.handle.instance else ""
    return (state.message or f"{state.reason}{where}")[:LONGEST]


class Teller:
    """Says what is new, each sentence once, not too often and not too seldom."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._began = self._told = time.monotonic()
        self._last = ""
        self._line = ""

    async def tell(self, update: Update) -> None:
        """What is new in an update."""
        if update.state is not None and (text := sentence(update.state)) != self._last:
            await self.say(text)
        if update.text:
            # What a model says comes in pieces: the line it is at tells more than the piece.
            self._line = (self._line + update.text).rsplit("\n", 1)[-1][-LONGEST:]
            if self._line.strip() and time.monotonic() - self._told >= PACE:
                await self._tell(self._line)

    async def say(self, text: str) -> None:
        """A sentence; it is said again when there is nothing new for long."""
        self._last = text
        await self._tell(text)

    async def break_silences(self) -> None:
        """Says that it goes on, for ever."""
        while True:
            await anyio.sleep(SILENCE)
            if time.monotonic() - self._told >= SILENCE:
                await self._tell(f"{self._last or 'waiting'} ({time.monotonic() - self._began:.0f} s)")

    async def _tell(self, text: str) -> None:
        self._told = time.monotonic()
        await self._report(text)
