"""The PodDisruptionBudget of a pool: an eviction leaves the members alone that it selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from efrit.api import EfritPool
from efrit.controller.manifests.member_owner import owner_reference
from efrit.controller.model import names
from efrit.controller.model.keys import Key
from efrit.resources import DISRUPTION_BUDGETS, POOLS

MAX_NAMED = 500
"""Members that are selected by name; where there are more, all members of the pool are selected."""


def build_disruption_budget(pool: EfritPool, members: Iterable[str]) -> dict[str, Any]:
    """Return the budget that lets no pod of these members be evicted, unless it is not Ready."""
    return _budget(pool.key, pool.metadata.uid, sorted(members))


def build_released_budget(pool: Key, uid: str) -> dict[str, Any]:
    """Return the budget of a pool that is gone: it selects nothing, and has an owner for which it is deleted.

    The garbage collector deletes what names an owner that does not exist: the operator has no right to.
    """
    return _budget(pool, uid, [])


def _budget(pool: Key, uid: str, members: list[str]) -> dict[str, Any]:
    namespace, name = pool
    return DISRUPTION_BUDGETS.manifest(
        {
            "name": names.disruption_budget_name(name),
            "namespace": namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.POOL_LABEL: name},
            "ownerReferences": [owner_reference(POOLS, name, uid)],
        },
        spec={
            "maxUnavailable": 0,
            # A pod that does not run well keeps nothing that a drain could wait for.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": _selector(name, members),
        },
    )


def _selector(pool: str, members: list[str]) -> dict[str, Any]:
    if len(members) > MAX_NAMED:  # gate: budget-bound
        return {"matchLabels": {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.POOL_LABEL: pool}}
    if not members:
        # An empty selector selects every pod of the namespace, and `In` takes no empty list.
        expressions = [{"key": names.POD_NAME_LABEL, "operator": "Exists"}]
        expressions += [{"key": names.POD_NAME_LABEL, "operator": "DoesNotExist"}]
        return {"matchExpressions": expressions}
    pods = [names.pod_name(member) for member in members]
    return {"matchExpressions": [{"key": names.POD_NAME_LABEL, "operator": "In", "values": pods}]}
