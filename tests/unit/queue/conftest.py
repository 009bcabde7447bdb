"""A queue in a temporary directory, running, with what it reported."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from efrit.protocol import RequestState, Response
from efrit.protocol.view import RequestView
from efrit.queue.durable import Disk
from efrit.queue.limits import QueueLimits
from efrit.queue.queue import DurableQueue
from efrit.queue.state import Entry
from efrit.queue.watch import Watcher
from tests.support.queue_fakes import ScriptedEmacs, TestDisk, a_request, rid
from tests.support.timeout import TIMEOUT


@dataclass
class Running:
    """A queue that runs, the views it reported, and Emacs's side of the same directory."""

    queue: DurableQueue
    emacs: ScriptedEmacs
    root: Path
    disk: TestDisk
    views: list[RequestView] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def until(self, condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"not within {seconds} s; reported: {self.views[-3:]}"
            await asyncio.sleep(0.005)

    async def until_state(self, rid: str, state: RequestState) -> RequestView:
        def reached() -> bool:
            return any(view.id == rid and view.state is state for view in self.views)

        await self.until(reached)
        return next(view for view in reversed(self.views) if view.id == rid and view.state is state)

    async def begin(self, name: str, **fields: Any) -> RequestView:
        """Submit a request that Emacs claims."""
        await self.queue.submit(a_request(name, **fields))
        self.emacs.claim(name)
        return await self.until_state(name, RequestState.RUNNING)

    def entry(self, name: str) -> Entry:
        """Return what the queue knows of a request."""
        entry = self.queue.index.get(rid(name))
        assert entry is not None
        return entry

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
        await self.queue.close()


Start = Callable[..., Awaitable[Running]]


def answer_of(view: RequestView) -> Response:
    assert view.response is not None
    return view.response


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest.fixture
async def start(root: Path) -> AsyncIterator[Start]:
    """Start a queue on `root`; stop every one started in the end."""
    started: list[Running] = []

    async def opened(
        limits: QueueLimits | None = None, disk: Disk | None = None, watcher: Watcher | None = None
    ) -> Running:
        observed = TestDisk(root)
        queue = DurableQueue(root, limits, disk=disk or observed, watcher=watcher)
        # No test waits for a second that has to pass.
        queue.parts.busy_seconds = queue.work_logs.report_seconds = 0.05
        queue.parts.longest_idle_seconds, queue.parts.shortest_sweep_seconds = 0.2, 0.1
        running = Running(queue, ScriptedEmacs(root), root, observed)
        queue.parts.on_change = running.views.append
        await queue.open()
        running.task = asyncio.create_task(queue.run())
        started.append(running)
        return running

    yield opened
    for running in started:
        await running.stop()


@pytest.fixture
async def running(start: Start) -> Running:
    return await start()
