"""Requests that wait for a member of a pool, in the order they go: flows share the members by their weights.

Weighted fair queueing (start-time fair, each request counts as one): a flow that has had more than its share waits
until the others have had theirs, and one that had nothing to do saves nothing up. Within a flow the rank of a request
decides, by priority and age.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from efrit.controller.model.keys import Key
from efrit.controller.store.backlog import Backlog, Rank

MAX_NAMED_FLOWS = 1000
OTHER_FLOWS = "(others)"
"""The flow that all share which are one too many."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How the members of a pool are shared between flows."""

    weights: Mapping[str, int] = field(default_factory=dict)
    max_running: int | None = None
    """Requests of a flow that members have at a time; None for no bound."""

    def weight(self, flow: str) -> int:
        """Return the weight of a flow, 1 where none is given."""
        return self.weights.get(flow, 1)


@dataclass(slots=True)
class _Flow:
    """One flow: what of it waits, how much of it members have, and when it is next, in the time of the queue."""

    waiting: Backlog = field(default_factory=Backlog)
    aside: dict[Key, Rank] = field(default_factory=dict)
    """What of it waits too, and is in nobody's way."""
    leaving: set[Key] = field(default_factory=set)
    """What is in line, and probably exists no more."""
    running: int = 0
    next_start: float = 0.0


class FlowBacklog:
    """The line of one pool. A flow is forgotten once nothing of it waits or runs, and it owes nothing to others."""

    def __init__(self) -> None:
        self.shares = Shares()
        self.label: str | None = None
        """Label whose values name the flows of those in line; None for who made them."""
        self.refiled: float | None = None
        """When they were last put in line anew for another label, by a monotonic clock."""
        self.held: set[Key] = set()
        """Requests that members have."""
        self.changes = 0
        """Grows with each change of what members have, or of what is known about that."""
        self._flows: dict[str, _Flow] = {}
        self._running = 0
        """Requests that members have, of all flows."""
        self._swept = 0
        """Of which change flows that have paid were last looked for."""
        self._filled: dict[str, _Flow] = {}
        """The flows of which something waits."""
        self._flow_of: dict[Key, str] = {}
        self._by_age = Backlog()
        self._of_former: list[Key] = []
        """Those that are still in line by what a flow was before; some may have left."""
        self._now = 0.0
        """Virtual time: when the request that went last was due."""
        self._fillings = 0
        """Grows when something of a flow waits where nothing did, or nothing where something did."""
        self._order: list[tuple[float, str, int]] = []
        """A heap of the flows of which something may go: when, the name, the place in the flow; made when used."""
        self._order_of: tuple[int, int, Shares] | None = None
        """What it was made of: there may be a thousand flows, and each request that waits asks for its place."""

    def __len__(self) -> int:
        return len(self._flow_of)

    @property
    def waiting(self) -> Iterable[Key]:
        """The requests that wait, in no order."""
        return self._flow_of.keys()

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self._flows

    def add(self, key: Key, place: Rank, flow: str, created: datetime | None = None) -> None:
        """Put a request in line; once is enough. Where its priority is not 0, its rank does not say its age."""
        if self._flow_of.get(key, flow) != flow:
            self.discard(key)
        line = self._flows.setdefault(flow, _Flow())
        if flow not in self._filled:
            self._filled[flow] = line
            self._fillings += 1  # gate: flow-order
        line.waiting.add(key, place)
        line.aside.pop(key, None)
        self._flow_of[key] = flow
        self._by_age.add(key, (created or place[0], place[1]))

    def discard(self, key: Key) -> None:
        """Take a request out that a member gets no more, if it is in."""
        flow = self._flow_of.pop(key, None)
        if flow is not None:
            line = self._flows[flow]
            line.waiting.discard(key)
            line.aside.pop(key, None)
            line.leaving.discard(key)
            self._unfill_if_empty(flow)
            self._by_age.discard(key)
            self._forget_if_empty(flow)

    def set_aside(self, key: Key) -> bool:
        """Have a request that waits keep nobody else from going until it is resumed; return whether it did."""
        flow = self._flow_of.get(key)
        if flow is None or key in self._flows[flow].aside:
            return False
        line = self._flows[flow]
        line.aside[key] = line.waiting.rank_of(key)
        line.waiting.discard(key)
        self._unfill_if_empty(flow)
        return True

    def resume(self, key: Key) -> None:
        """Put a request that was set aside back to its place."""
        flow = self._flow_of.get(key)
        if flow is not None and key in self._flows[flow].aside:
            self.add(key, self._rank_of(key), flow, self._by_age.rank_of(key)[0])

    def note_leaving(self, key: Key, *, is_leaving: bool) -> None:
        """Take in whether a request that waits has probably left: it counts as none of those that may wait."""
        flow = self._flow_of.get(key)
        if flow is not None:
            leaving = self._flows[flow].leaving
            (leaving.add if is_leaving else leaving.discard)(key)

    def _rank_of(self, key: Key) -> Rank:
        line = self._flows[self._flow_of[key]]
        return line.aside.get(key) or line.waiting.rank_of(key)

    def _unfill_if_empty(self, flow: str) -> None:
        if flow in self._filled and not len(self._filled[flow].waiting):
            del self._filled[flow]
            self._fillings += 1

    def started(self, flow: str, *, is_paid: bool = False) -> None:
        """Count a request of a flow that a member has; the flow pays for it once.

        It need not have been the next: where several have room the first that is decided about goes first, and one
        that continues a session needs no room. What is taken out of turn costs the flows that wait nothing of their
        credit, and gives none to those that do not wait.
        """
        self.changes += 1
        line = self._flows.setdefault(flow, _Flow())
        line.running += 1
        self._running += 1
        if is_paid:  # gate: flow-paid
            return
        begins = max(line.next_start, self._now)  # gate: flow-saves-nothing
        line.next_start = begins + 1 / self.shares.weight(flow)
        if begins > self._now:
            self._now = max(self._now, min(begins, self._first_start()))  # gate: out-of-turn

    def ended(self, flow: str) -> None:
        """Count a request less that a member has."""
        self.changes += 1
        line = self._flows.get(flow)
        if line is not None and line.running:
            line.running -= 1
            self._running -= 1
            self._forget_if_empty(flow)

    def flow_of(self, key: Key) -> str | None:
        """Return the flow of a request that waits, None where it does not."""
        return self._flow_of.get(key)

    def running_of(self, flow: str) -> int:
        """Return how many requests of a flow members have."""
        line = self._flows.get(flow)
        return line.running if line is not None else 0

    def has_all(self, flow: str) -> bool:
        """Return whether members have as many requests of a flow as they may have at a time."""
        limit = self.shares.max_running
        return limit is not None and self.running_of(flow) >= limit

    def first_of(self, flow: str) -> Key | None:
        """Return the request of a flow that goes first of those that wait, None where none does."""
        line = self._flows.get(flow)
        return line.waiting.at(0) if line is not None and len(line.waiting) else None

    def waiting_of(self, flow: str) -> int:
        """Return how many requests of a flow wait."""
        line = self._flows.get(flow)
        return len(line.waiting) + len(line.aside) if line is not None else 0

    def staying_of(self, flow: str) -> int:
        """Return how many requests of a flow wait, without those that have probably left."""
        line = self._flows.get(flow)
        return self.waiting_of(flow) - len(line.leaving) if line is not None else 0  # gate: left-no-place

    def known(self, flow: str) -> str:
        """Return the flow that requests of this name are counted for: beyond a number of flows all share one."""
        if len(self._flows) >= MAX_NAMED_FLOWS and self._swept != self.changes:
            self._forget_paid()  # gate: forget-paid
        # Not counting that one: a request that is put in line anew comes back to the flow that it had.
        named = len(self._flows) - (OTHER_FLOWS in self._flows)
        return flow if flow in self._flows or named < MAX_NAMED_FLOWS else OTHER_FLOWS  # gate: most-flows

    def refile_begins(self) -> None:
        """Take in that what a flow is has changed: those that wait are to be put in line anew."""
        self._of_former = list(self._flow_of)

    def refile(self, flow_of: Callable[[Key], str], count: int) -> bool:
        """Put at most so many of the requests that wait in line anew, and return whether others are left."""
        portion = min(count, len(self._of_former))  # gate: refile-portion
        for _ in range(portion):
            key = self._of_former.pop()
            if key not in self._flow_of:
                continue
            place, created = self._rank_of(key), self._by_age.rank_of(key)[0]
            self.discard(key)
            self.add(key, place, self.known(flow_of(key)), created)
        return bool(self._of_former)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest of the requests that wait was created, whatever its priority; None where none waits."""
        return self._by_age.rank_of(self._by_age.at(0))[0] if len(self._by_age) else None

    def first(self, count: int) -> list[Key]:
        """Return the `count` requests that go first, fewer where flows have all that they may have."""
        result: list[Key] = []
        for key in self._in_order():
            if len(result) >= count:
                break
            result.append(key)
        return result

    def ahead_of(self, key: Key, limit: int) -> int:
        """Return how many go before `key`, `limit` where there are as many or more."""
        for place, other in enumerate(self._in_order()):
            if other == key or place >= limit:
                return min(place, limit)
        return limit

    def busiest(self, count: int) -> list[tuple[str, int, int]]:
        """Return name, running and waiting of the flows with the most requests."""
        filled = ((name, line) for name, line in self._flows.items() if not _is_empty(line))
        flows = ((name, line.running, self.waiting_of(name)) for name, line in filled)
        return heapq.nsmallest(count, flows, key=lambda flow: (-flow[1] - flow[2], flow[0]))

    def _in_order(self) -> Iterator[Key]:
        """Yield the requests in the order in which they go, as if each that goes were started at once."""
        made_of = (self.changes, self._fillings, self.shares)
        if self._order_of != made_of:
            self._order_of = made_of
            now, limit = self._now, self.shares.max_running
            # There may be a thousand: nothing is called for each.
            self._order = [
                (now if line.next_start < now else line.next_start, name, 0)
                for name, line in self._filled.items()
                if limit is None or line.running < limit
            ]
            heapq.heapify(self._order)
        heap = self._order.copy()
        while heap:
            begins, name, place = heapq.heappop(heap)
            line = self._flows[name]
            yield line.waiting.at(place)
            if place + 1 < min(len(line.waiting), self._room(line)):
                heapq.heappush(heap, (begins + 1 / self.shares.weight(name), name, place + 1))

    def _first_start(self) -> float:
        """Return when the first of the flows is due of which something may go."""
        limit = self.shares.max_running
        waiting = self._filled.values()
        return min((line.next_start for line in waiting if limit is None or line.running < limit), default=math.inf)

    def _room(self, line: _Flow) -> int:
        limit = self.shares.max_running
        return len(line.waiting) if limit is None else max(0, limit - line.running)

    def _forget_if_empty(self, flow: str) -> None:
        line = self._flows[flow]
        # Who has one request at a time would have paid for none.
        if _is_empty(line) and line.next_start <= self._now:  # gate: flow-owes
            del self._flows[flow]
        if not self._flow_of and not self._running:
            # There is nobody to whom one of them owed anything.
            self._flows.clear()

    def _forget_paid(self) -> None:
        """Forget the flows that were kept for what they had beyond their share, and have no more than one of it."""
        self._swept = self.changes
        for name in [
            name for name, line in self._flows.items() if _is_empty(line) and line.next_start <= self._now + 1
        ]:
            del self._flows[name]


def _is_empty(line: _Flow) -> bool:
    """Return whether nothing of a flow waits or runs: what it had beyond its share counts all the same."""
    return not len(line.waiting) and not line.aside and not line.running
