"""The PodDisruptionBudget of a pool: an eviction leaves the members alone that it selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from efrit.api import EfritPool
from efrit.controller.manifests.member_owner import owner_reference
from efrit.controller.model import names
from efrit.resources import DISRUPTION_BUDGETS, POOLS

MAX_NAMED = 500
"""Members that are selected by name; where there are more, all members of the pool are selected."""


def build_disruption_budget(pool: EfritPool, members: Iterable[str]) -> dict[str, Any]:
    """Return the budget that lets no pod of these members be evicted, unless it is not Ready."""
    meta = pool.metadata
    return DISRUPTION_BUDGETS.manifest(
        {
            "name": names.disruption_budget_name(meta.name),
            "namespace": meta.namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.POOL_LABEL: meta.name},
            "ownerReferences": [owner_reference(POOLS, meta.name, meta.uid)],
        },
        spec={
            "maxUnavailable": 0,
            # A pod that does not run well keeps nothing that a drain could wait for.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": _selector(meta.name, sorted(members)),
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
