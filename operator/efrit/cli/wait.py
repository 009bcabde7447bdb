"""Waiting for one request before a person's eyes: progress on standard error, words as they are said, Ctrl-C asks.

Knows nothing of what the request is for; who called prints the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import aiofiles

from efrit.backend.errors import RestartNeeded
from efrit.backend.interface import Backend, Handle, RequestReason, RequestState, Work
from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.output import shortened
from efrit.cli.place import Invocation, notice, print_resume_hint
from efrit.cli.streams import is_terminal, typed_line
from efrit.cli.terminal_text import sanitized_line

_QUIET_SECONDS = 0.7
_TICK_SECONDS = 0.2
_BLOCKED_REASONS = (
    RequestReason.INSTANCE_NOT_READY,
    RequestReason.INSTANCE_SUSPENDED,
    RequestReason.INSTANCE_UPDATING,
    RequestReason.BACKPRESSURE,
)
"""Reasons for which an open request cannot begin: whoever waits is informed."""
HAND_OVER_SECONDS = 5.0
"""How long handing over may still take once Ctrl-C was pressed."""


class Detached(Exception):  # noqa: N818 - it is what happened, not a mistake
    """The person stopped waiting; the work goes on. `code` is what the program ends with."""

    def __init__(self, code: Exit = Exit.DETACHED) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Display:
    """Where what happens is shown, and how the program was called, for hints.

    `on_text` takes streamed text; `progress`: a line on standard error; `quiet`: not even why nothing happens.
    """

    progress: bool = False
    on_text: Callable[[str], None] | None = None
    quiet: bool = False
    invocation: Invocation = field(default_factory=Invocation)


def display_for(args: Namespace, on_text: Callable[[str], None] | None = None) -> Display:
    """Return what shows progress to a user at a terminal, and nothing in a pipe."""
    return Display(not args.quiet and is_terminal(sys.stderr), on_text, args.quiet, args.invocation)


async def hand_over(backend: Backend, work: Work) -> tuple[Handle, Exit | None]:
    """Submit `work`, after a restart where that is needed and the person agrees; see `_hand_over`."""
    try:
        return await _hand_over(backend, work)
    except RestartNeeded as needed:
        if not await offer_restart(backend, needed):
            raise
    return await _hand_over(backend, work)


async def _hand_over(backend: Backend, work: Work) -> tuple[Handle, Exit | None]:
    """Submit; also return the exit code of a signal that came meanwhile: only now is it known what it leaves behind.

    Raises KeyboardInterrupt where nothing was handed over, or it takes longer than `HAND_OVER_SECONDS` after Ctrl-C.
    """
    submitting = asyncio.ensure_future(backend.submit(work))
    with _signals() as (interrupts, terminated):
        interrupted = asyncio.ensure_future(interrupts.wait())
        try:
            await asyncio.wait({submitting, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if not submitting.done() and backend.kind == "local":
                # Storing is one step that nothing interrupts: what still waits for an Emacs leaves nothing behind.
                submitting.cancel()
            await asyncio.wait({submitting}, timeout=HAND_OVER_SECONDS)
            if not submitting.done() or submitting.cancelled():
                raise Terminated if terminated.is_set() else KeyboardInterrupt
            exit_code = Exit.TERMINATED if terminated.is_set() else Exit.DETACHED if interrupts.is_set() else None
            return submitting.result(), exit_code
        finally:
            submitting.cancel()
            interrupted.cancel()


async def offer_restart(backend: Backend, needed: RestartNeeded) -> bool:
    """Offer the restart that work needs to the person at the terminal; return whether it was done."""
    if not is_terminal(sys.stdin, sys.stderr):
        return False
    question = f"efrit: {needed.message}\nRestart it? What was defined in it is lost. [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    if not typed_line().lower().startswith("y"):
        return False
    await backend.stop(needed.instance)
    await backend.start(needed.instance)
    return True


async def wait(
    backend: Backend,
    handle: Handle,
    display: Display,
    at_most: float | None = None,
    *,
    earlier_signal: Callable[[], Exit | None] = lambda: None,
) -> RequestState | None:
    """Return the final state; None when `at_most` seconds were not enough. Raises `Detached`.

    `earlier_signal` returns the exit code of a signal that came before this takes signals itself.
    """
    last: RequestState | None = None
    line = _ProgressLine(display)

    async def follow_request() -> None:
        nonlocal last
        async for update in backend.watch(handle, words=display.on_text is not None):
            last = update.state or last
            if update.text and display.on_text is not None:
                line.clear()
                display.on_text(update.text)

    work = asyncio.ensure_future(follow_request())
    limit = None if at_most is None else time.monotonic() + at_most
    with _signals() as (interrupts, terminated):
        signal_exit = earlier_signal()
        if signal_exit is not None:
            interrupts.set()
        if signal_exit is Exit.TERMINATED:
            terminated.set()
        try:
            while not work.done():
                interrupted = asyncio.ensure_future(interrupts.wait())
                pause = _TICK_SECONDS if limit is None else max(0.0, min(_TICK_SECONDS, limit - time.monotonic()))
                await asyncio.wait({work, interrupted}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                interrupted.cancel()
                if terminated.is_set() and not work.done():
                    line.clear()
                    print_resume_hint(handle, display.invocation)
                    raise Detached(Exit.TERMINATED)
                if interrupts.is_set() and not work.done():
                    interrupts.clear()
                    line.clear()
                    await _ask_after_interrupt(backend, handle, display.invocation, interrupts, terminated)
                    continue
                line.show(last)
                if limit is not None and time.monotonic() >= limit and not work.done():
                    return None
            await work
        finally:
            line.clear()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work
    return last


@contextlib.contextmanager
def _signals() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Yield the events that Ctrl-C and SIGTERM set meanwhile; SIGTERM sets both, to wake a waiting reader of either.

    Not every loop takes signals, and none does outside the main thread: they are Python's own there.
    """
    pressed, terminated = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)

    def terminate() -> None:
        terminated.set()
        pressed.set()

    with _suppress_unsupported():
        loop.add_signal_handler(signal.SIGINT, pressed.set)
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        yield pressed, terminated
    finally:
        with _suppress_unsupported():
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, before)


def _suppress_unsupported() -> contextlib.suppress:
    return contextlib.suppress(NotImplementedError, ValueError, RuntimeError)


async def _typed_line(interrupts: asyncio.Event) -> str | None:
    """Return the line that the person types, without the space around it; None at a signal. The work goes on."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    # A terminal can be read once a line is whole. The thread of an earlier read could not be ended.
    loop.add_reader(sys.stdin.fileno(), typed.set)
    waits = [asyncio.ensure_future(event.wait()) for event in (typed, interrupts)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(sys.stdin.fileno())
        for waiting in waits:
            waiting.cancel()
    return (await aiofiles.stdin.readline()).strip() if typed.is_set() else None


async def _ask_after_interrupt(
    backend: Backend, handle: Handle, invocation: Invocation, interrupts: asyncio.Event, terminated: asyncio.Event
) -> None:
    """Ask after Ctrl-C: cancel the request, leave it running, or go on waiting. A second signal leaves it running."""
    if not is_terminal(sys.stdin):
        print(file=sys.stderr)
        print_resume_hint(handle, invocation)
        raise Detached
    print("\n[c]ancel the work, [l]eave it running, or [w]ait on? ", end="", file=sys.stderr, flush=True)
    answer = await _typed_line(interrupts)
    if answer is None:
        print(file=sys.stderr)
    elif answer.lower().startswith("c"):
        await backend.cancel(handle)
        return
    if not answer or answer.lower().startswith("l"):
        print_resume_hint(handle, invocation)
        raise Detached(Exit.TERMINATED if terminated.is_set() else Exit.DETACHED)


class _ProgressLine:
    """One line on standard error that is written over and over, once waiting has become long.

    Where that is not a terminal, why a request cannot begin is printed once.
    """

    def __init__(self, display: Display) -> None:
        self._shows_progress = display.progress
        self._quiet = display.quiet
        self._invocation = display.invocation
        self._began = time.monotonic()
        self._shown = ""
        self._reason: str | None = None

    def show(self, state: RequestState | None) -> None:
        waited = time.monotonic() - self._began
        if not self._quiet and not self._shows_progress and state is not None and waited >= _QUIET_SECONDS:
            self._explain(state)
        if not self._shows_progress or state is None or state.final or waited < _QUIET_SECONDS:
            return
        progress = state.progress
        parts = [str(state.reason), f"{waited:.0f}s"]
        if state.reason in _BLOCKED_REASONS and state.message:
            parts.append(shortened(sanitized_line(state.message), 100))
        if progress is not None and progress.step:
            parts.append(f"turn {progress.step}")
        if progress is not None and progress.tool_calls:
            parts.append(f"{progress.tool_calls} tool calls")
        if progress is not None and progress.message:
            parts.append(shortened(sanitized_line(progress.message), 50))
        self._write("  ".join(parts))

    def _explain(self, state: RequestState) -> None:
        if state.reason in _BLOCKED_REASONS and state.reason is not self._reason:
            self._reason = state.reason
            message = self._invocation.in_text(sanitized_line(state.message))
            notice(f"{state.handle.id} waits ({state.reason}): {message}")

    def clear(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        if text != self._shown:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
            self._shown = text
