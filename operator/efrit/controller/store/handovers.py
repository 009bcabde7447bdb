"""Which requests are being handed over, what a bridge said of each, and whether an instance may be closed."""

from __future__ import annotations

from dataclasses import replace

from efrit.api import EfritInstance
from efrit.api.instance import HandoverState
from efrit.controller.decide import handover
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import Handover
from efrit.controller.store.index import Index
from efrit.controller.store.instance_record import InstanceRecord, new_handover_id
from efrit.controller.store.request_record import RequestRecord


class Handovers:
    """What must be known of hand-overs before the status of an instance may say Closed."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def submit_begins(self, instance: Key, request: Key, run_id: str, handover_id: str) -> bool:
        """Record that a request is being handed over; False where the instance is not open under this id any more.

        False as well while its pod may be replaced, or it is being deleted: the request comes back once that is over.
        """
        target, entry = self._index.instances.get(instance), self._index.requests.get(request)
        if target is None or target.instance is None or entry is None or entry.run_id != run_id:
            return False
        if target.replacing:  # gate: submit-while-replaced
            return False
        if target.removals:  # gate: submit-while-removed
            return False
        recorded = target.instance.status.handover
        is_open = (
            recorded is not None and recorded.state == HandoverState.OPEN and recorded.id == target.facts.handover_id
        )
        if not is_open or handover_id != target.facts.handover_id:  # gate: open-recorded
            self._index.requeue_request(request)
            return False
        entry.submitting = True  # gate: submitting
        # Until the outcome is known the instance is not idle.
        target.submitting += 1
        return True

    def submit_ended(self, instance: Key, request: Key, run_id: str, *, may_have_arrived: bool = True) -> None:
        """Record that the call is over, and that what it left on the queue is remembered."""
        target = self._index.instances[instance]
        target.submitting -= 1
        if target.instance is None:
            # Only this kept its record.
            self._index.requeue_instance(instance)
        entry = self._index.requests.get(request)
        if entry is not None and entry.run_id == run_id:
            entry.submitting = False
            entry.may_have_arrived |= may_have_arrived

    def handed_over(self, instance: Key, request: Key, run_id: str) -> None:
        """Remember that the queue of an instance may have a request, though nobody said so."""
        entry = self._index.requests.get(request)
        if entry is not None and entry.run_id == run_id:
            entry.handover = Handover(self._index.instances[instance].bridge.queue_id or "")

    def absent(self, request: Key, run_id: str, queue_id: str) -> None:
        """Remember that a queue does not know a request."""
        entry = self._index.requests.get(request)
        if entry is not None and entry.run_id == run_id:
            entry.handover = Handover(queue_id, absent=True)
            self._index.requeue_request(request)

    def bridge_refused(self, request: Key, run_id: str, sentence: str) -> None:
        """Remember that a bridge will never take a request, and why."""
        entry = self._index.requests.get(request)
        if entry is not None and entry.run_id == run_id:
            entry.handover = Handover("", absent=True, refused=sentence)
            self._index.requeue_request(request)

    def close_begins(self, instance: Key) -> bool:
        """Let nothing more be handed over under the present id; False where a request was since the decision."""
        entry = self._index.instances[instance]
        if not self.may_close(instance):
            self._index.queue.add_after(WorkKey(EfritInstance.kind, *instance), handover.RETRY_CLOSE.total_seconds())
            return False
        # Whether the write succeeds may never be known: only another one opens the instance again.
        entry.facts = replace(entry.facts, handover_id=new_handover_id())  # gate: new-handover-id
        return True

    def may_close(self, instance: Key) -> bool:
        """Return whether every open request that the instance may have got says so in its own status."""
        entry = self._index.instances.get(instance)
        if entry is None or entry.instance is None or not self._index.is_listed(instance[0]):
            return False
        if entry.pod is not None and not entry.pod.deleting:
            return False
        recorded = entry.instance.status.handover
        if recorded is not None and recorded.state == HandoverState.CLOSED:
            return True
        requests = self._index.requests
        # gate: open-requests-marked
        return not any(self._unmarked(entry, requests[key], instance) for key in entry.open_requests)

    def _unmarked(self, target: InstanceRecord, entry: RequestRecord, instance: Key) -> bool:
        # There may be ten thousand: none is unpacked for it.
        if entry.target != instance or entry.packed.marked:
            return False
        assert target.instance is not None  # noqa: S101 - checked by the caller
        return entry.submitting or handover.may_be_handed_over(
            marked=False,
            named=True,
            handover=entry.handover,
            reported_by_bridge=entry.run_id in target.views,
            listed_at_start=entry.listed_at_start,
            closed_before=target.facts.closed_before,
            opened_by_other=target.facts.opened_by_other,
            ephemeral=bool(target.instance.spec.queue.ephemeral),
        )
