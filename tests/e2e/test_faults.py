"""Something dies in the middle of 200 requests: every one is answered or Interrupted, none is lost, none runs twice.

Each request appends its number to a file on the workspace, so that the runs themselves say how often they happened.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import VOLUMES, Batch, Instance
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl

ANSWERED_BEFORE = 40
STEP_SECONDS = 0.03


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "steady", **VOLUMES).wait_ready()


def underway(instance: Instance, label: str) -> Batch:
    """Return a batch some of whose requests are answered, and the rest of which waits for `go_on`."""
    batch = Batch(instance, label, STEP_SECONDS, held_after=Batch.SIZE // 2)
    batch.wait_answered(ANSWERED_BEFORE)
    return batch


@pytest.mark.alone
def test_an_operator_killed_midway_loses_nothing(instance: Instance, kube: Kube) -> None:
    batch = underway(instance, "operator")
    old = operator_pods(kube)[0]["metadata"]["name"]
    kubectl("delete", "pod", old, "-n", SYSTEM, "--grace-period=0", "--force")
    batch.go_on()
    assert batch.check() == {"Succeeded": Batch.SIZE}
    assert wait_operator(kube)["metadata"]["name"] != old


def test_a_bridge_killed_midway_loses_nothing(instance: Instance) -> None:
    batch = underway(instance, "bridge")
    instance.kill_bridge()
    batch.go_on()
    assert batch.check() == {"Succeeded": Batch.SIZE}

    def status(kind: str) -> Json:
        pod = instance.pod()
        assert pod is not None
        first: Json = pod["status"][kind][0]
        return first

    # The kubelet says so later than the bridge serves.
    until(lambda: status("initContainerStatuses")["restartCount"] >= 1, instance.diagnostics)
    assert status("containerStatuses")["restartCount"] == 0


def test_an_emacs_killed_midway_interrupts_at_most_the_request_it_ran(instance: Instance) -> None:
    batch = underway(instance, "emacs")
    before = instance.pod_uid()
    instance.kill_emacs()
    batch.go_on()
    ends = batch.check()
    assert ends.get("Interrupted", 0) <= 1
    assert instance.pod_uid() == before


def test_a_pod_deleted_midway_ends_its_running_request_and_serves_the_others_later(instance: Instance) -> None:
    batch = underway(instance, "drained")
    before = instance.pod_uid()
    kubectl("delete", "pod", instance.pod_name, "-n", instance.namespace, "--wait=false")
    batch.go_on()
    instance.wait_new_pod(before)
    ends = batch.check()
    assert ends.get("Interrupted", 0) <= 1


def test_a_pod_deleted_by_force_midway_interrupts_at_most_the_request_it_ran(instance: Instance) -> None:
    batch = underway(instance, "forced")
    before = instance.pod_uid()
    kubectl("delete", "pod", instance.pod_name, "-n", instance.namespace, "--grace-period=0", "--force")
    batch.go_on()
    instance.wait_new_pod(before)
    ends = batch.check()
    assert ends.get("Interrupted", 0) <= 1
