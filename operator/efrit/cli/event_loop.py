"""Runs a command, in an event loop with an open backend where it needs one."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from argparse import Namespace
from collections.abc import Callable
from typing import Any, cast

from efrit.backend.open import open_backend
from efrit.cli import streams
from efrit.cli.exit_codes import Exit
from efrit.cli.place import notice, place_of


def run_in_loop(run: Callable[..., Any], args: Namespace, *, debug: bool) -> Exit:
    """Run the command, with the backend that its arguments name where it takes one; return the exit code."""
    if not asyncio.iscoroutinefunction(run):
        return cast("Exit", run(args))
    if not debug:
        # What a task leaves behind when it is cut short is of no use to a person.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    return asyncio.run(_with_backend(run, args))


def wake_at_signals() -> None:
    """Have the running loop wake up at each signal, which another thread may have taken.

    Python's handlers run in the main thread alone, which the kernel interrupts only if it chose that one. A loop that
    handles one signal wakes up at all: at that of a window's new size nothing happens anyway.
    """
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: None)


async def _with_backend(run: Callable[..., Any], args: Namespace) -> Exit:
    wake_at_signals()
    backend = await open_backend(place_of(args), lambda text: notice(args.invocation.in_text(text)))
    try:
        args.invocation.report_chosen_cluster(args, backend)
        code: Exit = await run(backend, args)
        # Only what was really handed over may be archived.
        streams.flush()
    except BaseException:
        await backend.close(handed_over=False)
        raise
    await backend.close()
    return code
