"""The PodDisruptionBudget of a pool: which pods it selects."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.manifests.disruption_budget import MAX_NAMED, build_disruption_budget
from tests.unit.controller.decide.test_pools import pool

POD_NAME = "statefulset.kubernetes.io/pod-name"


def selector(*members: str) -> dict[str, Any]:
    selected: dict[str, Any] = build_disruption_budget(pool(), members)["spec"]["selector"]
    return selected


def test_the_budget_is_of_the_pool_lets_no_pod_go_and_keeps_none_that_is_not_ready() -> None:
    budget = build_disruption_budget(pool(), ["crew-a"])
    meta, spec = budget["metadata"], budget["spec"]
    assert (budget["kind"], meta["name"], meta["namespace"]) == ("PodDisruptionBudget", "efrit-crew", "ns")
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in meta["ownerReferences"]] == [
        ("EfritPool", "u", True)
    ]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (0, "AlwaysAllow")


def test_it_selects_the_pods_of_the_members_by_name_in_one_order() -> None:
    assert selector("crew-b", "crew-a") == {
        "matchExpressions": [{"key": POD_NAME, "operator": "In", "values": ["efrit-crew-a-0", "efrit-crew-b-0"]}]
    }


def test_without_members_it_selects_no_pod() -> None:
    expressions = selector()["matchExpressions"]
    assert [(each["key"], each["operator"]) for each in expressions] == [
        (POD_NAME, "Exists"),
        (POD_NAME, "DoesNotExist"),
    ]


@pytest.mark.parametrize(("count", "is_by_name"), [(MAX_NAMED, True), (MAX_NAMED + 1, False)])
def test_beyond_a_number_of_members_it_selects_all_of_the_pool(count: int, is_by_name: bool) -> None:
    selected = selector(*(f"crew-{number}" for number in range(count)))
    if is_by_name:
        assert len(selected["matchExpressions"][0]["values"]) == count
    else:
        assert selected == {
            "matchLabels": {"app.kubernetes.io/managed-by": "efrit-operator", "efrit.dev/pool": "crew"}
        }
