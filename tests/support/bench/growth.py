"""What an eval and its floor cost beside more and more objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.support.figures import Figure

KINDS = {"instances": "instances (simulated)", "open": "open requests", "finished": "finished requests"}


class Cost(NamedTuple):
    """What an eval takes.

    parts: milliseconds of a processor for each of a burst. writes: what the API server writes for it, by resource.
    p50, p99: milliseconds on the clock of one that comes alone.
    """

    parts: dict[str, float]
    p50: float
    p99: float
    writes: Mapping[str, float] = {}

    @property
    def together(self) -> float:
        return sum(self.parts.values())


class Measured(NamedTuple):
    """An eval beside so many objects, and its floor."""

    cost: Cost
    floor: Cost


def figures_of(kind: str, row: Mapping[int, Measured]) -> Iterator[Figure]:
    """Yield the figures of a kind by its numbers, and the growth from the smallest to the largest."""
    for number, (cost, floor) in row.items():
        title = f"{number:,} {KINDS[kind]}"
        for name, value in cost.parts.items():
            yield Figure(f"{title}: {name}", value, "processor ms", floor=floor.together)
        yield Figure(f"{title}: its floor", floor.together, "processor ms", floor=floor.together)
        most = ", ".join(f"{name} {value:.2f}" for name, value in list(cost.writes.items())[:4])
        yield Figure(f"{title}: writes for each eval", sum(cost.writes.values()), "writes", detail=f"({most})")
        yield Figure(f"{title}: an eval, p50", cost.p50, "ms", floor=floor.p50)
        yield Figure(f"{title}: an eval, p99", cost.p99, "ms", floor=floor.p99)
        yield Figure(f"{title}: its floor, p50", floor.p50, "ms", detail=f"(p99 {floor.p99:.0f})", floor=floor.p50)
    if not row:
        return
    first, last = min(row), max(row)
    (small, small_floor), (large, large_floor) = row[first], row[last]
    growth = f"beside {last:,} {KINDS[kind]} to one beside {first:,}"
    yield Figure(f"an eval {growth}", large.together / small.together, "times", "<= 1.5")
    yield Figure(f"its floor {growth}", large_floor.together / small_floor.together, "times")
    yield Figure(f"an eval {growth}, p50", large.p50 / small.p50, "times")
