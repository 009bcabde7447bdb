"""A bounded cache of what decisions about plans read: the plans whole, their requests, long results.

JSON with one budget across all plans; the least recently decided go first. What was dropped is listed and
read again at the next decision about its plan, one plan at a time (`fair_semaphore.py`), which is pinned meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from efrit.controller import metrics
from efrit.controller.model.keys import Key

MAX_BYTES = 16 * 1024 * 1024
"""Of all plans together, and so of a single one: its last dozen steps take three megabytes where each is large."""
PART_BYTES = 200
"""What a part costs in addition to its JSON: name, links."""


@dataclass(slots=True)
class PlanContent:
    """What is held of one plan, as JSON."""

    plan: bytes | None = None
    requests: dict[str, bytes] = field(default_factory=dict)
    """By name."""
    results: dict[str, bytes] = field(default_factory=dict)
    """Whole results that do not fit into a status, by the UID of their request."""
    listed: bool = False
    """Whether all requests are there that the plan has."""

    @property
    def is_complete(self) -> bool:
        """Whether it can be decided with."""
        return self.plan is not None and self.listed

    @property
    def size(self) -> int:
        """Bytes it takes."""
        parts = [self.plan or b"", *self.requests.values(), *self.results.values()]
        return sum(map(len, parts)) + len(parts) * PART_BYTES


class PlanContents:
    """Contents by the key of their plan. What is not begun is not held."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Key, PlanContent] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._pinned: set[Key] = set()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def begin(self, key: Key) -> None:
        """Hold from now on what is known of a plan."""
        if key not in self._held:
            self._held[key] = PlanContent()
            self.changed(key)

    def find(self, key: Key) -> PlanContent | None:
        """Return what is held of a plan; call `changed` after it was changed."""
        return self._held.get(key)

    def use(self, key: Key) -> PlanContent | None:
        """Return what is held of a plan if it can be decided with; it is dropped last then."""
        content = self._held.get(key)
        if content is None or not content.is_complete:
            return None
        self._held.move_to_end(key)
        return content

    def changed(self, key: Key) -> bool:
        """Count what is held of a plan anew, and drop what has no room beside it.

        Return False where it has no room alone: nothing is held of it then.
        """
        content = self._held.get(key)
        size = content.size if content is not None else 0
        self.held_bytes += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        if size > self._max_bytes:  # gate: plan-alone
            self.discard(key)
            return False
        while self.held_bytes > self._max_bytes:  # gate: plan-budget
            victim = next(
                (held_key for held_key in self._held if held_key != key and held_key not in self._pinned), key
            )
            self.discard(victim)
            metrics.BUDGET_WAITS.labels("plans").inc()
        return True

    @contextmanager
    def pinned(self, key: Key) -> Iterator[None]:
        """Hold what is known of a plan, and drop none of it, in this block."""
        self._pinned.add(key)
        self.begin(key)
        try:
            yield
        finally:
            self._pinned.discard(key)

    def discard(self, key: Key) -> None:
        """Hold nothing of a plan any more."""
        self._held.pop(key, None)
        self.held_bytes -= self._sizes.pop(key, 0)
