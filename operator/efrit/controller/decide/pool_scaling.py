"""How many members a pool is to have: what its user says, or what its open requests need.

The load counts what runs as well as what waits. The pool grows at once and shrinks once it has needed less for a
while: the largest number recommended within that time counts, as in Kubernetes' HorizontalPodAutoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from efrit.api import ConditionStatus, PoolReason
from efrit.api.pool import Autoscaling
from efrit.controller.decide.condition_state import ConditionState
from efrit.controller.model.pools import PoolSnapshot, Recommendation

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many members there are to be, and why."""

    wanted: int
    recommendation: Recommendation | None = None
    """What the open requests need now, to be remembered; None without autoscaling."""
    reason: str = ""
    limited: ConditionState | None = None
    requeue_after: timedelta | None = None


def scaling(snapshot: PoolSnapshot, now: datetime) -> Scaling:
    """Return how many members a pool is to have now."""
    spec = snapshot.pool.spec
    if spec.autoscaling is None:
        return Scaling(spec.replicas if spec.replicas is not None else 1)
    limits, spares = spec.autoscaling, spec.warm.spares if spec.warm is not None else 0
    load = snapshot.pending + sum(member.load for member in snapshot.members if not member.deleting)
    # Rounded up: a member for the rest, too.
    needed = -(-load // limits.target_load_per_instance) + snapshot.claims + spares
    within = min(max(needed, limits.min_replicas), limits.max_replicas)
    limited = _bounds(limits, needed)
    recommendation = Recommendation(now, within)
    current = snapshot.desired
    if current is None or not snapshot.listed:
        # Nothing is known of the load yet: as many as there are.
        there = sum(not member.deleting for member in snapshot.members)
        current = min(max(there if current is None else current, limits.min_replicas), limits.max_replicas)
        if not snapshot.listed:
            return Scaling(current, None, limited=limited)
    if within > current:
        return _grow(snapshot, limits, current, recommendation, limited, load, now)
    return _shrink(snapshot, limits, current, recommendation, limited, load, now)


def _grow(
    snapshot: PoolSnapshot,
    limits: Autoscaling,
    current: int,
    recommendation: Recommendation,
    limited: ConditionState,
    load: int,
    now: datetime,
) -> Scaling:
    reason = f"{load} open requests need more members than {current}."
    most = limits.scale_up.max_per_minute
    if most is None:
        return Scaling(recommendation.members, recommendation, reason, limited)
    recent = [growth for growth in snapshot.growths if now - MINUTE < growth.time <= now]
    room = max(0, most - sum(growth.members for growth in recent))
    if current + room >= recommendation.members:
        return Scaling(recommendation.members, recommendation, reason, limited)
    message = f"{recommendation.members} members are needed; autoscaling.scaleUp adds {most} within a minute."
    slow = ConditionState(ConditionStatus.TRUE, PoolReason.SCALE_UP_RATE, message)
    left = min((growth.time + MINUTE - now for growth in recent), default=MINUTE)
    return Scaling(current + room, recommendation, reason, slow, left)


def _shrink(
    snapshot: PoolSnapshot,
    limits: Autoscaling,
    current: int,
    recommendation: Recommendation,
    limited: ConditionState,
    load: int,
    now: datetime,
) -> Scaling:
    window = timedelta(seconds=limits.scale_down.stabilization_seconds)
    recent = [earlier for earlier in snapshot.recommendations if now - window < earlier.time <= now]
    most = max((earlier.members for earlier in recent), default=0)
    wanted = min(current, max(most, recommendation.members))
    if wanted <= recommendation.members:
        reason = f"{load} open requests need fewer members than {current}."
        return Scaling(wanted, recommendation, reason if wanted < current else "", limited)
    ends = max(earlier.time for earlier in recent if earlier.members >= wanted) + window
    reason = f"{most} members at most were needed within {limits.scale_down.stabilization_seconds} s."
    return Scaling(wanted, recommendation, reason, limited, ends - now)


def _bounds(limits: Autoscaling, needed: int) -> ConditionState:
    if needed > limits.max_replicas:
        message = f"{needed} members are needed, autoscaling.maxReplicas is {limits.max_replicas}."
        return ConditionState(ConditionStatus.TRUE, PoolReason.AT_MAXIMUM, message)
    if needed < limits.min_replicas:
        message = "Fewer members are needed than autoscaling.minReplicas."
        return ConditionState(ConditionStatus.TRUE, PoolReason.AT_MINIMUM, message)
    message = "As many members as are needed are allowed."
    return ConditionState(ConditionStatus.FALSE, PoolReason.WITHIN_BOUNDS, message)
