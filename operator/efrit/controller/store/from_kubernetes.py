"""From Kubernetes' JSON to the small frozen views that decisions read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from efrit.controller.model import names
from efrit.controller.model.views import ClaimView, ContainerView, PodView, StatefulSetView
from efrit.protocol.times import parse_time

MAX_SECRET_MOUNTS = 64
"""Mounts of Secrets that are remembered of a pod: plans need one each."""


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """Return what decisions read of a pod."""
    meta, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    scheduled: Mapping[str, Any] = next(
        (entry for entry in status.get("conditions", ()) if entry["type"] == "PodScheduled"), {}
    )
    unschedulable = None
    if scheduled.get("status") == "False":
        unschedulable = scheduled.get("message") or scheduled.get("reason")
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    image = next(
        (entry["image"] for entry in spec.get("containers", ()) if entry["name"] == names.EMACS_CONTAINER), None
    )
    ports = [
        port["containerPort"]
        for container in spec.get("initContainers", ())
        for port in container.get("ports", ())
        if port.get("name") == "bridge"
    ]
    return PodView(
        name=meta["name"],
        uid=meta["uid"],
        ip=status.get("podIP"),
        phase=status.get("phase", "Pending"),
        deleting=meta.get("deletionTimestamp") is not None,
        created=parse_time(meta.get("creationTimestamp")),
        started=parse_time(status.get("startTime")),
        unschedulable=unschedulable,
        image=image,
        bridge_port=ports[0] if ports else names.BRIDGE_PORT,
        containers=tuple(_container_view(entry) for entry in statuses),
        template_hash=meta.get("annotations", {}).get(names.TEMPLATE_HASH),
        owner_uid=owner_uid(meta),
        deletion_deadline=parse_time(meta.get("deletionTimestamp")),
        node=spec.get("nodeName"),
        secret_mounts=_secret_mounts(spec),
    )


def _secret_mounts(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    volumes = (volume for volume in spec.get("volumes", ()) if "secret" in volume)
    secrets = {volume["name"]: volume["secret"].get("secretName", "") for volume in volumes}
    mounts = (
        (secrets[mount["name"]], mount["mountPath"])
        for container in spec.get("containers", ())
        if container["name"] == names.EMACS_CONTAINER
        for mount in container.get("volumeMounts", ())
        if mount["name"] in secrets
    )
    first = tuple(islice(mounts, MAX_SECRET_MOUNTS + 1))
    return first if len(first) <= MAX_SECRET_MOUNTS else None


def owner_uid(meta: Mapping[str, Any]) -> str | None:
    """Return the UID of the controlling owner in an object's metadata."""
    owners = (owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller"))
    return next(owners, None)


def _container_view(status: Mapping[str, Any]) -> ContainerView:
    state = status.get("state", {})
    waiting = state.get("waiting", {})
    ended = status.get("lastState", {}).get("terminated", {})
    return ContainerView(
        name=status["name"],
        ready=status.get("ready", False),
        running="running" in state,
        restarts=status.get("restartCount", 0),
        waiting_reason=waiting.get("reason"),
        waiting_message=waiting.get("message"),
        last_exit_code=ended.get("exitCode"),
        last_exit_reason=ended.get("reason"),
    )


def statefulset_view(statefulset: Mapping[str, Any]) -> StatefulSetView:
    """Return what decisions read of a StatefulSet."""
    meta = statefulset["metadata"]
    annotations = meta.get("annotations", {})
    return StatefulSetView(
        name=meta["name"],
        uid=meta["uid"],
        replicas=statefulset.get("spec", {}).get("replicas", 1),
        children_hash=annotations.get(names.CHILDREN_HASH),
        template_hash=annotations.get(names.TEMPLATE_HASH),
        deleting=meta.get("deletionTimestamp") is not None,
        statefulset_hash=annotations.get(names.STATEFULSET_HASH),
        spec_hash=annotations.get(names.SPEC_HASH),
        release_hash=annotations.get(names.RELEASE_HASH),
        # Anyone who may edit the StatefulSet may write a time that cannot be compared or written again.
        update_started=parse_time(annotations.get(names.UPDATE_STARTED)),
        update_trial=annotations.get(names.UPDATE_TRIAL) == "true",
        owner_uid=owner_uid(meta),
        taken_up=statefulset.get("status", {}).get("observedGeneration", 0) >= meta.get("generation", 0),
    )


def claim_view(claim: Mapping[str, Any]) -> ClaimView:
    """Return what decisions read of a PersistentVolumeClaim."""
    meta = claim["metadata"]
    phase = claim.get("status", {}).get("phase", "Pending")
    return ClaimView(
        name=meta["name"], phase=phase, uid=meta["uid"], terminating=meta.get("deletionTimestamp") is not None
    )
