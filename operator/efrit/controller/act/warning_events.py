"""Looks for the sentence of Kubernetes that says why an instance does not start: its newest Warning event.

Where an instance has no pod and no event says why, it asks whether its namespace is being deleted.

Asks for the events of each object of the instance by name, never for all of a namespace, and reads one page of each,
up to a size, for few instances at a time: who floods a namespace with events, or with large ones, harms nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.actions import ReadWarningEvents
from efrit.errors import ApiNamespaceTerminating, ApiRefused
from efrit.protocol.times import parse_time
from efrit.resources import EVENTS

# Probes fail while a pod starts, and scheduling is reported in the pod's own status: neither explains anything.
SILENT_REASONS = {"Unhealthy", "FailedScheduling", "BackOff", "FailedToRetrieveImagePullSecret"}
SUMMARY = "Unable to attach or mount volumes"
"""How a kubelet begins what it says every two minutes beside what is wrong with each volume."""
SUMMED_UP_FOR = timedelta(minutes=15)
"""How much older the sentence about the volume may be: one that is repeated often is reported seldom."""
MAX_AT_A_TIME = 4
MAX_EVENTS = 100
"""How many events of one object are read."""
MAX_MESSAGE_CHARS = 1024
"""Of a message, which anybody may have written; what the API server takes in newer events."""


class _Subject(NamedTuple):
    """An object whose events are asked for.

    uid: events of an earlier one of its name do not count; after: those that were seen later count.
    """

    kind: str
    name: str
    uid: str
    after: datetime | None = None


class _Warning(NamedTuple):
    last_seen: datetime
    message: str


class WarningEvents:
    """Asks for the events of instances, of few at a time."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._calls = 0

    @property
    def busy(self) -> bool:
        """Whether as many instances as allowed are being asked about."""
        return self._calls >= MAX_AT_A_TIME

    async def explain(self, question: ReadWarningEvents) -> str | None:
        """Return what `explain` returns."""
        self._calls += 1
        try:
            return await explain(self._kube, question)
        finally:
            self._calls -= 1


async def explain(kube: Kube, question: ReadWarningEvents) -> str | None:
    """Return the message of the newest Warning about an instance's pod, claims or StatefulSet; None without one.

    Events outlive what they are about, by an hour: those of an earlier pod, claim or StatefulSet do not count, nor
    those of a claim that is bound by now, or of a StatefulSet whose pod has been created since.
    """
    namespace, name = question.instance
    warnings: list[_Warning] = []
    for about in _subjects(name, question):
        selector = f"type=Warning,involvedObject.kind={about.kind},involvedObject.name={about.name}"
        for event in await kube.first_page(EVENTS, namespace, MAX_EVENTS, fieldSelector=selector):
            uid = event["involvedObject"].get("uid")
            is_another = uid not in (None, "", about.uid)  # gate: event-uid
            if is_another or event.get("reason") in SILENT_REASONS:
                continue
            last_seen = _last_seen(event)
            if about.after is not None and last_seen <= about.after:  # gate: event-after
                continue
            warnings.append(_Warning(last_seen, str(event.get("message", "")).strip()[:MAX_MESSAGE_CHARS]))
    problem = _newest(warnings)
    if problem is None and question.pod_uid is None:
        return await _terminating(kube, question)
    return problem


async def _terminating(kube: Kube, question: ReadWarningEvents) -> str | None:
    """Return that an instance's namespace is being deleted: no event can say so there. None where it is not."""
    namespace, name = question.instance
    manifest = EVENTS.manifest(
        {"name": f"{name}.namespace", "namespace": namespace},
        involvedObject={"kind": "EfritInstance", "name": name, "namespace": namespace},
    )
    try:
        await kube.test_create(manifest)
    except ApiNamespaceTerminating:
        return (
            f"namespace {namespace} is being deleted, and nothing can be created in it. What holds it: "
            f"`kubectl describe namespace {namespace}`."
        )
    except ApiRefused:
        return None
    return None


def _newest(warnings: Sequence[_Warning]) -> str | None:
    """Return the message that was seen last, that about the volume where a kubelet has summed it up since."""
    newest = max(warnings, key=lambda warning: warning.last_seen, default=None)
    if newest is None or not newest.message.startswith(SUMMARY):
        return newest.message if newest is not None else None
    summed_up = [
        warning
        for warning in warnings
        if newest.last_seen - warning.last_seen <= SUMMED_UP_FOR and not warning.message.startswith(SUMMARY)
    ]
    return max(summed_up, key=lambda warning: warning.last_seen, default=newest).message


def _subjects(name: str, question: ReadWarningEvents) -> Iterator[_Subject]:
    """Yield what may be in the way of an instance: while it has no pod, what its StatefulSet says alone."""
    if question.pod_uid is not None:
        yield _Subject("Pod", names.pod_name(name), question.pod_uid)
        for claim, uid in question.claims:
            yield _Subject("PersistentVolumeClaim", claim, uid)
    if question.statefulset_uid is not None:
        yield _Subject("StatefulSet", names.statefulset_name(name), question.statefulset_uid, question.after)


def _last_seen(event: dict[str, Any]) -> datetime:
    """Return when it was seen last, by what says so; else when the API server got it."""
    series = event.get("series", {}).get("lastObservedTime")
    for text in (series, event.get("lastTimestamp"), event.get("eventTime")):
        moment = parse_time(text)
        if moment is not None:
            return moment
    return datetime.fromisoformat(event["metadata"]["creationTimestamp"])
