"""One request at one moment: the snapshot with what several checks derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from efrit.api.request import RequestHandover
from efrit.controller.decide.handover import is_marked, may_be_handed_over
from efrit.controller.decide.status_limits import FULL, REDUCED, StatusLimits
from efrit.controller.model.keys import target_of
from efrit.controller.model.snapshots import RequestSnapshot
from efrit.protocol import RequestState


@dataclass(frozen=True)
class RequestContext:
    """The snapshot with what several checks derive from it."""

    snapshot: RequestSnapshot
    now: datetime

    @cached_property
    def waited(self) -> timedelta:
        """How long ago the request was made; at least as long as this process has known it, if a clock is wrong."""
        created = self.snapshot.request.metadata.creation_timestamp
        return max(self.now - created if created else timedelta(0), self.snapshot.seen_for)

    @property
    def queue_timeout(self) -> timedelta:
        """How long it may wait for its start: as its spec says, or as the installation does."""
        seconds = self.snapshot.request.spec.queue_timeout_seconds
        if seconds is None:
            return self.snapshot.config.queue_timeout  # gate: default-queue-timeout
        return timedelta(seconds=seconds)

    @property
    def queue_timeout_message(self) -> str:
        """What its status says once it has waited that long."""
        source = "spec.queueTimeoutSeconds"
        if self.snapshot.request.spec.queue_timeout_seconds is None:
            source = "the default of spec.queueTimeoutSeconds"
        return f"It waited longer than {source} ({self.queue_timeout.total_seconds():.0f} s) and never ran."

    @cached_property
    def queue_deadline_passed(self) -> bool:
        """Whether it has waited as long as it may."""
        return self.waited >= self.queue_timeout

    @cached_property
    def may_be_handed_over(self) -> bool:
        """Whether the queue may hold the request, as far as this process knows."""
        snapshot, target = self.snapshot, self.snapshot.target
        if self._was_recorded_alone:
            return False
        return may_be_handed_over(
            marked=is_marked(snapshot.request),
            named=target_of(snapshot.request) is not None,
            handover=snapshot.handover,
            reported_by_bridge=snapshot.bridge_view is not None,
            listed_at_start=snapshot.listed_at_start,
            closed_before=target is not None and target.facts.closed_before,
            opened_by_other=snapshot.opened_by_other,
            ephemeral=target is not None and bool(target.instance.spec.queue.ephemeral),
        )

    @property
    def _was_recorded_alone(self) -> bool:
        """Whether its status names an ephemeral queue that is away by now and was never sent the request."""
        target = self.snapshot.target
        return self.snapshot.never_submitted and (target is None or not target.available)

    @cached_property
    def handover_mark(self) -> dict[str, object]:
        """Fields of an open status that say that the queue of an absent instance may have the request."""
        target, handover = self.snapshot.target, self.snapshot.handover
        if target is None or target.available or not self.may_be_handed_over:
            return {}
        fields: dict[str, object] = {"handover": RequestHandover.POSSIBLE}
        if self.snapshot.request.status.queue_id is None and handover is not None and handover.queue_id:
            fields["queue_id"] = handover.queue_id
        return fields

    @cached_property
    def was_handed_over(self) -> bool:
        """Whether a queue is known to have, or to have had, the request."""
        snapshot = self.snapshot
        if snapshot.handover is not None:
            return not snapshot.handover.absent
        if self._was_recorded_alone:
            return False
        return snapshot.bridge_view is not None or snapshot.request.status.queue_id is not None

    @property
    def limits(self) -> StatusLimits:
        """How much its status may say."""
        return REDUCED if self.snapshot.reduced_status else FULL

    @property
    def runs_in_stopping_pod(self) -> bool:
        """Whether the pod that is being stopped reported last that it runs the request."""
        view, target = self.snapshot.bridge_view, self.snapshot.target
        if view is None or view.state != RequestState.RUNNING or target is None or target.pod is None:
            return False
        return target.pod.deleting and target.bridge.pod_uid == target.pod.uid

    @property
    def stoppable_in_stopping_pod(self) -> bool:
        """Whether the bridge of the pod that is being stopped can be asked to stop the request."""
        return (
            self.runs_in_stopping_pod and self.snapshot.target is not None and self.snapshot.target.bridge.connected
        )

    @property
    def has_begun(self) -> bool:
        """Whether Emacs works on it, or has: the wait for a start is over, though it may wait to be run again."""
        if self.snapshot.request.status.preemption is not None:  # gate: preempted-has-begun
            return True
        view = self.snapshot.bridge_view
        bridge_reports_begin = view is not None and (view.state == RequestState.RUNNING or view.attempt > 0)
        return bridge_reports_begin or self.snapshot.request.status.start_time is not None
