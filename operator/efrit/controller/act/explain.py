"""Looks for the sentence of Kubernetes that says why an instance does not start: its newest Warning event."""

from __future__ import annotations

from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.decide.children import naming
from efrit.controller.decide.views import Key

# Probes fail while a pod starts, and scheduling is reported in the pod's own status: neither explains anything.
SILENT_REASONS = {"Unhealthy", "FailedScheduling", "BackOff", "FailedToRetrieveImagePullSecret"}


async def explain(kube: Kube, instance: Key) -> str | None:
    """Return the message of the newest Warning about the instance's pod, claims or StatefulSet; None without one."""
    namespace, name = instance
    prefix = f"{naming.PREFIX}{name}"
    ours = {prefix, f"{prefix}-0", f"{prefix}-queue", f"{prefix}-workspace"}
    newest: tuple[str, str] | None = None
    async for event in kube.pages("v1", "Event", namespace, fieldSelector="type=Warning"):
        if event["involvedObject"].get("name") not in ours or event.get("reason") in SILENT_REASONS:
            continue
        seen = _seen(event)
        if newest is None or seen > newest[0]:
            newest = (seen, str(event.get("message", "")).strip())
    return newest[1] if newest else None


def _seen(event: dict[str, Any]) -> str:
    return str(
        event.get("series", {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
