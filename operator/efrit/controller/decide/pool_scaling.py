"""How many members a pool is to have: what its user says, or what its open requests need.

The load counts what runs as well as what waits. The pool grows at once and shrinks once it has needed less for a
while: the largest number recommended within that time counts, as in Kubernetes' HorizontalPodAutoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

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


class _Need(NamedTuple):
    """What a pool with an autoscaler needs, and what it is to have at present."""

    limits: Autoscaling
    cause: str
    """What asks for members: `3 open requests and 1 spare`."""
    current: int
    recommendation: Recommendation
    limited: ConditionState


def scaling(snapshot: PoolSnapshot, now: datetime) -> Scaling:
    """Return how many members a pool is to have now."""
    spec = snapshot.pool.spec
    if spec.autoscaling is None:
        return Scaling(spec.replicas if spec.replicas is not None else 1)
    limits = spec.autoscaling
    running = sum(member.load for member in snapshot.members if not member.deleting)
    load = snapshot.pending + running  # gate: scale-running
    # Rounded up: a member for the rest, too.
    busy = -(-load // limits.target_load_per_instance) + snapshot.claims
    spares = spec.warm.spares_beside(busy) if spec.warm is not None else 0
    needed = busy + spares  # gate: scale-spares
    within = min(max(needed, limits.min_replicas), limits.max_replicas)
    limited = _bounds(limits, needed)
    recommendation = Recommendation(now, within)
    current = snapshot.desired
    if current is None or not snapshot.listed:
        # Nothing is known of the load yet: as many as there are.
        present = sum(not member.deleting for member in snapshot.members)
        current = min(max(present if current is None else current, limits.min_replicas), limits.max_replicas)
        if not snapshot.listed:
            return Scaling(current, None, limited=limited)
    need = _Need(limits, _sentence(load, snapshot.claims, spares), current, recommendation, limited)
    return _grow(snapshot, need, now) if within > current else _shrink(snapshot, need, now)


def _sentence(load: int, claims: int, spares: int) -> str:
    parts = [_counted(load, "open request")]
    parts += [_counted(count, noun) for count, noun in ((claims, "waiting claim"), (spares, "spare")) if count]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _grow(snapshot: PoolSnapshot, need: _Need, now: datetime) -> Scaling:
    needed, most = need.recommendation.members, need.limits.scale_up.max_per_minute
    reason = f"{need.cause}: more than {_counted(need.current, 'member')}."
    if most is None:
        return Scaling(needed, need.recommendation, reason, need.limited)
    recent = [growth for growth in snapshot.growths if now - MINUTE < growth.time <= now]
    room = max(0, most - sum(growth.members for growth in recent))
    if need.current + room >= needed:
        return Scaling(needed, need.recommendation, reason, need.limited)
    message = f"{needed} members are needed; autoscaling.scaleUp adds {most} within a minute."
    slow = ConditionState(ConditionStatus.TRUE, PoolReason.SCALE_UP_RATE, message)
    wait = min((growth.time + MINUTE - now for growth in recent), default=MINUTE)
    return Scaling(need.current + room, need.recommendation, reason, slow, wait)


def _shrink(snapshot: PoolSnapshot, need: _Need, now: datetime) -> Scaling:
    needed, seconds = need.recommendation.members, need.limits.scale_down.stabilization_seconds
    window = timedelta(seconds=seconds)
    recent = [earlier for earlier in snapshot.recommendations if now - window < earlier.time <= now]
    most = max((earlier.members for earlier in recent), default=0)
    wanted = min(need.current, max(most, needed))  # gate: scale-window
    if wanted > need.limits.max_replicas:  # gate: scale-lowered-maximum
        reason = f"autoscaling.maxReplicas is {need.limits.max_replicas}."
        return Scaling(need.limits.max_replicas, need.recommendation, reason, need.limited)
    if wanted <= needed:
        reason = f"{need.cause}: fewer than {_counted(need.current, 'member')}."
        return Scaling(wanted, need.recommendation, reason if wanted < need.current else "", need.limited)
    ends = max(earlier.time for earlier in recent if earlier.members >= wanted) + window
    reason = f"{most} members at most were needed within {seconds} s."
    return Scaling(wanted, need.recommendation, reason, need.limited, ends - now)


def _bounds(limits: Autoscaling, needed: int) -> ConditionState:
    if needed > limits.max_replicas:
        message = f"{needed} members are needed, autoscaling.maxReplicas is {limits.max_replicas}."
        return ConditionState(ConditionStatus.TRUE, PoolReason.AT_MAXIMUM, message)
    if needed < limits.min_replicas:
        message = "Fewer members are needed than autoscaling.minReplicas."
        return ConditionState(ConditionStatus.TRUE, PoolReason.AT_MINIMUM, message)
    message = "As many members as are needed are allowed."
    return ConditionState(ConditionStatus.FALSE, PoolReason.WITHIN_BOUNDS, message)
