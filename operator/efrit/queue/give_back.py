"""Takes off a queue that ends with its pod what was submitted and never began, so that another queue may have it.

Emacs must have ended: of a request that it has claimed, the journal then says for good whether it may have begun.
"""

import time
from collections.abc import Awaitable, Callable

from efrit.protocol import RequestId, RequestState, Response, from_epoch, request_file
from efrit.protocol.response import given_back
from efrit.protocol.view import RequestView
from efrit.queue.archive import MAX_REQUEST_FILE, is_ours
from efrit.queue.durable import naming_failures, temporary_name
from efrit.queue.layout import Area
from efrit.queue.parts import QueueParts
from efrit.queue.state import Entry


class GivenBack:
    """What one queue has given back. In memory alone: the queue has no next bridge that could report it."""

    def __init__(self, parts: QueueParts, scan: Callable[[], Awaitable[None]]) -> None:
        self._parts = parts
        self._scan = scan
        self._responses: dict[RequestId, Response] = {}

    def view(self, entry: Entry) -> RequestView | None:
        """Return a request that was given back, None for any other."""
        response = self._responses.get(entry.id)
        return None if response is None else entry.view(response)

    def acknowledge(self, rid: RequestId) -> bool:
        """Forget a request that was given back; False for any other."""
        return self._responses.pop(rid, None) is not None

    async def collect(self) -> int:
        """Give back what never began. Raises `StorageError`; may be repeated."""
        with naming_failures(f"read the queue {self._parts.disk.root}"):
            await self._scan()
        count = 0
        for entry in self._parts.index:
            if not entry.state.final and entry.durable:
                count += await self._give_back(entry)
        return count

    async def _give_back(self, entry: Entry) -> bool:
        # Its file is gone before its state says so: no scan is to take it for lost.
        entry.withdrawing = True
        try:
            with naming_failures(f"give back {entry.id}"):
                taken = await self._parts.worker.run(self._take_blocking, entry.id, entry.request_name)
        except BaseException:
            entry.withdrawing = False
            raise
        if not taken or entry.state.final:
            entry.withdrawing = False
            return False
        self._responses[entry.id] = response = given_back(entry.id, from_epoch(time.time()))
        self._parts.index.give_back(entry)
        self._parts.on_change(entry.view(response))
        return True

    def _take_blocking(self, rid: RequestId, name: str) -> bool:
        """Remove the file of a request that came through the bridge and has not begun; False where it is not such."""
        disk, temporary = self._parts.disk, temporary_name()
        self._parts.journal.read_new()
        # What waits to be run again has begun before.
        if self._parts.journal.attempt(rid):  # gate: given-back-unbegun
            return False
        places = ((Area.REQUESTS, name), (Area.PROCESSING, request_file(rid)))
        for area, file in places:
            data = disk.read(area, file, limit=MAX_REQUEST_FILE)
            # A rename: against a claim exactly one of the two finds the file.
            if data is not None and is_ours(data) and disk.rename(area, file, Area.TMP, temporary):
                disk.remove(Area.TMP, temporary)
                return True
        return False


def is_answer_awaited(entry: Entry) -> bool:
    """Return whether a reader is to acknowledge the answer of a request: it came through the bridge with a name."""
    return entry.state is RequestState.ANSWERED and (entry.digest is not None or entry.metadata is not None)
