"""An eval of an instance beside the same eval as a Job, a pod for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.support.figures import Figure


class Comparison(NamedTuple):
    """What each part takes for one of both beyond rest, in ms of a processor, and the seconds of each Job."""

    of_an_eval: dict[str, float]
    of_a_job: dict[str, float]
    jobs: list[float]


def above_rest(spent: Mapping[str, float], rest: Mapping[str, float], elapsed: float) -> dict[str, float]:
    """Return what each part took of `elapsed` milliseconds for each beyond what it takes at rest, a share."""
    return {name: max(0.0, value - rest.get(name, 0.0) * elapsed) for name, value in spent.items()}


def share_of(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return the share of a processor that each part had in so many seconds."""
    return {name: (after[name] - before.get(name, 0.0)) / seconds for name in after}


def figures_of(comparison: Comparison) -> Iterator[Figure]:
    """Yield what an eval and a Job take, and how many times as much that is; nothing of a cluster elsewhere."""
    if not any(comparison.of_a_job.values()):
        return
    totals = []
    for title, parts in (("an eval beside Jobs", comparison.of_an_eval), ("a Job per eval", comparison.of_a_job)):
        for name, value in parts.items():
            yield Figure(f"{title}: {name}", value, "processor ms")
        totals.append(sum(parts.values()))
        yield Figure(f"{title}: together", totals[-1], "processor ms")
    ours, job = totals
    if ours:
        yield Figure("processor time of a Job per eval beside an eval", job / ours, "times")
