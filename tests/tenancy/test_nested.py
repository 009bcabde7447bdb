"""A tenant's objects that are deeper or older than a parser reads: the controller serves on, and starts again."""

from __future__ import annotations

import json
from contextlib import suppress

from efrit.resources import INSTANCES, PODS, REQUESTS, Resource
from tests.support.kube import Json, until
from tests.support.tenants import Tenant, Tenants

DEPTH = 5000
SPECS: dict[Resource, Json] = {
    REQUESTS: {"spec": {"type": "eval", "content": "1", "instanceRef": {"name": "one"}}},
    INSTANCES: {"spec": {"operatingMode": "Suspended"}},
    PODS: {"spec": {"containers": [{"name": "c", "image": "i"}]}},
}


def create_nested(tenant: Tenant, resource: Resource) -> None:
    """Create an object whose metadata says of a field deep within it who owns it."""
    fields = '{"f:spec":' + '{"f:a":' * DEPTH + "{}" + "}" * DEPTH + "}"
    owned: Json = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}
    meta: Json = {
        "name": "deep",
        "labels": {"efrit.dev/instance": "deep", "app.kubernetes.io/managed-by": "efrit-operator"},
        "managedFields": [{**owned, "apiVersion": resource.api_version, "fieldsV1": "FIELDS"}],
    }
    text = json.dumps(resource.manifest(meta, **SPECS[resource])).replace('"FIELDS"', fields)
    # What was created is as deep.
    with suppress(RecursionError):
        tenant.kube.call("POST", resource.path(tenant.namespace), text.encode())


def create_pod_of_the_year_0(tenant: Tenant) -> None:
    """Create a pod as of an instance, whose status says that it started then."""
    kube, namespace, name = tenant.kube, tenant.namespace, "efrit-old-0"
    labels = {"efrit.dev/instance": "old", "app.kubernetes.io/managed-by": "efrit-operator"}
    kube.create("pods", namespace, {"metadata": {"name": name, "labels": labels}, **SPECS[PODS]})
    kube.patch("pods", namespace, name, {"status": {"startTime": "0000-01-01T00:00:00Z"}}, "status")


def test_objects_that_cannot_be_read_keep_nobody_waiting_and_no_controller_from_starting(tenants: Tenants) -> None:
    for resource in SPECS:
        create_nested(tenants.loud, resource)

    create_pod_of_the_year_0(tenants.loud)

    assert tenants.answer(tenants.quiet)["phase"] == "Succeeded"

    tenants.operator.stop()
    tenants.operator.start()
    assert tenants.answer(tenants.quiet)["phase"] == "Succeeded"
    until(lambda: tenants.loud.bridge.handed_over or None, "the request that is nested is not handed over")
