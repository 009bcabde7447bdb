"""A spec that cannot work says why, in a reason for programs and a sentence for people, and can be mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.e2e.conftest import NewNamespace
from tests.e2e.instance import SMALL, Instance
from tests.e2e.kube import Json, Kube, kubectl, until

pytestmark = pytest.mark.timeout(240)

CLASS = "efrit-e2e-absent"
ABSENT_IMAGE = "localhost/efrit/absent:1"
NO_TERMS = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
MODEL = {"name": "some-model", "apiKeySecretRef": {"name": "absent-key", "key": "api-key"}}


class Case(NamedTuple):
    """One mistake, what is said of it, and how it is mended."""

    spec: Json
    reason: str
    says: str
    mend: Callable[[Instance], object]


def volume(source: Json) -> Json:
    return {"podTemplate": {"volumes": [{"name": "extra", **source}]}}


def make(kind: str, name: str, **fields: object) -> Callable[[Instance], object]:
    """Return what creates an object in the instance's namespace."""
    return lambda instance: instance.kube.create(kind, instance.namespace, {"metadata": {"name": name}, **fields})


def make_class(instance: Instance) -> None:
    """Create the StorageClass, as a copy of the default one."""
    defaults = [
        each
        for each in instance.kube.list("StorageClass", None)
        if each["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    ]
    copied = {key: defaults[0][key] for key in ("provisioner", "reclaimPolicy", "volumeBindingMode")}
    instance.kube.create("StorageClass", None, {"metadata": {"name": CLASS}, **copied})


CASES = {
    "image": Case(
        {"emacs": {"image": ABSENT_IMAGE, "imagePullPolicy": "Never"}},
        "ImagePullFailed",
        ABSENT_IMAGE,
        lambda instance: instance.patch(emacs={"image": None, "imagePullPolicy": None}),
    ),
    "config-map": Case(
        volume({"configMap": {"name": "absent-map"}}), "ConfigMissing", "absent-map", make("ConfigMap", "absent-map")
    ),
    "secret": Case(
        volume({"secret": {"secretName": "absent-secret"}}),
        "ConfigMissing",
        "absent-secret",
        lambda instance: instance.patch(podTemplate={"volumes": []}),
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
        lambda instance: instance.patch(podTemplate={"nodeSelector": None}),
    ),
    "affinity": Case(
        {"podTemplate": {"affinity": NO_TERMS}},
        "ChildRefused",
        "nodeSelectorTerms",
        lambda instance: instance.patch(podTemplate={"affinity": None}),
    ),
}


@pytest.fixture(scope="module")
def broken(kube: Kube, shared_namespace: str) -> Iterator[dict[str, Instance]]:
    """One instance for each mistake, made together: what takes a while to show shows for all at once."""
    yield {name: Instance.create(kube, shared_namespace, name, **case.spec) for name, case in CASES.items()}
    kube.delete("StorageClass", None, CLASS)


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_in_the_conditions_and_events_until_it_is_mended(
    broken: dict[str, Instance], name: str
) -> None:
    instance, case = broken[name], CASES[name]

    def said() -> Json | None:
        found = instance.condition()
        return found if found["reason"] == case.reason and case.says in found["message"] else None

    condition = until(said, lambda: f"Ready does not say {case.reason} and {case.says}\n{instance.story()}")
    assert condition["status"] == "False"
    assert condition["message"].endswith("."), condition["message"]
    assert instance.get()["status"]["phase"] in ("Pending", "NotReady")
    described = kubectl("describe", "efi", instance.name, "-n", instance.namespace)
    assert any(case.reason in line for line in described.partition("Events:")[2].splitlines()), described
    case.mend(instance)
    instance.wait_ready()
    assert instance.value("'mended") == "mended"
    instance.kube.delete("EfritInstance", instance.namespace, instance.name)


def test_a_quota_that_refuses_the_pod_is_named_until_it_is_lifted(kube: Kube, namespace: str) -> None:
    kube.create("ResourceQuota", namespace, {"metadata": {"name": "nothing"}, "spec": {"hard": {"pods": "0"}}})
    until(
        lambda: kube.get("ResourceQuota", namespace, "nothing").get("status", {}).get("hard"),
        "the quota is not in force",
    )
    instance = Instance.create(kube, namespace, "refused")
    condition = instance.wait_reason("ChildRefused")
    assert "exceeded quota: nothing" in condition["message"]
    kube.delete("ResourceQuota", namespace, "nothing")
    instance.wait_ready()


def test_a_request_waits_with_a_reason_for_an_instance_that_cannot_start(kube: Kube, namespace: str) -> None:
    instance = Instance.create(kube, namespace, "hopeless", **CASES["image"].spec)
    request = instance.send("'patient")
    status = request.wait_reason("InstanceNotReady")
    assert status["phase"] == "Pending"
    CASES["image"].mend(instance)
    assert request.wait()["result"] == "patient"


def test_a_namespace_that_forbids_volumes_refuses_with_a_sentence_and_is_mended(
    kube: Kube, new_namespace: NewNamespace
) -> None:
    namespace = new_namespace()
    hard = {"persistentvolumeclaims": "0"}
    kube.create("ResourceQuota", namespace, {"metadata": {"name": "no-volumes"}, "spec": {"hard": hard}})
    until(
        lambda: kube.get("ResourceQuota", namespace, "no-volumes").get("status", {}).get("hard"),
        "the quota is not in force",
    )
    instance = Instance.create(kube, namespace, "homeless", workspace=SMALL)
    condition = instance.wait_reason("ChildRefused")
    assert "exceeded quota: no-volumes" in condition["message"]
    kube.delete("ResourceQuota", namespace, "no-volumes")
    instance.wait_ready()
