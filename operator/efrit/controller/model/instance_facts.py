"""What this process alone knows of an instance: the store keeps the value, a snapshot carries the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What this process has seen of an instance and done for it, beside what its objects and its bridge say."""

    handover_id: str = ""
    """Id under which this process hands requests over; another one after each time it has closed the instance."""
    handover_paused: bool = False
    """Whether this process hands no more requests to it because it is about to stop."""
    closed_before: bool = False
    """Whether this process has seen `status.handover` Closed: what it has not handed over since, nobody has."""
    opened_by_other: bool = False
    """Whether another process has opened it since it was last Closed: what was created since may be on its queue."""
    last_activity: datetime | None = None
    work_ended: datetime | None = None
    """When its last open request or plan ended; None while it has one, or where this process saw none."""
    first_ready: datetime | None = None
    """When it was first Ready since its pod started, as far as this process has seen."""
    stats_written: datetime | None = None
    figures_turn: datetime | None = None
    """When its figures may be written, where those of many instances wait; None while it has no turn."""
    early_writes: tuple[datetime, ...] = ()
    """The newest writes of figures that came before their time because work had ended, oldest first."""
    status_writes: tuple[datetime, ...] = ()
    """The newest writes of its status by this process, oldest first; at most `figures.MAX_WRITES`."""
    applied_generation: int = 0
    """Generation whose children this process has seen accepted, all of them; 0 for none yet."""
    applied_digest: str | None = None
    """Digest of the children beside the StatefulSet that this process last applied."""
    refused: str | None = None
    """Sentence of the API server that refused a child, until a later apply succeeds."""
    refused_generation: int = 0
    refused_time: datetime | None = None
    resync: bool = False
    """Whether to apply the children again though nothing seems to differ."""
    child_missing: bool = False
    """Whether a ServiceAccount or NetworkPolicy that was applied is not there any more."""
    secret_check: bool = False
    """Whether the turn of its Secret to be applied again has come."""
    secret_applied_time: datetime | None = None
    """When this process last applied its Secret."""
    isolated_pod: str | None = None
    """UID of the pod that is known to have a NetworkPolicy of its own."""
    problem: str | None = None
    """Sentence of the newest Warning event about the pod, its volumes or the StatefulSet."""
    explained_time: datetime | None = None
    """When the events of this pod, or of its absence, were last asked for."""
    pod_awaited: datetime | None = None
    """Since when a pod is awaited: this process saw the last one go, or the StatefulSet scaled; None with a pod."""
    events_after: datetime | None = None
    """From when on events say why there is no pod: since the last one was created. None where nothing is known."""

    def carried_over(self, handover_id: str) -> InstanceFacts:
        """Return what stays known when another object takes the name: how often this process has written to it."""
        return replace(
            self,
            handover_id=handover_id,
            handover_paused=False,
            closed_before=False,
            last_activity=None,
            first_ready=None,
            applied_generation=0,
            applied_digest=None,
            refused=None,
            child_missing=False,
            secret_check=False,
            secret_applied_time=None,
            isolated_pod=None,
            problem=None,
            explained_time=None,
            pod_awaited=None,
            events_after=None,
        )
