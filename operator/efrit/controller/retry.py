"""Repeats a call while the API server does not answer, as a new process would take longer; says when to log that."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from efrit.errors import ApiUnavailable, EfritError

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 5.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
FIRST_WARNING_PAUSE_SECONDS = 60.0
"""After the first line of the log; twice as long after each further one."""
LONGEST_WARNING_PAUSE_SECONDS = 960.0

T = TypeVar("T")


class Outage:
    """How long calls have failed in a row, and whether that is worth a line of the log."""

    def __init__(self) -> None:
        self._began = self._next_line = 0.0
        self._pause = FIRST_WARNING_PAUSE_SECONDS
        self._failure: EfritError | None = None
        self._is_logged = False

    def failed(self, failure: EfritError, now: float) -> bool:
        """Take in a failure. Return whether to log it: at first, and less and less often while it lasts.

        Of calls that fail and succeed by turns none is logged that soon after another.
        """
        if self._failure is None:
            self._began, self._is_logged = now, False
            if now >= self._next_line:
                self._pause = FIRST_WARNING_PAUSE_SECONDS
        self._failure = failure
        if now < self._next_line:
            return False
        self._next_line = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_WARNING_PAUSE_SECONDS)
        self._is_logged = True
        return True

    def ended(self, now: float) -> tuple[float, EfritError] | None:
        """Take in a success. Return, where a failure was logged, for how many seconds calls failed, and the last."""
        failure, self._failure = self._failure, None
        return (now - self._began, failure) if failure is not None and self._is_logged else None


async def retry_while_unavailable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what `attempt` returns; repeat it, with backoff, while it raises ApiUnavailable.

    The log says so at the first failure, less and less often while it lasts, and at the end.
    """
    backoff, outage = FIRST_BACKOFF_SECONDS, Outage()
    while True:
        try:
            result = await attempt()
        except ApiUnavailable as error:
            pause = max(backoff, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
            if outage.failed(error, asyncio.get_running_loop().time()):
                log.warning("the API server is unavailable, next attempt in %.1f s: %s", pause, error)
        else:
            ended = outage.ended(asyncio.get_running_loop().time())
            if ended is not None:
                log.info("the API server is available again after %.0f s; the last failure was: %s", *ended)
            return result
        await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
        backoff = min(backoff * 2, LAST_BACKOFF_SECONDS)
