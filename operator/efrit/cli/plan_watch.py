"""Watching a plan: at a terminal its tree is drawn in place, a pipe gets a line for each change.

Ctrl-C leaves the plan running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from datetime import UTC, datetime
from typing import Protocol, TextIO

from msgspec.structs import replace

from efrit.backend.plans import Plans, PlanState
from efrit.cli.place import Invocation
from efrit.cli.plan_text import ASCII, UNICODE, Style, changes, full_view, screen
from efrit.cli.streams import is_terminal
from efrit.cli.terminal_text import draws_unicode

_ENTER, _LEAVE, _HOME, _CLEAR = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[J"
_TICK_SECONDS = 1.0


class Detached(Exception):  # noqa: N818 - it is what happened, not a mistake
    """The person stopped watching; the plan goes on."""


class View(Protocol):
    """Where a plan is shown."""

    def show(self, state: PlanState) -> None:
        """Show the present state of the plan; the same state again means that time has passed."""

    def end(self, state: PlanState | None) -> None:
        """End the display; no more states come."""


async def watch(plans: Plans, name: str, invocation: Invocation, *, shown: bool = True) -> PlanState:
    """Show the plan until it is finished, and return it. Raises `Detached`, `PlanNotFound`."""
    view = _view(shown)
    state: PlanState | None = None
    states = plans.watch_plan(name)
    pending: asyncio.Future[PlanState] | None = None
    try:
        while state is None or not state.final:
            pending = pending or asyncio.ensure_future(anext(states))
            await asyncio.wait({pending}, timeout=_TICK_SECONDS)
            if pending.done():
                state, pending = pending.result(), None
            if state is not None:
                view.show(with_whole_commands(state, invocation))
    except asyncio.CancelledError:
        raise Detached from None
    finally:
        if pending is not None:
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await pending
        view.end(with_whole_commands(state, invocation) if state is not None else None)
    return state


def _view(shown: bool) -> View:
    if not shown:
        return _NoView()
    return _ScreenView() if is_terminal(sys.stdout) else _LineView()


def with_whole_commands(state: PlanState, invocation: Invocation) -> PlanState:
    """Return `state` with the commands in its message as they have to be typed here."""
    return replace(state, message=invocation.in_text(state.message))


def style_of(stream: TextIO) -> Style:
    """Return the style that the locale of `stream` can show."""
    return UNICODE if draws_unicode(os.environ, stream.encoding) else ASCII


def replace_unencodable(text: str) -> str:
    """Return `text` with a ? for what standard output cannot encode."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


class _NoView:
    def show(self, state: PlanState) -> None:
        pass

    def end(self, state: PlanState | None) -> None:
        pass


class _LineView:
    """A line for each change."""

    def __init__(self) -> None:
        self._last: PlanState | None = None

    def show(self, state: PlanState) -> None:
        if state != self._last:
            for line in changes(self._last, state):
                print(replace_unencodable(line), flush=True)
            self._last = state

    def end(self, state: PlanState | None) -> None:
        pass


class _ScreenView:
    """The alternate screen of a terminal; what is left on the other one is how it ended."""

    def __init__(self) -> None:
        self._style = style_of(sys.stdout)
        self._entered = False

    def show(self, state: PlanState) -> None:
        if not self._entered:
            sys.stdout.write(_ENTER)
            self._entered = True
        lines = screen(state, self._style, datetime.now(UTC), shutil.get_terminal_size())
        sys.stdout.write(_HOME + replace_unencodable("\x1b[K\n".join(lines)) + "\x1b[K" + _CLEAR)
        sys.stdout.flush()

    def end(self, state: PlanState | None) -> None:
        if not self._entered:
            return
        sys.stdout.write(_LEAVE)
        if state is not None and state.final:
            width = shutil.get_terminal_size().columns
            sys.stdout.write(
                replace_unencodable("\n".join(full_view(state, self._style, datetime.now(UTC), width))) + "\n"
            )
        sys.stdout.flush()
