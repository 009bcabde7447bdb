"""Which requests are being handed over, and whether an instance may be closed for further ones."""

from __future__ import annotations

from efrit.api import EfritInstance
from efrit.api.instance import HandoverState
from efrit.controller.decide import handover
from efrit.controller.decide.views import Key
from efrit.controller.watch.queue import WorkKey
from efrit.controller.watch.records import InstanceRecord, RequestRecord, new_handover_id, target_of
from efrit.controller.watch.request_failures import RequestFailures


class Handovers(RequestFailures):
    """The memory with what must be known before the status of an instance may say Closed."""

    def submit_begins(self, instance: Key, request: Key, uid: str, handover_id: str) -> bool:
        """Record that a request is being handed over; False where the instance is not open under this id any more."""
        target, entry = self._instances.get(instance), self._requests.get(request)
        if target is None or target.instance is None or entry is None or entry.request.metadata.uid != uid:
            return False
        known = target.instance.status.handover
        is_open = known is not None and known.state == HandoverState.OPEN and known.id == target.handover_id
        if not is_open or target.handover_id != handover_id:
            self._look_request(request)
            return False
        entry.submitting = True
        # Until the outcome is known the instance is not idle.
        target.submitting += 1
        return True

    def submit_ended(self, instance: Key, request: Key, uid: str) -> None:
        """Record that the call is over, and that what it left on the queue is remembered."""
        self._instances[instance].submitting -= 1
        entry = self._requests.get(request)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.submitting = False

    def close_begins(self, instance: Key) -> bool:
        """Let nothing more be handed over under the present id; False where a request was since the decision."""
        entry = self._instances[instance]
        if not self.may_close(instance):
            self._queue.add_after(WorkKey(EfritInstance.kind, *instance), handover.RETRY_CLOSE.total_seconds())
            return False
        # Whether the write succeeds may never be known: only another one opens the instance again.
        entry.handover_id = new_handover_id()
        return True

    def may_close(self, instance: Key) -> bool:
        """Whether every open request that the instance may have got says so in its own status."""
        entry = self._instances.get(instance)
        if entry is None or entry.instance is None or not self.is_listed(instance[0]):
            return False
        if entry.pod is not None and not entry.pod.deleting:
            return False
        known = entry.instance.status.handover
        if known is not None and known.state == HandoverState.CLOSED:
            return True
        return not any(self._unmarked(entry, self._requests[key], instance) for key in entry.open_requests)

    def _unmarked(self, target: InstanceRecord, entry: RequestRecord, instance: Key) -> bool:
        request = entry.request
        if target_of(request) != instance or handover.marked(request):
            return False
        assert target.instance is not None  # noqa: S101 - checked by the caller
        return entry.submitting or handover.may_be_handed_over(
            request,
            memory=entry.handover,
            told=request.metadata.uid in target.views,
            listed_at_start=entry.listed_at_start,
            closed_before=target.closed_before,
            ephemeral=bool(target.instance.spec.queue.ephemeral),
        )

    def _observe_handover(self, entry: InstanceRecord, instance: EfritInstance, *, replaced: bool) -> None:
        if replaced:
            entry.handover_id, entry.closed_before = new_handover_id(), False
        known = instance.status.handover
        if known is not None and known.state == HandoverState.CLOSED:
            entry.closed_before = True
