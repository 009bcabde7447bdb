"""Which open plans live on which instance: an index over the records of plans, so that no decision scans them.

A plan is filed under its instance. One that an earlier process may have begun is filed under its pool until its
requests, which tell the instance, have been listed: any member may be its home.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from efrit.api import EfritPlan
from efrit.controller.model.keys import Key


class Home(NamedTuple):
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


def home_of(plan: EfritPlan, instance_names: Iterable[str | None], *, complete: bool) -> Home | None:
    """Return where an open plan lives, None while no pool has chosen.

    `instance_names` are those of its requests that are known, all of them if `complete`.
    """
    namespace, spec = plan.metadata.namespace, plan.spec
    name = instance_of(plan, instance_names)
    if name is not None:
        return Home("instance", (namespace, name))
    if spec.pool_ref is not None and not complete:
        return Home("pool", (namespace, spec.pool_ref.name))
    return None


class PlanHomes:
    """Open plans by home. Each change costs the same, however many plans there are."""

    def __init__(self) -> None:
        self._filed: dict[Key, tuple[Home, bool]] = {}
        self._active: dict[Home, int] = defaultdict(int)
        self._suspended: dict[Home, int] = defaultdict(int)

    def file(self, plan: Key, home: Home | None, *, suspended: bool) -> set[Home]:
        """File an open plan under its home, None to take it out; return the homes whose count has changed."""
        new = (home, suspended) if home is not None else None
        old = self._filed.get(plan)
        if new == old:
            return set()
        changed = set()
        if old is not None:
            self._add(*old, -1)
            changed.add(old[0])
            del self._filed[plan]
        if new is not None:
            self._add(*new, 1)
            changed.add(new[0])
            self._filed[plan] = new
        return changed

    def count(self, home: Home) -> PlanCount:
        """Return how many open plans a home has."""
        return PlanCount(self._active.get(home, 0), self._suspended.get(home, 0))

    def _add(self, home: Home, suspended: bool, number: int) -> None:
        counts = self._suspended if suspended else self._active
        counts[home] += number
        if not counts[home]:
            del counts[home]
