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

T = TypeVar("T")


async def retry_while_unavailable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what `attempt` returns; repeat it, with backoff, while it raises ApiUnavailable."""
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        try:
            return await attempt()
        except ApiUnavailable as error:
            pause = max(backoff, min(error.retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
            log.warning("cannot begin yet: %s (again in %.1f s)", error, pause)
        await asyncio.sleep(pause * random.uniform(1, 1.25))  # noqa: S311
        backoff = min(backoff * 2, LAST_BACKOFF_SECONDS)
