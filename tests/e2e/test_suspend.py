"""Suspended on demand or for idleness: no pod, the volumes and the queue stay, work goes on afterwards."""

from __future__ import annotations

import pytest

from tests.e2e.instance import VOLUMES, Batch, Instance
from tests.support.kube import Kube, until
from tests.support.kubectl import worked

IDLE_SECONDS = 10


@pytest.fixture(scope="module")
def instances(kube: Kube, shared_namespace: str) -> tuple[Instance, Instance]:
    """One that is suspended by hand and one that is suspended for idleness, started together."""
    by_hand = Instance.create(kube, shared_namespace, "by-hand", **VOLUMES)
    # Nobody waits for this one to be ready: a busy node may take longer for it than it may be idle.
    idle = Instance.create(kube, shared_namespace, "idle", idle={"suspendAfterSeconds": IDLE_SECONDS}, **VOLUMES)
    return by_hand, idle


def claims(kube: Kube, instance: Instance) -> dict[str, str]:
    """Return the UID of each volume claim of the instance."""
    selector = f"efrit.dev/instance={instance.name}"
    claims = kube.list("PersistentVolumeClaim", instance.namespace, labelSelector=selector)
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims}


def test_a_suspended_instance_keeps_its_volumes_and_queue_and_runs_the_queue_when_resumed(
    kube: Kube, instances: tuple[Instance, Instance]
) -> None:
    instance = instances[0].wait_ready()
    # Work that waits on the volume, behind an eval that is running when the pod is taken away.
    batch = Batch(instance, "kept", 0.05, held_after=Batch.SIZE // 2)
    batch.wait_answered(5)
    before = claims(kube, instance)
    assert len(before) == 2
    instance.patch(operatingMode="Suspended")
    instance.wait_pod_leaves()
    # The one that runs may end, in a pod that ends with it.
    until(
        lambda: instance.pod() is None or worked(lambda: instance.shell(f"touch {batch.gate}")), instance.diagnostics
    )
    instance.wait_reason("Suspended")
    instance.wait_no_pod()
    assert instance.condition("Suspended")["status"] == "True"
    assert instance.get()["status"]["phase"] == "Suspended"
    assert claims(kube, instance) == before
    assert any(not status.get("completionTime") for status in batch.statuses().values()), (
        "nothing is left to be resumed"
    )

    late = instance.send("'late")
    status = late.wait_reason("InstanceSuspended")
    message = next(condition["message"] for condition in status["conditions"] if condition["type"] == "Complete")
    assert "spec.operatingMode" in message

    instance.patch(operatingMode="Running")
    batch.go_on()
    ends = batch.check()
    assert ends.get("Interrupted", 0) <= 1
    assert late.wait()["result"] == "late"
    assert claims(kube, instance) == before


def test_an_idle_instance_is_suspended_and_woken_by_the_next_request(
    kube: Kube, instances: tuple[Instance, Instance]
) -> None:
    instance = instances[1]
    instance.wait_reason("SuspendedIdle")
    instance.wait_no_pod()
    obj = instance.get()
    assert obj["spec"]["operatingMode"] == "Running", "idleness must not rewrite the spec"
    assert obj["status"]["suspendedIdle"] is True
    assert len(claims(kube, instance)) == 2
    assert instance.value("'woken") == "woken"
    # It had a pod, then. Who looks late does not see it ready.
    instance.wait_no_pod()
    instance.wait_reason("SuspendedIdle")
