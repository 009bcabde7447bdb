"""Waiting for a request while reporting its progress. Leaving the wait, for any reason, never touches the work."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio
from mcp.shared.exceptions import MCPError

from efrit.backend.interface import Backend, Handle, RequestState, Update
from efrit.errors import EfritError

T = TypeVar("T")

Report = Callable[[str], Awaitable[None]]
"""Sends one line of progress to the client."""

HEARTBEAT_SECONDS = 5.0
"""Seconds without progress after which a line says that the call goes on: clients give up on a silent call."""

TEXT_INTERVAL_SECONDS = 0.2
"""Least time between two lines of what a model is writing."""

MAX_CHARACTERS = 500
"""Longest line of progress."""


async def follow(backend: Backend, handle: Handle, seconds: float, report: Report) -> RequestState:
    """Return the request once it is final, or as it is after `seconds`. Raises what `watch` and `get` raise."""
    state = await wait_at_most(seconds, lambda reporter: _until_final(backend, handle, reporter), report)
    return state if state is not None else await backend.get(handle)


async def wait_at_most(
    seconds: float, work: Callable[[ProgressReporter], Awaitable[T | None]], report: Report
) -> T | None:
    """Return what `work` returns, or None after `seconds`; a heartbeat is reported while it says nothing."""
    reporter = ProgressReporter(report)
    result: T | None = None
    problem: EfritError | None = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            group.start_soon(reporter.report_heartbeats)
            try:
                result = await work(reporter)
            except EfritError as error:
                # Raised in the task group it would become an exception group of one.
                problem = error
            group.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return result


@asynccontextmanager
async def updates_of(backend: Backend, handle: Handle) -> AsyncIterator[AsyncIterator[Update]]:
    """Give the updates of `Backend.watch`, which is closed when the body ends and not when it is collected."""
    updates = backend.watch(handle)
    async with AsyncExitStack() as stack:
        if (close := getattr(updates, "aclose", None)) is not None:
            stack.push_async_callback(close)
        yield updates


async def _until_final(backend: Backend, handle: Handle, reporter: ProgressReporter) -> RequestState | None:
    async with updates_of(backend, handle) as updates:
        async for update in updates:
            await reporter.report_update(update)
            if update.state is not None and update.state.final:
                return update.state
    return None


@asynccontextmanager
async def heartbeat(report: Report, text: str) -> AsyncIterator[None]:
    """Report `text` every few seconds while the body runs, which reports nothing itself."""
    problem: Exception | None = None

    async def beat() -> None:
        started = time.monotonic()
        while True:
            await anyio.sleep(HEARTBEAT_SECONDS)
            await report(f"{text} ({time.monotonic() - started:.0f} s)")

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        try:
            yield
        except (EfritError, MCPError) as error:
            # Raised in the task group it would become an exception group of one.
            problem = error
        group.cancel_scope.cancel()
    if problem is not None:
        raise problem


def request_position(state: RequestState) -> str:
    """Return where a request stands, for people: its progress if it reports any, else its status."""
    progress = state.progress
    if progress is not None and progress.message:
        step = f"step {progress.step}: " if progress.step is not None else ""
        return f"{step}{progress.message}"[:MAX_CHARACTERS]
    place = f" in {state.handle.instance}" if state.handle.instance else ""
    return (state.message or f"{state.reason}{place}")[:MAX_CHARACTERS]


class ProgressReporter:
    """Reports what is new, each line once, neither too often nor too seldom."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._started = self._reported = time.monotonic()
        self._last = ""
        self._model_line = ""

    async def report_update(self, update: Update) -> None:
        """Report what is new in an update."""
        if update.state is not None and (position := request_position(update.state)) != self._last:
            await self.report_line(position)
        if update.text:
            # A model writes in pieces: its current line says more than the last piece.
            self._model_line = (self._model_line + update.text).rsplit("\n", 1)[-1][-MAX_CHARACTERS:]
            if self._model_line.strip() and time.monotonic() - self._reported >= TEXT_INTERVAL_SECONDS:
                await self._send(self._model_line)

    async def report_line(self, line: str) -> None:
        """Report a line; the heartbeat repeats it while there is nothing new."""
        self._last = line
        await self._send(line)

    async def report_heartbeats(self) -> None:
        """Report, until cancelled, that the wait goes on."""
        while True:
            await anyio.sleep(HEARTBEAT_SECONDS)
            if time.monotonic() - self._reported >= HEARTBEAT_SECONDS:
                await self._send(f"{self._last or 'waiting'} ({time.monotonic() - self._started:.0f} s)")

    async def _send(self, line: str) -> None:
        self._reported = time.monotonic()
        await self._report(line)
