"""The end of a queue that goes with its pod: what is on it reaches its reader before, as far as there is time.

The kubelet stops the bridge once Emacs has ended. Whoever stops the pod bounds the wait by its grace period.
"""

import asyncio
import logging
import time

from efrit.bridge.events import EventLog
from efrit.errors import StorageError
from efrit.queue.queue import DurableQueue

log = logging.getLogger(__name__)

ABSENCE_SECONDS = 30.0
"""How long nobody may follow the events before nobody is waited for: a controller that is replaced takes less."""
_POLL_SECONDS = 0.05


async def depart(queue: DurableQueue, events: EventLog, absence: float = ABSENCE_SECONDS) -> None:
    """Give back what never began, then wait until all answers are acknowledged, or nobody is there to do so."""
    last_seen = time.monotonic()
    while True:
        try:
            given_back = await queue.give_back()
            break
        except StorageError as error:
            log.error("%s; trying again", error)
        await asyncio.sleep(_POLL_SECONDS)
        if not events.readers and time.monotonic() - last_seen >= absence:
            return
    if given_back:
        log.info("%d requests are given back: they never began, and the queue ends", given_back)
    while queue.awaits_acknowledgement:  # gate: departure
        if events.readers:
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen >= absence:
            log.warning("answers are lost: nobody has followed the events for %.0f s", absence)
            return
        await asyncio.sleep(_POLL_SECONDS)
