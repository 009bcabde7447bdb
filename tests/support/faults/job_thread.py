"""A thread that carries out one job after the other, so that whoever hands them out never waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class JobThread:
    """Does what users and administrators do, in order, in a thread: the API server may keep them waiting."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="users", daemon=True)
        self._failure: BaseException | None = None
        self._thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    @property
    def idle(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._jobs.unfinished_tasks == 0

    def close(self) -> None:
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - handed to whoever asks
                self._failure = error
            self._jobs.task_done()
