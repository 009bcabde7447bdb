"""What evals take that come at a steady rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.support.figures import Figure

P99_SECONDS = 0.25
"""What the p99 of a rate that is sustained may be."""


class Rate(NamedTuple):
    """What so many evals at a rate took, in seconds."""

    rate: float
    p50: float
    p99: float
    evals: int


def are_too_fast(tried: Sequence[Rate]) -> bool:
    """Whether the last two rates were above the limit: one alone may have met a moment of other work."""
    return len(tried) > 1 and all(one.p99 > P99_SECONDS for one in tried[-2:])


def highest(tried: Sequence[Rate]) -> float:
    """Return the highest rate that is sustained, 0 where none is."""
    return max((one.rate for one in tried if one.p99 <= P99_SECONDS), default=0.0)


def figures_of(tried: Sequence[Rate], floor: float) -> Iterator[Figure]:
    """Yield the highest that is sustained, and the p99 of each, up to the lowest that is too fast.

    floor: the p50 of a create and one patch of the status, in seconds. At a rate that is too fast the queue grows,
    and the p99 says how long it was tried: with the same number of evals it can be compared all the same.
    """
    too_fast = ", ".join(f"{one.rate:g}/s: p99 {one.p99 * 1000:.0f} ms" for one in tried if one.p99 > P99_SECONDS)
    detail = f"({too_fast})" if too_fast else ""
    yield Figure("highest rate of those tried with p99 <= 250 ms", highest(tried), "/s", detail=detail)
    lowest = min((one.rate for one in tried if one.p99 > P99_SECONDS), default=math.inf)
    for one in tried:
        if one.rate > lowest:
            continue
        detail = f"(p50 {one.p50 * 1000:.0f}, n={one.evals})"
        yield Figure(f"at a steady {one.rate:g}/s, p99", one.p99 * 1000, "ms", detail=detail, floor=floor * 1000)
