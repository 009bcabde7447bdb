"""decide/readiness.py: why an instance is or is not ready, finding by finding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.api import EfritInstance, InstanceReason
from efrit.controller.decide.readiness import Finding, readiness
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView, ClaimView, ContainerView, StatefulSetView
from tests.support.factory import (
    NOW,
    away,
    condition_json,
    connected,
    emacs,
    instance,
    pod,
    ready,
    seconds,
    stats,
    wire_time,
)

PENDING_CLAIM = ClaimView("efrit-alpha-queue", "Pending")
UNBOUND = "pod has unbound PersistentVolumeClaims"
MOUNT_PROBLEM = 'MountVolume.SetUp failed for volume "init" : configmap "my-init" not found'


def waiting(reason: str, message: str | None = None, name: str = "emacs", **fields: Any) -> ContainerView:
    return ContainerView(name, waiting_reason=reason, waiting_message=message, **fields)


def with_containers(*containers: ContainerView, **fields: Any) -> InstanceSnapshot:
    return ready(pod=pod(containers=containers), bridge=BridgeView(), **fields)


def starting(ago: float) -> InstanceSnapshot:
    young = pod(created=NOW - seconds(ago), containers=())
    return ready(pod=young, bridge=BridgeView(), claims=(PENDING_CLAIM,))


def find(instance_snapshot: InstanceSnapshot) -> Finding:
    return readiness(instance_snapshot, NOW)


@pytest.mark.parametrize(
    ("instance_snapshot", "reason", "words"),
    [
        (ready(), InstanceReason.READY, "Emacs answers requests."),
        (ready(refused="exceeded quota"), InstanceReason.CHILD_REFUSED, "exceeded quota"),
        (away(), InstanceReason.CREATING, "The pod is being created."),
        (away(problem="forbidden: no such account"), InstanceReason.CHILD_REFUSED, "forbidden: no such account"),
        (ready(pod=pod(deleting=True)), InstanceReason.ROLLING, "efrit-alpha-0 is stopping"),
        (
            with_containers(waiting("ImagePullBackOff", "manifest unknown")),
            InstanceReason.IMAGE_PULL_FAILED,
            "emacs cannot be pulled: manifest unknown. The operator's installation sets it",
        ),
        (with_containers(waiting("InvalidImageName")), InstanceReason.IMAGE_PULL_FAILED, "InvalidImageName"),
        (
            with_containers(waiting("CreateContainerConfigError", 'secret "key" not found')),
            InstanceReason.CONFIG_MISSING,
            'emacs cannot be created: secret "key" not found',
        ),
        (with_containers(problem=MOUNT_PROBLEM), InstanceReason.CONFIG_MISSING, 'configmap "my-init" not found'),
        (
            with_containers(claims=(PENDING_CLAIM,)),
            InstanceReason.VOLUME_PENDING,
            "PersistentVolumeClaim efrit-alpha-queue pending: its StorageClass has not provisioned the volume yet.",
        ),
        (
            with_containers(claims=(PENDING_CLAIM, ClaimView("efrit-alpha-workspace", "Pending"))),
            InstanceReason.VOLUME_PENDING,
            "PersistentVolumeClaims efrit-alpha-queue and efrit-alpha-workspace pending",
        ),
        (
            with_containers(claims=(PENDING_CLAIM,), problem='storageclass "fast" not found'),
            InstanceReason.VOLUME_PENDING,
            'pending: storageclass "fast" not found.',
        ),
        (
            ready(pod=pod(unschedulable="0/3 nodes are available"), bridge=BridgeView()),
            InstanceReason.UNSCHEDULABLE,
            "No node takes the pod: 0/3 nodes are available",
        ),
        (
            with_containers(waiting("CrashLoopBackOff", restarts=4, last_exit_code=3, last_exit_reason="Error")),
            InstanceReason.CRASH_LOOPING,
            "emacs keeps ending (exit code 3, 4 restarts): see "
            "`kubectl -n team logs efrit-alpha-0 -c emacs --previous`.",
        ),
        (
            with_containers(waiting("CrashLoopBackOff", last_exit_code=137, last_exit_reason="OOMKilled")),
            InstanceReason.CRASH_LOOPING,
            "(OOMKilled, exit code 137, 0 restarts)",
        ),
        (with_containers(waiting("CrashLoopBackOff")), InstanceReason.CRASH_LOOPING, "unknown exit code"),
        # A missing volume speaks before the scheduler.
        (
            ready(pod=pod(unschedulable=UNBOUND, containers=()), bridge=BridgeView(), claims=(PENDING_CLAIM,)),
            InstanceReason.VOLUME_PENDING,
            UNBOUND,
        ),
        (ready(bridge=BridgeView(True, "pod-uid-1", "queue-1")), InstanceReason.STARTING, "Emacs is starting."),
        (with_containers(), InstanceReason.STARTING, "The pod is starting."),
        (with_containers(problem="no such runtime"), InstanceReason.STARTING, "The pod is starting: no such runtime"),
        (
            ready(bridge=BridgeView(pod_uid="pod-uid-1", problem="connection refused")),
            InstanceReason.BRIDGE_UNREACHABLE,
            "not answer: connection refused. See `kubectl -n team logs efrit-alpha-0 -c bridge`.",
        ),
        (
            ready(bridge=replace(connected(), unresponsive="no answer within 15 s.")),
            InstanceReason.BRIDGE_UNRESPONSIVE,
            "The bridge of the pod does not answer: no answer within 15 s. Requests wait; calls are retried",
        ),
        (
            ready(bridge=connected(bridge_stats=stats(emacs=emacs(alive=False)))),
            InstanceReason.STARTING,
            "Emacs is starting.",
        ),
        (
            ready(bridge=connected(bridge_stats=stats(emacs=emacs(responsive=False, heartbeat_age_seconds=12.4)))),
            InstanceReason.NOT_RESPONDING,
            "has not responded for 12 s. See `kubectl -n team logs efrit-alpha-0 -c emacs`.",
        ),
        (
            ready(bridge=connected(bridge_stats=stats(emacs=emacs(responsive=False)))),
            InstanceReason.NOT_RESPONDING,
            "has not responded.",
        ),
        (
            ready(
                bridge=connected(bridge_stats=stats(emacs=emacs(responsive=False, self_check_problem="it answers 7")))
            ),
            InstanceReason.SELF_CHECK_FAILED,
            "starts no request until it is restarted: it answers 7.",
        ),
    ],
)
def test_each_state_has_its_reason_and_sentence(
    instance_snapshot: InstanceSnapshot, reason: InstanceReason, words: str
) -> None:
    finding = find(instance_snapshot)

    assert finding.reason == reason
    assert words in finding.message


def test_an_image_that_the_installation_sets_is_not_searched_for_in_the_instance() -> None:
    own = instance(spec={"emacs": {"image": "example.org/own:1"}})

    def advice(container: str, efrit_instance: EfritInstance | None = None) -> str:
        containers = (waiting("ErrImagePull", "manifest unknown", container),)
        return find(ready(efrit_instance, pod=pod(containers=containers), bridge=BridgeView())).message

    assert "check emacsImage of the Helm chart" in advice("emacs")
    assert "check image of the Helm chart" in advice("bridge", own)
    assert "spec.emacs.image" not in advice("bridge", own)
    assert advice("emacs", own).endswith("Check spec.emacs.image and spec.podTemplate.imagePullSecrets.")


RUNS = pod(containers=(ContainerView("emacs", running=True),))
SILENT = BridgeView(pod_uid="pod-uid-1", problem="connection refused")
UNHEARD = connected(bridge_stats=stats(emacs=emacs(responsive=False)))
"""Emacs runs, and its bridge has seen no heartbeat come yet."""


@pytest.mark.parametrize(
    ("instance_snapshot", "reason"),
    [
        (with_containers(waiting("ImagePullBackOff"), refused="exceeded quota"), InstanceReason.CHILD_REFUSED),
        (
            with_containers(waiting("CrashLoopBackOff", name="bridge"), waiting("ErrImagePull")),
            InstanceReason.IMAGE_PULL_FAILED,
        ),
        (starting(5), InstanceReason.STARTING),
        (starting(31), InstanceReason.VOLUME_PENDING),
        (ready(pod=RUNS, claims=(PENDING_CLAIM,)), InstanceReason.READY),
        (ready(pod=RUNS, problem=MOUNT_PROBLEM), InstanceReason.READY),
        (ready(pod=pod(started=NOW - seconds(30)), bridge=SILENT), InstanceReason.STARTING),
        (ready(pod=pod(started=NOW - seconds(31)), bridge=SILENT), InstanceReason.BRIDGE_UNREACHABLE),
        (ready(pod=pod(started=NOW - seconds(29)), bridge=UNHEARD), InstanceReason.STARTING),
        (ready(pod=pod(started=NOW - seconds(30)), bridge=UNHEARD), InstanceReason.NOT_RESPONDING),
    ],
    ids=[
        "a refusal speaks before everything else",
        "an image that cannot be pulled speaks before a crash",
        "a volume that is being made is part of starting",
        "a volume that takes long is not",
        "a pending claim of a running pod is no trouble",
        "an old mount problem of a running pod is no trouble",
        "a bridge may be silent for half a minute after the start",
        "a bridge that is silent for longer",
        "the first heartbeat of an Emacs may take half a minute after the start",
        "an Emacs without a heartbeat for longer",
    ],
)
def test_which_of_several_findings_speaks(instance_snapshot: InstanceSnapshot, reason: InstanceReason) -> None:
    assert find(instance_snapshot).reason == reason


def says(finding: Finding, **status: Any) -> EfritInstance:
    """Return an instance whose status says why it is not ready."""
    condition = {**condition_json("Ready", "False", finding.reason.value), "message": finding.message}
    return instance(status={"conditions": [condition], **status})


def test_a_statefulset_that_kubernetes_does_not_process_is_named_once_no_event_says_why_there_is_no_pod() -> None:
    begun = StatefulSetView("efrit-alpha", "ss", 1)
    waits = replace(begun, taken_up=False)
    plain = Finding(InstanceReason.CREATING, "The pod is being created.")

    assert find(replace(away(), statefulset=waits)) == plain
    assert find(replace(away(explained_time=NOW), statefulset=begun)) == plain
    asked = find(replace(away(explained_time=NOW), statefulset=waits))
    assert asked.reason == InstanceReason.CREATING
    assert "has not processed StatefulSet efrit-alpha" in asked.message
    assert "count/controllerrevisions.apps" in asked.message
    assert "kubectl -n team describe quota" in asked.message
    refused = find(replace(away(explained_time=NOW, problem="exceeded quota"), statefulset=waits))
    assert refused.reason == InstanceReason.CHILD_REFUSED


def test_what_the_status_says_of_events_holds_until_this_process_has_asked_for_them() -> None:
    refused = Finding(InstanceReason.CHILD_REFUSED, "The pod cannot be created: exceeded quota")
    missing = Finding(InstanceReason.CONFIG_MISSING, f"Something the pod mounts does not exist: {MOUNT_PROBLEM}")
    waits = pod(containers=(), phase="Pending")
    crashes = pod(containers=(waiting("CrashLoopBackOff", restarts=1),), phase="Pending")
    own = {"podName": waits.name, "startTime": wire_time(NOW - seconds(600))}
    other = {**own, "startTime": wire_time(NOW - seconds(900))}

    assert find(away(says(refused))) == refused
    assert find(away(says(refused), explained_time=NOW)).reason == InstanceReason.CREATING
    assert find(away(says(refused._replace(message="Another object.")))).reason == InstanceReason.CREATING
    assert find(ready(says(missing, **own), pod=waits, bridge=BridgeView())) == missing
    assert find(ready(says(missing, **own), pod=crashes, bridge=BridgeView())).reason == InstanceReason.CRASH_LOOPING
    for changed in (
        ready(says(missing, **own), pod=waits, bridge=BridgeView(), explained_time=NOW),
        ready(says(missing, **other), pod=waits, bridge=BridgeView()),
        ready(says(missing, **own), pod=RUNS, bridge=BridgeView()),
    ):
        assert find(changed).reason == InstanceReason.STARTING


def test_a_scheduler_that_says_nothing_of_volumes_speaks_before_the_claims_that_wait_for_it() -> None:
    sentence = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    instance_snapshot = ready(pod=pod(unschedulable=sentence), bridge=BridgeView(), claims=(PENDING_CLAIM,))

    assert find(instance_snapshot) == Finding(InstanceReason.UNSCHEDULABLE, f"No node takes the pod: {sentence}")


def test_a_pod_that_outlives_its_grace_period_is_on_a_lost_node() -> None:
    def stuck(ago: float) -> InstanceSnapshot:
        deadline = NOW - seconds(ago)
        return ready(pod=pod(deleting=True, deletion_deadline=deadline, node="worker-1"), bridge=BridgeView())

    assert find(stuck(-300)).reason == InstanceReason.ROLLING
    assert find(stuck(29)).reason == InstanceReason.ROLLING
    lost = find(stuck(30))
    assert lost.reason == InstanceReason.NODE_LOST
    assert "kubectl taint nodes worker-1 node.kubernetes.io/out-of-service" in lost.message
    assert "two Emacs" in lost.message
