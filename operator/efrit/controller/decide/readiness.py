"""Why an instance is or is not ready: ordered checks from what a person can fix to what resolves itself.

Each check returns (reason, sentence) or None; the first that finds something speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from efrit.api import InstanceReason, condition_of
from efrit.api.instance import READY
from efrit.controller.decide.child_presence import terminating_claims
from efrit.controller.decide.queue_volume import disk_problem, disk_sentence
from efrit.controller.decide.self_check import failing_sentence
from efrit.controller.decide.status_limits import with_stop
from efrit.controller.manifests.statefulset import BRIDGE
from efrit.controller.model.names import EMACS_CONTAINER
from efrit.controller.model.pauses import OVER, pause_remaining
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import ContainerView
from efrit.protocol.view import DiskProblem

IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
CONFIG_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
# What the scheduler says when a volume, and not the choice of nodes, is what the pod waits for.
VOLUME_TERMS = ("volume", "storageclass")
NOT_CREATED = "The pod cannot be created: "
NOT_MOUNTED = "Something the pod mounts does not exist: "
MAX_FINALIZERS = 5
"""Of an instance, how many a message names."""


class Finding(NamedTuple):
    """One answer: the fixed reason and the sentence."""

    reason: InstanceReason
    message: str


Check = Callable[[InstanceSnapshot, datetime], Finding | None]


def readiness(snapshot: InstanceSnapshot, now: datetime) -> Finding:
    """Return why the (not suspended) instance is not ready, or `Ready`."""
    for check in CHECKS:
        finding = check(snapshot, now)
        if finding is not None:
            return finding
    return Finding(InstanceReason.READY, f"Emacs answers requests.{_claim_deletion_note(snapshot)}")


def _kubectl(snapshot: InstanceSnapshot, command: str) -> str:
    """Return the command as it can be pasted, whatever namespace is current."""
    return f"`kubectl -n {snapshot.instance.metadata.namespace} {command}`"


def _log_of(snapshot: InstanceSnapshot, container: str) -> str:
    """Return the command that prints the log of a container of the pod, which there is."""
    pod = snapshot.pod.name if snapshot.pod else ""
    return _kubectl(snapshot, f"logs {pod} -c {container}")


def _refused(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    refused = snapshot.facts.refused
    if refused is None:
        return None
    return Finding(InstanceReason.CHILD_REFUSED, f"An object of the instance could not be written: {refused}")


def _claims_terminating(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    terminating = terminating_claims(snapshot)
    if not terminating or _any_running(snapshot):
        return None
    name = terminating[0]
    return Finding(
        InstanceReason.CLAIM_TERMINATING,
        f"PersistentVolumeClaim {name} is being deleted. The instance waits until it is gone, and then starts with a "
        f"new, empty one. If it stays, see its finalizers: {_kubectl(snapshot, f'describe pvc {name}')}.",
    )


def _claim_deletion_note(snapshot: InstanceSnapshot) -> str:
    terminating = terminating_claims(snapshot)
    if not terminating:
        return ""
    names = " and ".join(terminating)
    return (
        f" Deletion of PersistentVolumeClaim {names} is waiting for the pod to end: save what you need of its files."
    )


def _no_pod(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    if snapshot.pod is not None:
        return None
    if snapshot.facts.problem:
        return Finding(InstanceReason.CHILD_REFUSED, f"{NOT_CREATED}{snapshot.facts.problem}")
    before = _explained_before(snapshot, InstanceReason.CHILD_REFUSED, NOT_CREATED)
    # Events say nothing of it: what keeps Kubernetes' controller from beginning is in its own log alone.
    silent = not_taken_up(snapshot) if snapshot.facts.explained_time is not None else ""
    return before or Finding(InstanceReason.CREATING, f"The pod is being created.{silent}")


def not_taken_up(snapshot: InstanceSnapshot) -> str:
    """Return what to add where Kubernetes has not processed the StatefulSet's present spec, else nothing."""
    statefulset = snapshot.statefulset
    if statefulset is None or statefulset.taken_up:
        return ""
    return (
        f" Kubernetes has not processed StatefulSet {statefulset.name} yet. If this lasts, a ResourceQuota for "
        f"count/controllerrevisions.apps may be used up: see {_kubectl(snapshot, 'describe quota')}."
    )


def _explained_before(snapshot: InstanceSnapshot, reason: InstanceReason, beginning: str) -> Finding | None:
    """Return what the status says of Kubernetes' events since before this process, which has not asked for them yet.

    Otherwise a start of the controller would take it back, and say it again with another Warning.
    """
    said = condition_of(snapshot.instance.status.conditions, READY)
    if said is None or said.reason != reason.value or not said.message.startswith(beginning):
        return None
    return Finding(reason, said.message) if snapshot.facts.explained_time is None else None


def termination_remaining(snapshot: InstanceSnapshot, now: datetime) -> timedelta | None:
    """Return how long the pod may still take to end, None where it is not being deleted.

    Zero or less: no kubelet ends it, its node is probably lost. The controller has no right to look at nodes.
    """
    deadline = snapshot.pod.deletion_deadline if snapshot.pod else None
    return deadline + snapshot.config.node_lost_after - now if deadline is not None else None


def _lost_node(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    pod, remaining = snapshot.pod, termination_remaining(snapshot, now)
    if pod is None or remaining is None or remaining > timedelta(0):
        return None
    node = pod.node or "NODE"
    return Finding(
        InstanceReason.NODE_LOST,
        f"Pod {pod.name} should have ended by now: its node {node} is probably lost. If the machine is down, run "
        f"`kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`: the pod then starts "
        f"elsewhere. {_kubectl(snapshot, f'delete pod {pod.name} --force')} does so too, but if the machine "
        "still runs, two Emacs work on one queue for a while.",
    )


def deletion_finding(snapshot: InstanceSnapshot, now: datetime) -> Finding:
    """Return what keeps an instance that is being deleted: a lost node, or its finalizers."""
    lost = _lost_node(snapshot, now)
    if lost is not None:
        return lost
    finalizers = snapshot.instance.metadata.finalizers
    message = "The instance is being deleted."
    if finalizers:
        more = len(finalizers) - MAX_FINALIZERS
        rest = f" and {more} more" if more > 0 else ""
        message += f" It stays until its finalizers are removed: {', '.join(finalizers[:MAX_FINALIZERS])}{rest}."
    return Finding(InstanceReason.DELETING, message)


def _terminating_pod(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    if snapshot.pod is None or not snapshot.pod.deleting:
        return None
    return Finding(
        InstanceReason.ROLLING, f"Pod {snapshot.pod.name} is stopping; running work may end, then it is replaced."
    )


def _waiting_container(snapshot: InstanceSnapshot) -> ContainerView | None:
    containers = snapshot.pod.containers if snapshot.pod else ()
    return next((container for container in containers if container.waiting_reason), None)


def _image(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    containers = snapshot.pod.containers if snapshot.pod else ()
    for container in containers:
        if container.waiting_reason in IMAGE_REASONS:
            message = container.waiting_message or container.waiting_reason or ""
            return Finding(
                InstanceReason.IMAGE_PULL_FAILED,
                f"The image of container {container.name} cannot be pulled: {message}. "
                f"{_image_advice(snapshot, container.name)}",
            )
    return None


def _image_advice(snapshot: InstanceSnapshot, container: str) -> str:
    """Say where the image of a container is set: by the operator's installation, or by the instance."""
    if container == BRIDGE:
        return "The operator's installation sets it: check image of the Helm chart, and imagePullSecrets."
    if container == EMACS_CONTAINER and snapshot.instance.spec.emacs.image is None:
        return (
            "The operator's installation sets it: check emacsImage of the Helm chart, and imagePullSecrets; or set "
            "spec.emacs.image."
        )
    return "Check spec.emacs.image and spec.podTemplate.imagePullSecrets."


def _config(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    containers = snapshot.pod.containers if snapshot.pod else ()
    for container in containers:
        if container.waiting_reason in CONFIG_REASONS:
            message = container.waiting_message or container.waiting_reason or ""
            return Finding(InstanceReason.CONFIG_MISSING, f"Container {container.name} cannot be created: {message}.")
    problem = snapshot.facts.problem or ""
    missing = "not found" in problem or "non-existent" in problem
    if _any_running(snapshot) or snapshot.pod is None:
        return None
    if missing and "MountVolume" in problem:
        return Finding(InstanceReason.CONFIG_MISSING, f"{NOT_MOUNTED}{problem}")
    status, pod = snapshot.instance.status, snapshot.pod
    if pod.may_run or (status.pod_name, status.start_time) != (pod.name, pod.started):
        return None
    return _explained_before(snapshot, InstanceReason.CONFIG_MISSING, NOT_MOUNTED)


def _any_running(snapshot: InstanceSnapshot) -> bool:
    return snapshot.pod is not None and snapshot.pod.is_running


def _volumes(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    pod, problem = snapshot.pod, snapshot.facts.problem
    pending = [claim.name for claim in snapshot.claims if claim.phase == "Pending"]
    if pod is None or _any_running(snapshot) or not pending:
        return None
    if pod.unschedulable is not None:
        # A claim that waits for its first consumer pends as long as no node takes the pod, whatever the reason.
        if not any(word in pod.unschedulable.lower() for word in VOLUME_TERMS):
            return None
    elif problem is None and pod.created is not None and now - pod.created < snapshot.config.volume_after:
        # Every new volume takes a moment: that is no trouble anyone needs to be warned of.
        return None
    why = problem or pod.unschedulable or "its StorageClass has not provisioned the volume yet"
    plural = "s" if len(pending) > 1 else ""
    names = " and ".join(pending)
    return Finding(InstanceReason.VOLUME_PENDING, f"PersistentVolumeClaim{plural} {names} pending: {why}.")


def _unschedulable(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    pod = snapshot.pod
    if pod is None or pod.unschedulable is None:
        return None
    return Finding(InstanceReason.UNSCHEDULABLE, f"No node takes the pod: {pod.unschedulable}")


def _crashing(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    waiting = _waiting_container(snapshot)
    if waiting is None or waiting.waiting_reason != "CrashLoopBackOff":
        return None
    ended = f"exit code {waiting.last_exit_code}" if waiting.last_exit_code is not None else "unknown exit code"
    if waiting.last_exit_reason not in (None, "Error", "Completed"):
        ended = f"{waiting.last_exit_reason}, {ended}"
    pod = snapshot.pod.name if snapshot.pod else ""
    return Finding(
        InstanceReason.CRASH_LOOPING,
        f"Container {waiting.name} keeps ending ({ended}, {waiting.restarts} restarts): "
        f"see {_kubectl(snapshot, f'logs {pod} -c {waiting.name} --previous')}.",
    )


def _bridge(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    if snapshot.available:
        return None
    pod, config = snapshot.pod, snapshot.config
    started = pod.started if pod else None
    if snapshot.bridge.problem and started is not None and now - started > config.unreachable_after:
        problem = with_stop(snapshot.bridge.problem)
        return Finding(
            InstanceReason.BRIDGE_UNREACHABLE,
            f"The bridge of the pod does not answer: {problem} See {_log_of(snapshot, BRIDGE)}.",
        )
    if snapshot.facts.problem and not _any_running(snapshot):
        return Finding(InstanceReason.STARTING, f"The pod is starting: {snapshot.facts.problem}")
    return Finding(InstanceReason.STARTING, "The pod is starting.")


def _unresponsive(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    problem = snapshot.bridge.unresponsive
    if problem is None or snapshot.pod is None:
        return None
    return Finding(
        InstanceReason.BRIDGE_UNRESPONSIVE,
        f"The bridge of the pod does not answer: {problem} Requests wait; calls are retried automatically. If it "
        f"lasts, see {_log_of(snapshot, BRIDGE)}, and whether the volume of the "
        "queue hangs.",
    )


def _disk(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    disk = disk_problem(snapshot)
    if disk is None:
        return None
    full = disk.problem == DiskProblem.FULL
    reason = InstanceReason.DISK_FULL if full else InstanceReason.DISK_FAILING
    return Finding(reason, disk_sentence(snapshot.instance, disk))


def _emacs(snapshot: InstanceSnapshot, now: datetime) -> Finding | None:
    stats = snapshot.bridge.stats
    if stats is None or not stats.emacs.alive:
        return Finding(InstanceReason.STARTING, "Emacs is starting.")
    if stats.emacs.self_check_problem is not None:  # gate: self-check-reason
        return Finding(InstanceReason.SELF_CHECK_FAILED, failing_sentence(stats.emacs))
    if first_heartbeat_remaining(snapshot, now):
        return Finding(InstanceReason.STARTING, "Emacs is starting.")
    if not stats.emacs.responsive:
        age = stats.emacs.heartbeat_age_seconds
        since = f" for {age:.0f} s" if age is not None else ""
        message = f"Emacs has not responded{since}. See {_log_of(snapshot, EMACS_CONTAINER)}."
        return Finding(InstanceReason.NOT_RESPONDING, message)
    return None


def first_heartbeat_remaining(snapshot: InstanceSnapshot, now: datetime) -> timedelta:
    """Return how long the Emacs of a pod that has just started may go on without a heartbeat; zero once it is late.

    Its bridge has seen none come yet: one that was there when the bridge started proves nothing.
    """
    stats, started = snapshot.bridge.stats, snapshot.pod.started if snapshot.pod else None
    if stats is None or started is None or not stats.emacs.alive:
        return OVER
    if stats.emacs.responsive or stats.emacs.heartbeat_age_seconds is not None:
        return OVER
    return pause_remaining(started, snapshot.config.unreachable_after, now)  # gate: first-heartbeat


CHECKS: tuple[Check, ...] = (
    _refused,
    _claims_terminating,
    _no_pod,
    _lost_node,
    _terminating_pod,
    _image,
    _config,
    _volumes,
    _unschedulable,
    _crashing,
    _bridge,
    _unresponsive,
    _disk,
    _emacs,
)
