"""Which open plans belong to which instance: an index over the records of plans, so that no decision scans them.

A plan is counted for its instance. One that an earlier process may have begun is counted for its pool until its
requests, which name the instance, have been listed: any member may have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from efrit.api import EfritPlan
from efrit.controller.model.keys import Key


class PlanTarget(NamedTuple):
    """An instance, or a pool of them."""

    kind: Literal["instance", "pool"]
    key: Key


@dataclass(frozen=True, slots=True)
class PlanCount:
    """How many open plans there are."""

    active: int = 0
    suspended: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.active + self.suspended


def instance_of(plan: EfritPlan, instance_names: Iterable[str | None]) -> str | None:
    """Return the name of a plan's instance, None while no pool has chosen; `instance_names` are of its requests."""
    reference = plan.spec.instance_ref
    names = (plan.status.instance_name, reference.name if reference is not None else None, *instance_names)
    return next(filter(None, names), None)


def target_of_plan(plan: EfritPlan, instance_names: Iterable[str | None], *, complete: bool) -> PlanTarget | None:
    """Return the target of an open plan, None while no pool has chosen.

    `instance_names` are those of its requests that are known, all of them if `complete`.
    """
    namespace, spec = plan.metadata.namespace, plan.spec
    name = instance_of(plan, instance_names)
    if name is not None:
        return PlanTarget("instance", (namespace, name))
    if spec.pool_ref is not None and not complete:
        return PlanTarget("pool", (namespace, spec.pool_ref.name))
    return None


class PlansByTarget:
    """Open plans by target. Each change costs the same, however many plans there are."""

    def __init__(self) -> None:
        self._targets: dict[Key, tuple[PlanTarget, bool]] = {}
        self._active: dict[PlanTarget, int] = defaultdict(int)
        self._suspended: dict[PlanTarget, int] = defaultdict(int)

    def set_target(self, plan: Key, target: PlanTarget | None, *, suspended: bool) -> set[PlanTarget]:
        """Count an open plan for its target, None to take it out; return the targets whose count has changed."""
        new = (target, suspended) if target is not None else None
        old = self._targets.get(plan)
        if new == old:
            return set()
        changed = set()
        if old is not None:
            self._add(*old, -1)
            changed.add(old[0])
            del self._targets[plan]
        if new is not None:
            self._add(*new, 1)
            changed.add(new[0])
            self._targets[plan] = new
        return changed

    def count(self, target: PlanTarget) -> PlanCount:
        """Return how many open plans a target has."""
        return PlanCount(self._active.get(target, 0), self._suspended.get(target, 0))

    def _add(self, target: PlanTarget, suspended: bool, number: int) -> None:
        counts = self._suspended if suspended else self._active
        counts[target] += number
        if not counts[target]:
            del counts[target]
