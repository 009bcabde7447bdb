"""What the outputs of commands in containers take in memory while they are read, of all readers of one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from efrit.errors import ApiUnavailable

SMALL_OUTPUT_BYTES = 64 << 10
"""Not counted, so that an ordinary result is read whatever others read."""


class OutputBudget:
    """Refuses what is beyond: to wait would let a command that never ends keep the others waiting."""

    def __init__(self, max_bytes: int, max_bytes_of_reader: int) -> None:
        """max_bytes_of_reader: of the readers with one name."""
        self._max_bytes = max_bytes
        self._max_bytes_of_reader = max_bytes_of_reader
        self._held: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        """How many bytes are counted."""
        return self._held.total()

    @contextmanager
    def reading(self, reader: str) -> Iterator[Callable[[int], None]]:
        """Yield what counts further bytes of one output until it is read. It raises ApiUnavailable."""
        size = counted = 0

        def add(more: int) -> None:
            nonlocal size, counted
            size += more
            beyond = max(0, size - SMALL_OUTPUT_BYTES) - counted
            if self._held[reader] + beyond > self._max_bytes_of_reader or self.held_bytes + beyond > self._max_bytes:
                raise ApiUnavailable(
                    "the long results and logs that are being read take all the memory there is for them"
                )
            counted += beyond
            self._held[reader] += beyond

        try:
            yield add
        finally:
            self._held[reader] -= counted
            if not self._held[reader]:
                # A reader who has gone leaves nothing behind.
                del self._held[reader]
