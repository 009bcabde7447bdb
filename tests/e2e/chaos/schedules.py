"""What the fixed schedules are made of: steady requests on one or two instances, with every way to end."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.faults.schedule import Op, Schedule, Step, Theme, Trigger
from tests.support.faults.workload import InstanceSpec, Kind, RequestSpec
from tests.support.timeout import TIMEOUT

RECOVERY_SECONDS = TIMEOUT
DRAIN_SECONDS = 5
EVAL_SECONDS = 600
NEVER_SECONDS = 2 * TIMEOUT
"""When a step comes though what it waits for has not: the test that expects it has failed by then."""
KINDS = (Kind.COUNT, Kind.SLEEP, Kind.COUNT, Kind.SLEEP, Kind.ERROR, Kind.SLEEP, Kind.LARGE, Kind.SLEEP)


def steady(
    prefix: str,
    count: int,
    *,
    instance: str = "one",
    seconds: float = 0.2,
    at: float = 0.0,
    span: float = 2.0,
    after: Op | None = None,
) -> tuple[RequestSpec, ...]:
    """Return requests that come evenly over `span` seconds; every third may be run again when it was interrupted.

    after: the operation from which their time counts, instead of the beginning.
    """
    return tuple(
        RequestSpec(
            name=f"{prefix}-{number}",
            marker=f"{prefix}w{number}",
            kind=KINDS[number % len(KINDS)],
            at=round(at + number * span / count, 2),
            instance=instance,
            seconds=seconds,
            size=50_000,
            attempts=2 if number % 3 == 0 else 1,
            # Longer than any takes: the limit of the instance is short, so that its pod ends soon.
            timeout=EVAL_SECONDS,
            after=after.value if after else "",
        )
        for number in range(count)
    )


def durable(name: str = "one") -> InstanceSpec:
    """Return an instance whose queue outlives its pod; its counter file is read as long as it exists."""
    return InstanceSpec(name, ephemeral_workspace=True, drain_seconds=DRAIN_SECONDS)


def ephemeral(name: str = "one") -> InstanceSpec:
    """Return an instance whose queue goes with its pod."""
    return InstanceSpec(name, ephemeral_queue=True, ephemeral_workspace=True, drain_seconds=DRAIN_SECONDS)


def step(op: Op, answered: int, target: str = "", seconds: float = 0.0, *, at: float = 120.0) -> Step:
    """Return a step that is due once so many requests are final."""
    return Step(op, Trigger(at, answered=answered), target, seconds)


def step_once_noted(op: Op, *noted: str) -> Step:
    """Return a step that is due once these events were noted, one after the other, however long that takes."""
    return Step(op, Trigger(NEVER_SECONDS, noted=noted))


def schedule(instances: Sequence[InstanceSpec], requests: Sequence[RequestSpec], *steps: Step) -> Schedule:
    """Return a schedule without a seed."""
    return Schedule(
        seed=0,
        theme=Theme.NODE,
        instances=tuple(instances),
        requests=tuple(requests),
        steps=steps,
        recovery_seconds=RECOVERY_SECONDS,
    )
