"""Looks for the sentence of Kubernetes that says why an instance does not start: its newest Warning event.

Asks for the events of each object of the instance by name, never for all of a namespace, and reads one page of each,
up to a size, for few instances at a time: who floods a namespace with events, or with large ones, harms nobody else.
"""

from __future__ import annotations

from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.keys import Key
from efrit.resources import EVENTS

# Probes fail while a pod starts, and scheduling is reported in the pod's own status: neither explains anything.
SILENT_REASONS = {"Unhealthy", "FailedScheduling", "BackOff", "FailedToRetrieveImagePullSecret"}
MAX_AT_A_TIME = 4
MAX_EVENTS = 100
"""How many events of one object are read."""
MAX_MESSAGE_CHARS = 1024
"""Of a message, which anybody may have written; what the API server takes in newer events."""


class WarningEvents:
    """Asks for the events of instances, of few at a time."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._calls = 0

    @property
    def busy(self) -> bool:
        """Whether as many instances as allowed are being asked about."""
        return self._calls >= MAX_AT_A_TIME

    async def explain(self, instance: Key) -> str | None:
        """Return what `explain` returns."""
        self._calls += 1
        try:
            return await explain(self._kube, instance)
        finally:
            self._calls -= 1


async def explain(kube: Kube, instance: Key) -> str | None:
    """Return the message of the newest Warning about an instance's pod, claims or StatefulSet; None without one."""
    namespace, name = instance
    prefix = f"{names.PREFIX}{name}"
    newest: tuple[str, str] | None = None
    for kind, its_name in (
        ("Pod", f"{prefix}-0"),
        ("StatefulSet", prefix),
        ("PersistentVolumeClaim", f"{prefix}-queue"),
        ("PersistentVolumeClaim", f"{prefix}-workspace"),
    ):
        selector = f"type=Warning,involvedObject.kind={kind},involvedObject.name={its_name}"
        for event in await kube.first_page(EVENTS, namespace, MAX_EVENTS, fieldSelector=selector):
            if event.get("reason") in SILENT_REASONS:
                continue
            last_seen = _last_seen(event)
            if newest is None or last_seen > newest[0]:
                newest = (last_seen, str(event.get("message", "")).strip()[:MAX_MESSAGE_CHARS])
    return newest[1] if newest else None


def _last_seen(event: dict[str, Any]) -> str:
    return str(
        event.get("series", {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
