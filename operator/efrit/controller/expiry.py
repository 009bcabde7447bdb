"""Deletes finished requests and plans whose time to live is over, one after the other.

Beside the work queue, so that thousands that are due at once keep no other work waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import NoReturn

from efrit.controller.model.actions import Delete
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.expirations import Expirations
from efrit.errors import EfritError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
RETRY_AFTER = timedelta(seconds=30)


class Expiry:
    """Empties the store's list of what is to be deleted."""

    def __init__(
        self,
        expirations: Expirations,
        carry_out: Callable[[WorkKey, Delete], Awaitable[None]],
        is_served: Callable[[str], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._expirations = expirations
        self._carry_out = carry_out
        self._is_served = is_served
        self._clock = clock

    async def run(self) -> NoReturn:
        """Delete what is due until cancelled."""
        while True:
            await self.delete_due()
            await asyncio.sleep(POLL_SECONDS)

    async def delete_due(self) -> None:
        """Delete all that is due by now, each if it still has its UID."""
        now = self._clock()
        while (expiration := self._expirations.pop_due(now)) is not None:
            if not self._is_served(expiration.key[0]):
                # Found again once the namespace is served again.
                continue
            try:
                await self._carry_out(
                    WorkKey(expiration.kind, *expiration.key), Delete(expiration.kind, expiration.key, expiration.uid)
                )
            except EfritError as error:
                log.info("%s %s/%s is not deleted yet: %s", expiration.kind, *expiration.key, error)
                self._expirations.add(expiration._replace(due=now + RETRY_AFTER))
