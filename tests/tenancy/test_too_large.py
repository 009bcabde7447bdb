"""An instance that a tenant has made too large: its isolation, its credentials and its suspension go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, Kube, until
from tests.support.tenants import Tenants

PATCH: Json = {"env": [{"name": f"V{number}", "value": "x" * 2000} for number in range(100)]}


@pytest.fixture
def tenants(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Tenants]:
    """Whose Secrets are applied again every second."""
    with Tenants(plane, kube, audit_log, lisp, env={"EFRIT_SECRET_CHECK_SECONDS": "1"}) as made:
        yield made


def test_what_there_is_of_an_instance_stays_safe_and_it_can_be_suspended_though_its_spec_is_too_large(
    tenants: Tenants,
) -> None:
    kube, namespace = tenants.kube, tenants.loud.namespace
    before = kube.get("statefulsets", namespace, "efrit-one")["spec"]
    secret = kube.get("secrets", namespace, "efrit-one-bridge")
    policy = kube.get("networkpolicies", namespace, "efrit-one")
    egress = [{"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}]
    spec = {"podTemplate": PATCH, "network": {"egress": egress}}
    kube.patch("efritinstances", namespace, "one", {"spec": spec})
    refused = tenants.until_ready(tenants.loud, reason="ChildRefused")
    assert "128 KiB are allowed: shorten them." in refused["message"]

    def replaced(plural: str, old: Json) -> Json | None:
        there = kube.find(plural, namespace, old["metadata"]["name"])
        return there if there is not None and there["metadata"]["uid"] != old["metadata"]["uid"] else None

    kube.delete("networkpolicies", namespace, "efrit-one")
    made = until(lambda: replaced("networkpolicies", policy), "its network is open")
    assert egress[0] in made["spec"]["egress"]
    kube.delete("secrets", namespace, "efrit-one-bridge")
    made = until(lambda: replaced("secrets", secret), "its Secret is gone")
    assert made["data"].keys() == secret["data"].keys()

    kube.patch("efritinstances", namespace, "one", {"spec": {"operatingMode": "Suspended"}})
    until(lambda: kube.get("statefulsets", namespace, "efrit-one")["spec"]["replicas"] == 0 or None, "it has a pod")
    assert kube.get("statefulsets", namespace, "efrit-one")["spec"] == {**before, "replicas": 0}

    kube.patch("efritinstances", namespace, "one", {"spec": {"operatingMode": "Running", "podTemplate": None}})
    until(lambda: kube.get("statefulsets", namespace, "efrit-one")["spec"]["replicas"] == 1 or None, "it has no pod")
    assert tenants.answer(tenants.quiet)["phase"] == "Succeeded"
