"""event_loop.py: a signal ends a command, whichever thread takes it."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from efrit.backend.local.start_thread import start_in_thread
from efrit.cli.event_loop import wake_at_signals
from efrit.cli.exit_codes import Terminated
from tests.support.timeout import TIMEOUT


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    def end(*_: object) -> None:
        raise Terminated

    earlier = signal.signal(request.param, end)
    yield request.param
    signal.signal(request.param, earlier)


def test_a_signal_that_another_thread_takes_ends_a_start(number: signal.Signals) -> None:
    gave_up = []

    def start(gives_up: Callable[[], bool]) -> None:
        # The loop is waiting by then, or will be.
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), number)
        limit = time.monotonic() + TIMEOUT
        while not gives_up() and time.monotonic() < limit:
            time.sleep(0.01)
        gave_up.append(gives_up())

    async def run() -> None:
        wake_at_signals()
        await start_in_thread(start)

    with pytest.raises(Terminated):
        asyncio.run(run())
    assert gave_up == [True]
