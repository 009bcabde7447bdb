"""Waiting for one request before a person's eyes: progress on standard error, words as they are said, Ctrl-C asks.

Knows nothing of what the request is for; who called prints the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from efrit.cli.output import short
from efrit.client.errors import RestartNeeded
from efrit.client.interface import Backend, Handle, RequestState, Work

_QUIET_SECONDS = 0.7
_TICK_SECONDS = 0.2
HAND_OVER_SECONDS = 5.0
"""How long handing over may still take once Ctrl-C was pressed."""


class Left(Exception):  # noqa: N818 - it is what happened, not a mistake
    """The person stopped waiting; the work goes on."""


@dataclass
class Show:
    """Where what happens is shown. `say` takes streamed text; `progress`: a line on standard error."""

    progress: bool = False
    say: Callable[[str], None] | None = None


def show_for(quiet: bool, say: Callable[[str], None] | None = None) -> Show:
    """Progress for a person at a terminal, nothing for a pipe."""
    return Show(progress=not quiet and sys.stderr.isatty(), say=say)


async def hand_over(backend: Backend, work: Work) -> tuple[Handle, bool]:
    """Submit `work`, after a restart where that is needed and the person agrees; see `_hand_over`."""
    try:
        return await _hand_over(backend, work)
    except RestartNeeded as needed:
        if not await restart_offered(backend, needed):
            raise
    return await _hand_over(backend, work)


async def _hand_over(backend: Backend, work: Work) -> tuple[Handle, bool]:
    """Submits; also says whether Ctrl-C was pressed meanwhile. Only then is it known what that leaves behind.

    Raises KeyboardInterrupt where it takes longer than `HAND_OVER_SECONDS` after Ctrl-C.
    """
    submitting = asyncio.ensure_future(backend.submit(work))
    with _ctrl_c() as interrupts:
        interrupted = asyncio.ensure_future(interrupts.wait())
        try:
            await asyncio.wait({submitting, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({submitting}, timeout=HAND_OVER_SECONDS)
            if not submitting.done():
                raise KeyboardInterrupt
            return submitting.result(), interrupts.is_set()
        finally:
            submitting.cancel()
            interrupted.cancel()


async def restart_offered(backend: Backend, needed: RestartNeeded) -> bool:
    """Offer the restart that work needs to the person at the terminal; return whether it was done."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    question = f"efrit: {needed.message}\nRestart it? What was defined in it is lost. [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    if not (await asyncio.to_thread(sys.stdin.readline)).strip().lower().startswith("y"):
        return False
    await backend.stop(needed.instance)
    await backend.start(needed.instance)
    return True


async def wait(
    backend: Backend, handle: Handle, show: Show, at_most: float | None = None, *, pressed: bool = False
) -> RequestState | None:
    """The final state; None when `at_most` seconds were not enough. Raises `Left`.

    `pressed`: the person has pressed Ctrl-C already.
    """
    last: RequestState | None = None
    line = _Line(show.progress)

    async def pump() -> None:
        nonlocal last
        async for update in backend.watch(handle, words=show.say is not None):
            last = update.state or last
            if update.text and show.say is not None:
                line.clear()
                show.say(update.text)

    work = asyncio.ensure_future(pump())
    limit = None if at_most is None else time.monotonic() + at_most
    with _ctrl_c() as interrupts:
        if pressed:
            interrupts.set()
        try:
            while not work.done():
                interrupted = asyncio.ensure_future(interrupts.wait())
                pause = _TICK_SECONDS if limit is None else max(0.0, min(_TICK_SECONDS, limit - time.monotonic()))
                await asyncio.wait({work, interrupted}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                interrupted.cancel()
                if interrupts.is_set() and not work.done():
                    interrupts.clear()
                    line.clear()
                    await _asked(backend, handle)
                elif limit is not None and time.monotonic() >= limit and not work.done():
                    return None
                line.show(last)
            await work
        finally:
            line.clear()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work
    return last


@contextlib.contextmanager
def _ctrl_c() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C sets meanwhile.

    Not every loop takes signals, and none does outside the main thread: Ctrl-C is Python's own there.
    """
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    with _where_taken():
        loop.add_signal_handler(signal.SIGINT, pressed.set)
    try:
        yield pressed
    finally:
        with _where_taken():
            loop.remove_signal_handler(signal.SIGINT)


def _where_taken() -> contextlib.suppress:
    return contextlib.suppress(NotImplementedError, ValueError, RuntimeError)


async def _asked(backend: Backend, handle: Handle) -> None:
    """Ctrl-C: cancel, leave it running, or go on waiting."""
    if not sys.stdin.isatty():
        print(f"\nefrit: {handle.id} goes on; wait for it with `efrit wait {handle.id}`", file=sys.stderr)
        raise Left
    print("\n[c]ancel the work, [l]eave it running, or [w]ait on? ", end="", file=sys.stderr, flush=True)
    answer = (await asyncio.to_thread(sys.stdin.readline)).strip().lower()
    if answer.startswith("c"):
        await backend.cancel(handle)
    elif answer.startswith("l") or not answer:
        print(f"efrit: wait for it with `efrit wait {handle.id}`", file=sys.stderr)
        raise Left


class _Line:
    """One line on standard error that is written over and over, once waiting has become long."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._began = time.monotonic()
        self._shown = ""

    def show(self, state: RequestState | None) -> None:
        waited = time.monotonic() - self._began
        if not self._wanted or state is None or state.final or waited < _QUIET_SECONDS:
            return
        told = state.progress
        parts = [str(state.reason), f"{waited:.0f}s"]
        if told is not None and told.step:
            parts.append(f"turn {told.step}")
        if told is not None and told.tool_calls:
            parts.append(f"{told.tool_calls} tool calls")
        if told is not None and told.message:
            parts.append(short(told.message, 50))
        self._write("  ".join(parts))

    def clear(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        if text != self._shown:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
            self._shown = text
