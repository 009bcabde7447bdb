"""A thread that runs one job after the other, so that submitting them never blocks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class JobThread:
    """Runs jobs in order, in a thread: the API server may block them."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="users", daemon=True)
        self._failure: BaseException | None = None
        self._thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job."""
        self._jobs.put(job)

    @property
    def idle(self) -> bool:
        """Whether every job is done. Raises what a job has raised."""
        if self._failure is not None:
            raise self._failure
        return self._jobs.unfinished_tasks == 0

    def close(self) -> None:
        """End the thread after the jobs queued so far."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised by `idle`
                self._failure = error
            self._jobs.task_done()
