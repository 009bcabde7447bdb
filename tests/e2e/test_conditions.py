"""A spec that cannot work says why, in a reason for programs and a sentence for people, and can be mended.

All mistakes are made together, each in a namespace of its own, and mended together: what takes a while then takes it
for all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.e2e.conftest import NewNamespace
from tests.e2e.instance import QUEUE_VOLUME, Instance, Request
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

CLASS = "efrit-e2e-absent"
QUOTA = "nothing-left"
ABSENT_IMAGE = "localhost/efrit/absent:1"
NO_TERMS: Json = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
MODEL = {"name": "some-model", "apiKeySecretRef": {"name": "absent-key", "key": "api-key"}}


class Case(NamedTuple):
    """One mistake, what is said of it, and how it is mended."""

    spec: Json
    reason: str
    says: str
    mend: Callable[[Instance], object]
    quota: str = ""
    """What the namespace has none left of."""


def mounted(source: Json) -> Json:
    mount = {"name": "extra", "mountPath": "/extra"}
    return {"podTemplate": {"volumes": [{"name": "extra", **source}], "volumeMounts": [mount]}}


def patch(**spec: object) -> Callable[[Instance], object]:
    return lambda instance: instance.patch(**spec)


def make(kind: str, name: str, **fields: object) -> Callable[[Instance], object]:
    """Return what creates an object in the instance's namespace."""
    return lambda instance: instance.kube.create(kind, instance.namespace, {"metadata": {"name": name}, **fields})


def lift_quota(instance: Instance) -> None:
    instance.kube.discard("ResourceQuota", instance.namespace, QUOTA)


def make_class(instance: Instance) -> None:
    """Create the StorageClass, as a copy of the default one."""
    marker = "storageclass.kubernetes.io/is-default-class"
    classes = instance.kube.list("StorageClass", None)
    default = next(
        storage_class
        for storage_class in classes
        if storage_class["metadata"].get("annotations", {}).get(marker) == "true"
    )
    copied = {key: default[key] for key in ("provisioner", "reclaimPolicy", "volumeBindingMode")}
    instance.kube.create("StorageClass", None, {"metadata": {"name": CLASS}, **copied})


CASES = {
    "image": Case(
        {"emacs": {"image": ABSENT_IMAGE, "imagePullPolicy": "Never"}},
        "ImagePullFailed",
        ABSENT_IMAGE,
        patch(emacs={"image": None, "imagePullPolicy": None}),
    ),
    "config-map": Case(
        mounted({"configMap": {"name": "absent-map"}}), "ConfigMissing", "absent-map", make("ConfigMap", "absent-map")
    ),
    "secret": Case(
        mounted({"secret": {"secretName": "absent-secret"}}),
        "ConfigMissing",
        "absent-secret",
        patch(podTemplate={"volumes": None, "volumeMounts": None}),
    ),
    "api-key": Case(
        {"model": MODEL}, "ConfigMissing", "absent-key", make("Secret", "absent-key", stringData={"api-key": "k"})
    ),
    "env-from": Case(
        {"podTemplate": {"envFrom": [{"secretRef": {"name": "absent-env"}}]}},
        "ConfigMissing",
        "absent-env",
        make("Secret", "absent-env", stringData={"GREETING": "hello"}),
    ),
    "storage-class": Case(
        {"queue": {"storage": {"size": "64Mi", "storageClassName": CLASS}}}, "VolumePending", CLASS, make_class
    ),
    "node": Case(
        {"podTemplate": {"nodeSelector": {"efrit.dev/no-such-node": "true"}}},
        "Unschedulable",
        "node",
        patch(podTemplate={"nodeSelector": None}),
    ),
    "affinity": Case(
        {"podTemplate": {"affinity": NO_TERMS}},
        "ChildRefused",
        "nodeSelectorTerms",
        patch(podTemplate={"affinity": None}),
    ),
    "no-pods": Case({}, "ChildRefused", f"exceeded quota: {QUOTA}", lift_quota, quota="pods"),
    "no-volumes": Case(
        QUEUE_VOLUME, "ChildRefused", f"exceeded quota: {QUOTA}", lift_quota, quota="persistentvolumeclaims"
    ),
}


@pytest.fixture(scope="module")
def began() -> float:
    """When the mistakes were made."""
    return time.monotonic()


@pytest.fixture(scope="module")
def broken(kube: Kube, new_namespace: NewNamespace, began: float) -> Iterator[dict[str, Instance]]:
    """One instance for each mistake."""
    namespaces = {name: new_namespace() for name in CASES}
    for name, case in CASES.items():
        if case.quota:
            spec = {"hard": {case.quota: "0"}}
            kube.create("ResourceQuota", namespaces[name], {"metadata": {"name": QUOTA}, "spec": spec})

    def in_force() -> bool:
        quotas = [kube.get("ResourceQuota", namespaces[name], QUOTA) for name, case in CASES.items() if case.quota]
        return all(quota.get("status", {}).get("hard") for quota in quotas)

    until(in_force, "the quotas are not in force")
    yield {name: Instance.create(kube, namespaces[name], name, **case.spec) for name, case in CASES.items()}
    kube.discard("StorageClass", None, CLASS)
    for namespace in namespaces.values():
        kube.discard("Namespace", None, namespace)


@pytest.fixture(scope="module")
def waiting(broken: dict[str, Instance]) -> dict[str, Request]:
    """Send a request to each of them before anything is mended; return the requests."""
    return {name: instance.send("'patient") for name, instance in broken.items()}


@pytest.fixture(scope="module")
def mended(broken: dict[str, Instance], waiting: dict[str, Request]) -> dict[str, Instance]:
    """Mend each mistake; return the same instances."""
    for name, case in CASES.items():
        case.mend(broken[name])
    return broken


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_by_a_reason_a_sentence_and_an_event(broken: dict[str, Instance], name: str) -> None:
    instance, case = broken[name], CASES[name]

    def matching_condition() -> Json | None:
        condition = instance.condition()
        return condition if condition["reason"] == case.reason and case.says in condition["message"] else None

    condition = until(
        matching_condition, lambda: f"Ready does not say {case.reason} and {case.says}\n{instance.diagnostics()}"
    )
    assert condition["status"] == "False"
    assert instance.get()["status"]["phase"] in ("Pending", "NotReady")

    def event() -> bool:
        events = kubectl("describe", "efi", instance.name, "-n", instance.namespace).partition("\nEvents:")[2]
        return any(case.reason in line and "Warning" in line for line in events.splitlines())

    until(event, lambda: f"no event says {case.reason}\n{instance.diagnostics()}")


def test_a_request_waits_with_a_reason_for_an_instance_that_cannot_start(waiting: dict[str, Request]) -> None:
    assert waiting["node"].wait_reason("InstanceNotReady")["phase"] == "Pending"


@pytest.mark.parametrize("name", CASES)
def test_a_mended_instance_becomes_ready_and_answers_what_has_waited(
    mended: dict[str, Instance], waiting: dict[str, Request], name: str, began: float
) -> None:
    # Kubelet and StatefulSet controller try again after as long as it was wrong before.
    mended[name].wait_ready(TIMEOUT + time.monotonic() - began)
    assert waiting[name].wait()["result"] == "patient"
