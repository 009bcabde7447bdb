"""Which answers of bridges are kept in memory until they are written: bounded by bytes over all bridges.

An answer that is dropped is asked for again when its request is decided about; its bridge offers it until then.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from efrit.controller.model.keys import Key
from efrit.protocol import Response

MAX_BYTES = 16 * 1024 * 1024
OVERHEAD = 2
"""What its JSON takes once more as objects, for texts; lists of nothing take more."""
ANSWER_BYTES = 2000
"""What the smallest takes."""


class HeldAnswer(NamedTuple):
    """The answer to one request on one instance."""

    instance: Key
    uid: str


class HeldAnswers:
    """The order in which answers came, with what each takes. The newest is always kept."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[HeldAnswer, int] = OrderedDict()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, answer: HeldAnswer, response: Response) -> list[HeldAnswer]:
        """Take in an answer, and return those that are to be dropped for it."""
        self.discard(answer)
        self._held[answer] = cost = ANSWER_BYTES + OVERHEAD * len(response.to_json())
        self.held_bytes += cost
        dropped = []
        while self.held_bytes > self._max_bytes and len(self._held) > 1:  # gate: held-answers
            oldest, size = self._held.popitem(last=False)
            self.held_bytes -= size
            dropped.append(oldest)
        return dropped

    def discard(self, answer: HeldAnswer) -> None:
        """Take out an answer that is written, or whose bridge begins anew."""
        self.held_bytes -= self._held.pop(answer, 0)
