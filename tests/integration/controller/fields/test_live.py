"""The same with pods: what was changed is what Emacs and its bridge go by, and the old pod's like comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from efrit import resources
from tests.integration.controller.fields.children import Flat, differences
from tests.integration.controller.fields.rig import Rig
from tests.support.kube import Json, Kube, until
from tests.support.pod import Pod
from tests.support.site import Site

CHANGED: Json = {
    "emacs": {"daemonName": "renamed", "imagePullPolicy": "Always", "resources": {"limits": {"memory": "1Gi"}}},
    "queue": {"maxPending": 1, "archiveSeconds": 61, "archiveRequests": 0, "archiveBytes": 0},
    "limits": {"requestTimeoutSeconds": 1, "maxRequestBytes": 64, "maxResultBytes": 1024},
    "network": {"egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 99}]}]},
    "podTemplate": {
        "labels": {"team": "blue"},
        "annotations": {"note": "a"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "runtimeClassName": "made",
        "priorityClassName": "made",
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "made",
        "env": [{"name": "GREETING", "value": "hello"}, {"name": "LANG", "value": "C"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    },
}
"""All that a pod goes by, at once: what each of these does alone is shown in test_changes.py."""


Sleeper = tuple[Rig, Flat]


@pytest.fixture(scope="module", autouse=True)
def sleeper(shared: Site) -> Sleeper:
    """Return an instance that falls asleep while the other tests run, and what it was like awake."""
    shared.instance("drowsy")
    rig = Rig.of(shared, "drowsy")
    awake = rig.observed()
    rig.becomes({"idle": {"suspendAfterSeconds": 10, "deleteAfterSeconds": 600}})
    return rig, awake


@pytest.fixture(scope="module", autouse=True)
def classes(kube: Kube, shared: Site) -> None:
    """Make what a pod may be made with only where it exists."""
    kinds: dict[str, Json] = {
        resources.RUNTIME_CLASSES.path(): {"handler": "made"},
        resources.PRIORITY_CLASSES.path(): {"value": 1},
    }
    for path, rest in kinds.items():
        kube.call("POST", path, {"metadata": {"name": "made"}, **rest})
    kube.create("serviceaccounts", shared.namespace, {"metadata": {"name": "made"}})


@contextmanager
def restored(site: Site, name: str) -> Iterator[Rig]:
    """Yield an instance, running, and again as it was afterwards."""
    site.until_condition(name, "Ready", status="True")
    rig = Rig.of(site, name)
    before = rig.observed()
    yield rig
    rig.becomes({})
    _until_as(rig, before)
    assert site.answer(site.ask("(daemonp)", to=name))["result"] == '"efrit"'
    assert "Traceback" not in site.operators[0].process.log.read_text()


@pytest.fixture
def rig(shared: Site) -> Iterator[Rig]:
    with restored(shared, "one") as rig:
        yield rig


@pytest.fixture
def resting(shared: Site) -> Iterator[Rig]:
    """Yield another one: the status of each is written 30 times a minute at most, and what follows waits for that."""
    shared.instance("resting")
    with restored(shared, "resting") as rig:
        yield rig


def _until_as(rig: Rig, before: Flat) -> None:
    def restored() -> bool:
        rig.settled()
        return differences(before, rig.observed()) == {}

    until(restored, lambda: f"not as it was: {differences(before, rig.observed())}\n{rig.site.logs()}")


def _replaced(site: Site, pod: Pod) -> None:
    until(lambda: not site.node.gone("one") and site.node.pod("one") is not pod, "the pod is not replaced")
    site.until_condition("one", "Ready", status="True")


def test_a_pod_goes_by_what_was_changed_and_then_by_what_was_before(shared: Site, rig: Rig) -> None:
    def result(content: str) -> Json:
        return shared.answer(shared.ask(content))

    pod = shared.node.pod("one")
    rig.becomes(CHANGED)
    _replaced(shared, pod)
    made = shared.kube.get("pods", shared.namespace, "efrit-one-0")
    assert made["metadata"]["labels"]["team"] == "blue"
    assert (made["spec"]["priority"], made["spec"]["runtimeClassName"]) == (1, "made")
    assert result("(daemonp)")["result"] == '"renamed"'
    assert result('(mapcar #\'getenv (list "GREETING" "LANG"))')["result"] == '("hello" "C")'
    assert shared.answer(shared.ask("(while t)", timeoutSeconds=None))["reason"] == "TimedOut"
    assert result("(make-string 2000 ?a)")["truncated"] is True
    assert result(f'"{"a" * 70}"')["reason"] == "Rejected"


def test_a_network_that_changes_leaves_the_pod_alone(shared: Site, rig: Rig) -> None:
    pod = shared.node.pod("one")
    rig.after({"network": {"allowIngressFrom": [{"podSelector": {}}]}})
    assert rig.observed()["NetworkPolicy.spec.ingress[1].from[0].podSelector"] == {}
    assert shared.answer(shared.ask("'same"))["result"] == "same"
    assert shared.node.pod("one") is pod


def test_a_suspended_instance_comes_back_as_it_was(shared: Site, resting: Rig) -> None:
    resting.becomes({"operatingMode": "Suspended"})
    shared.until_condition("resting", "Suspended", status="True")
    assert resting.observed()["StatefulSet.spec.replicas"] == 0
    assert shared.node.gone("resting")


def test_an_instance_that_fell_asleep_wakes_when_idle_is_taken_back(shared: Site, sleeper: Sleeper) -> None:
    rig, before = sleeper
    shared.until_condition("drowsy", "Suspended", reason="SuspendedIdle", status="True")
    assert rig.observed()["StatefulSet.spec.replicas"] == 0
    rig.becomes({})
    _until_as(rig, before)
    assert shared.answer(shared.ask("'awake", to="drowsy"))["result"] == "awake"
