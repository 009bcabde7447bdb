"""What a watch has seen of the requests of a pool: when each got its member and ended, and what it waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Waits(NamedTuple):
    """Seconds of a request from its create to the sight of its end, by what they went to."""

    place: float
    """Until a member had a place for it."""
    behind: float
    """Until the member had ended what it was given before."""
    work: float
    """Its own, as Emacs tells."""
    processors: float
    """All else: clients, API server, controller, bridge."""

    @property
    def whole(self) -> float:
        """All of it."""
        return sum(self)


@dataclass
class Seen:
    """One request: when it was sent, and first seen, bound to a member, and ended; by one clock, in seconds."""

    flow: str
    sent: float = 0.0
    added: float | None = None
    bound: float | None = None
    member: str = ""
    ended: float | None = None
    work: float = 0.0


class FlowHistory:
    """Requests by name, each member with at most `load` of them at a time."""

    def __init__(self, members: int, load: int) -> None:
        self.requests: dict[str, Seen] = {}
        self._places = members * load

    def found_all_taken(self, name: str) -> bool:
        """Return whether members had as many requests as they may have when this one was first seen."""
        added = _added(self.requests[name])
        taken = sum(_bound(other) < added < _ended(other) for other in self.requests.values())
        return taken >= self._places

    def waits(self, name: str) -> Waits:
        """Return what a request that has ended waited for."""
        request = self.requests[name]
        added, bound, ended = request.added, request.bound, request.ended
        if added is None or bound is None or ended is None:
            raise ValueError(f"{name} has not ended")
        others = [other for other in self.requests.values() if other is not request and other.bound is not None]
        freed = [_ended(other) for other in others if added < _ended(other) <= bound]
        place = max(freed, default=bound) - added if self.found_all_taken(name) else 0.0
        earlier = (other for other in others if other.member == request.member and _bound(other) < bound)
        behind = max((min(_ended(other), ended - request.work) - bound for other in earlier), default=0.0)
        behind = max(0.0, behind)
        return Waits(place, behind, request.work, ended - request.sent - place - behind - request.work)

    def ends_while_all_wait(self, flows: Iterable[str]) -> list[str]:
        """Return the flows of the requests that ended, in order, until one of the flows has none left that waits."""
        names = frozenset(flows)
        last_bound = {
            flow: max(_bound(request) for request in self.requests.values() if request.flow == flow) for flow in names
        }
        over = min(last_bound.values())
        ends = sorted(
            (_ended(request), request.flow)
            for request in self.requests.values()
            if request.flow in names and _ended(request) <= over
        )
        return [flow for _, flow in ends]


def jain(shares: Iterable[int]) -> float:
    """Return Jain's index of fairness: 1 where all shares are equal, 1/n where one has all."""
    values = list(shares)
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def jain_of(ends: Sequence[str], flows: Sequence[str]) -> float:
    """Return Jain's index of how often each flow is among these ends."""
    counts = Counter(ends)
    return jain(counts[flow] for flow in flows)


def windows(ends: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield each `size` ends in a row, all of them where there are fewer."""
    for first in range(max(1, len(ends) - size + 1)):
        yield ends[first : first + size]


def _added(request: Seen) -> float:
    return request.added if request.added is not None else float("inf")


def _bound(request: Seen) -> float:
    return request.bound if request.bound is not None else float("inf")


def _ended(request: Seen) -> float:
    return request.ended if request.ended is not None else float("inf")
