"""Repeats a call while the API server does not answer: ending the process would take longer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from efrit.errors import ApiUnavailable

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 0.2
LAST_BACKOFF_SECONDS = 5.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
FIRST_WARNING_PAUSE_SECONDS = 60.0
"""After the first warning; twice as long after each further one."""
LONGEST_WARNING_PAUSE_SECONDS = 960.0

T = TypeVar("T")


async def retry_while_unavailable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what `attempt` returns; repeat it, with backoff, while it raises ApiUnavailable.

    The log says so at the first failure, less and less often while it lasts, and at the end.
    """
    began = warn_at = asyncio.get_running_loop().time()
    backoff, warning_pause = FIRST_BACKOFF_SECONDS, FIRST_WARNING_PAUSE_SECONDS
    failure: ApiUnavailable | None = None
    while True:
        try:
            result = await attempt()
        except ApiUnavailable as error:
            failure = error
            pause = max(backoff, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
            now = asyncio.get_running_loop().time()
            if now >= warn_at:
                log.warning("cannot begin yet: %s (again in %.1f s)", error, pause)
                warn_at = now + warning_pause
                warning_pause = min(warning_pause * 2, LONGEST_WARNING_PAUSE_SECONDS)
        else:
            if failure is not None:
                log.info("can begin, after %.0f s without: %s", asyncio.get_running_loop().time() - began, failure)
            return result
        await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
        backoff = min(backoff * 2, LAST_BACKOFF_SECONDS)
