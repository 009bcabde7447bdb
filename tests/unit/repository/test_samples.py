"""The sample for KEDA has fields that KEDA reads: names and types of its version 2.21, which is not installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents

SCALED_OBJECT: dict[str, type] = {
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "idleReplicaCount": int,
    "pollingInterval": int,
    "cooldownPeriod": int,
    "initialCooldownPeriod": int,
    "scaleTargetRef": dict,
    "triggers": list,
    "advanced": dict,
    "fallback": dict,
}
TARGET: dict[str, type] = {"apiVersion": str, "kind": str, "name": str, "envSourceContainerName": str}
TRIGGER: dict[str, type] = {
    "type": str,
    "name": str,
    "metadata": dict,
    "metricType": str,
    "useCachedMetrics": bool,
    "authenticationRef": dict,
}
PROMETHEUS_NEEDS = {"serverAddress", "query", "threshold"}
PROMETHEUS: dict[str, type] = dict.fromkeys(
    PROMETHEUS_NEEDS
    | {
        *("activationThreshold", "namespace", "queryParameters", "customHeaders", "ignoreNullValues"),
        *("unsafeSsl", "timeout", "authModes"),
    },
    str,
)


def mistakes(spec: dict[str, Any]) -> list[str]:
    """Return what KEDA would refuse or not read in the spec of a ScaledObject for Prometheus."""
    triggers: list[dict[str, Any]] = spec.get("triggers") or [{}]
    places: list[tuple[str, dict[str, Any], dict[str, type], set[str]]] = [
        ("spec", spec, SCALED_OBJECT, {"scaleTargetRef", "triggers"}),
        ("scaleTargetRef", spec.get("scaleTargetRef") or {}, TARGET, {"name"}),
        *(("trigger", trigger, TRIGGER, {"type", "metadata"}) for trigger in triggers),
        # Each value is a text, also a number.
        *(("metadata", trigger.get("metadata") or {}, PROMETHEUS, PROMETHEUS_NEEDS) for trigger in triggers),
    ]
    return [
        f"{place}.{name}"
        for place, has, types, needed in places
        for name in sorted(needed | set(has))
        if type(has.get(name)) is not types.get(name)
    ]


def scaled_object() -> dict[str, Any]:
    sample: dict[str, Any] = yaml_documents.load((REPOSITORY / "samples/pool-keda/scaledobject.yaml").read_text())
    assert (sample["apiVersion"], sample["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec: dict[str, Any] = sample["spec"]
    return spec


def test_the_sample_of_keda_has_the_fields_that_keda_reads() -> None:
    spec = scaled_object()
    assert mistakes(spec) == []
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert spec["minReplicaCount"] == 0


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"cooldown": 300}, ["spec.cooldown"]),
        ({"maxReplicaCount": "20"}, ["spec.maxReplicaCount"]),
        ({"scaleTargetRef": {"kind": "EfritPool"}}, ["scaleTargetRef.name"]),
        (
            {"triggers": [{"type": "prometheus"}]},
            ["trigger.metadata", *(f"metadata.{n}" for n in sorted(PROMETHEUS_NEEDS))],
        ),
        (
            {"triggers": [{"type": "prometheus", "metadata": {"serverAddress": "x", "query": "y", "threshold": 2}}]},
            ["metadata.threshold"],
        ),
    ],
)
def test_what_keda_would_not_take_is_noticed(change: dict[str, Any], found: list[str]) -> None:
    assert mistakes(scaled_object() | change) == found
