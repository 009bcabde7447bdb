"""Contents of requests that are about to be handed over, so that short work costs no call to read it again.

A cache, no more: what was dropped is read from the API server. Bounded by bytes, the least recently used go first.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

MAX_BYTES = 8 * 1024 * 1024
ENTRY_BYTES = 300
"""What an entry costs beside its text: key, links, the object's head."""


class Contents:
    """Texts by the UID of their request. The newest is always kept, whatever its size."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._texts: OrderedDict[str, str] = OrderedDict()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, uid: str, text: str) -> None:
        """Keep a content, and drop older ones that have no room beside it."""
        self.discard(uid)
        self._texts[uid] = text
        self.held_bytes += _cost(text)
        while self.held_bytes > self._max_bytes and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self.held_bytes -= _cost(dropped)

    def get(self, uid: str) -> str | None:
        """Return the content of a request, None where it has to be read."""
        text = self._texts.get(uid)
        if text is not None:
            self._texts.move_to_end(uid)
        return text

    def discard(self, uid: str) -> None:
        """Drop the content of a request that a queue has, or that is over."""
        text = self._texts.pop(uid, None)
        if text is not None:
            self.held_bytes -= _cost(text)


def _cost(text: str) -> int:
    # Not its length: a single character beyond Latin-1 makes every other one take two bytes, or four.
    return sys.getsizeof(text) + ENTRY_BYTES
