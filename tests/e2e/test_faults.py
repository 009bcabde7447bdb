"""Something dies in the middle of 200 requests: every one is answered or Interrupted, none is lost, none runs twice.

Each request appends its number to a file on the workspace, so that the runs themselves say how often they happened.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SYSTEM, operator_pods, wait_operator
from tests.e2e.instance import VOLUMES, Batch, Instance, Request
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl, worked

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


def test_200_requests_are_each_answered_and_run_exactly_once(instance: Instance) -> None:
    batch = Batch(instance, "calm", 0)
    assert batch.check() == {"Succeeded": Batch.SIZE}
    text = instance.value(f'(with-temp-buffer (insert-file-contents "{batch.file}") (buffer-string))')
    numbers = text.strip('"').split("\\n" if "\\n" in text else "\n")
    assert sorted(int(number) for number in numbers if number) == list(range(Batch.SIZE))


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


def wait_begun(instance: Instance, request: Request, file: str) -> None:
    """Wait until it is Running and has written its file: it is Running a moment before its first form."""
    request.wait_reason("Running")
    until(lambda: worked(lambda: instance.shell('test -s "$1"', file)), instance.diagnostics)


def test_work_whose_retry_is_allowed_runs_again_when_emacs_dies(instance: Instance) -> None:
    file = "/workspace/retried"
    content = f"""
    (progn (write-region "ran\\n" nil "{file}" t)
           (if (= 1 (with-temp-buffer (insert-file-contents "{file}") (count-lines 1 (point-max))))
               (sleep-for 500)
             'again))
    """
    request = instance.send(content, retryPolicy="IfInterrupted", maxAttempts=3, timeoutSeconds=600)
    wait_begun(instance, request, file)
    instance.kill_emacs()
    status = request.wait()
    assert (status["phase"], status["result"], status["attempt"]) == ("Succeeded", "again", 2)
    assert instance.shell(f"cat {file}") == "ran\nran\n"


def test_work_that_may_not_be_retried_is_interrupted_when_emacs_dies(instance: Instance) -> None:
    file = "/workspace/once"
    request = instance.send(f'(write-region "ran\\n" nil "{file}" t) (sleep-for 500)', timeoutSeconds=600)
    wait_begun(instance, request, file)
    instance.kill_emacs()
    status = request.wait()
    assert (status["phase"], status["reason"], status["outcome"]) == ("Failed", "Interrupted", "Failure")
    until(lambda: instance.condition("EmacsResponsive")["status"] == "True", instance.diagnostics)
    assert instance.value("(+ 1 2)") == "3"
    assert instance.shell(f"cat {file}") == "ran\n"
