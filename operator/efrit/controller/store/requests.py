"""EfritRequests as last seen, with what bridges and the controller's own actions reported about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from efrit.api import EfritRequest
from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.controller.decide.placement import node_is_lost, sleeps
from efrit.controller.model import names
from efrit.controller.model.keys import Key, WorkKey, target_of
from efrit.controller.model.snapshots import (
    ActionFailure,
    EndedRequest,
    Handover,
    InstanceSnapshot,
    PoolPlace,
    RequestSnapshot,
)
from efrit.controller.model.views import BridgeView
from efrit.controller.store.index import Index, Orphan
from efrit.controller.store.instance_record import InstanceRecord
from efrit.controller.store.instances import Instances
from efrit.controller.store.packed_request import PackedRequest, RecentRequests
from efrit.controller.store.plans import Plans
from efrit.controller.store.pool_lines import PoolRoom
from efrit.controller.store.pool_record import PoolRecord
from efrit.controller.store.preemptions import Preemptions
from efrit.controller.store.records import in_scope, is_older
from efrit.controller.store.request_record import NO_LABELS, RequestRecord
from efrit.controller.store.watched_objects import WatchedObjects
from efrit.errors import ApiRefused, EfritError
from efrit.protocol import RequestReason
from efrit.protocol.view import RequestView

MAX_SENTENCE_CHARS = 512
MAX_LABEL_CHARS = 1024
"""Of the labels of a request that waits for a pool; one with more has no flow."""
MAX_BINDING_FAILURES = 8
"""After so many in a row, 13 seconds with the pauses between them, others have the turn of a request meanwhile."""
MAX_RECORDED_QUEUES = 4
"""A request that this process records on more counts as handed over, if its status names one of the first."""
SENTENCE_KEPT = timedelta(seconds=10)
"""A failure whose code changes is reported anew at most this often: each report is a write of the status."""

ADMITTED_REASONS = (RequestReason.BACKPRESSURE, RequestReason.PREEMPTING, RequestReason.PREEMPTED)
"""Reasons of a request that waits for a member of its pool. One without a pool waits for that, for another reason."""


class Requests(WatchedObjects[EfritRequest, RequestRecord]):
    """All EfritRequests that are open, or with which something is left to do."""

    def __init__(self, index: Index, instances: Instances, plans: Plans) -> None:
        super().__init__(EfritRequest, index.requests, index)
        self._instances = instances
        self._plans = plans
        self._preemptions = Preemptions(index, instances)
        self._recent = RecentRequests()

    # The object.

    def _observed(self, new: EfritRequest, record: RequestRecord | None) -> None:
        entry = record
        before = (entry.target, entry.assumed) if entry is not None else ()
        if entry is not None and entry.uid == new.metadata.uid:
            self._index.untarget(entry)
            if not new.final and new.status.progress != entry.request.status.progress:
                entry.progress_written = self._index.clock()
            previous, entry.packed = entry.packed, self._recent.keep(new)
            self._recent.forget(previous)
            if entry.target is not None:
                entry.binding_failures = 0
            if previous.run_id != entry.run_id:
                self._run_ended(entry, previous)
        else:
            if entry is not None:
                self._forget_replaced(entry)
            self._index.requests[new.key] = RequestRecord(
                self._recent.keep(new),
                handover=self._handover_seen_at_start(new),
                first_seen=self._index.monotonic(),
                listed_at_start=not self._index.is_listed(new.metadata.namespace),
                admitted=_was_admitted(new),
            )
            self._index.request_keys[new.run_id] = new.key
        self._index.requests[new.key].labels = _flow_labels(
            new, is_requester_noted=self._index.config.is_requester_noted
        )
        for orphan in [orphan for orphan in self._index.orphans.get(new.key, ()) if orphan.uid == new.run_id]:
            self._index.discard_orphan(new.key, orphan)
        self._index.retarget(new)
        self._keep_content(new)
        self._index.update_work(*before, target_of(new))
        self._index.requeue_request(new.key)
        self._plans.observe_request(new)

    def observe_gone(self, key: Key, uid: str) -> None:
        """Take in that the API server does not know this request any more."""
        self._index.tombstones.add(uid, deleted=True)
        entry = self.record(key, uid)
        if entry is not None:
            before = entry.target, entry.assumed
            self._index.untarget(entry)
            self._index.contents.discard(uid)
            entry.gone = True
            self._index.update_work(*before)
            self._index.requeue_request(key)
        self._plans.request_gone(key, uid)

    def observe_missing(self, key: Key, uid: str) -> None:
        """Take in that a request left the watched selection; one that waits keeps no place from the next any more."""
        super().observe_missing(key, uid)
        self._note_leaving(key, uid)

    def observe_verified(self, key: Key, uid: str, obj: Mapping[str, Any] | None) -> None:
        """Take in what the API server has in the place of a request; another one of its name says that it is gone."""
        super().observe_verified(key, uid, obj if obj is not None and obj["metadata"]["uid"] == uid else None)
        self._note_leaving(key, uid)

    def observe_written(self, obj: Mapping[str, Any]) -> None:
        """Take in a request as a write of this process has made it."""
        meta = obj["metadata"]
        entry = self.record((meta["namespace"], meta["name"]), meta["uid"])
        if entry is not None:
            entry.status_refused = False  # gate: status-accepted
        super().observe_written(obj)

    def _note_leaving(self, key: Key, uid: str) -> None:
        entry = self.record(key, uid)
        if entry is not None:
            self._index.pool_lines.note_leaving(entry, is_leaving=entry.left_selection)

    def drop(self, key: Key) -> None:
        """Forget a request with which nothing is left to do."""
        entry = self._index.requests.pop(key, None)
        if entry is not None:
            if entry.gone or entry.packed.final:  # gate: left-open
                self._index.tombstones.add(entry.uid, deleted=entry.gone)
            self._index.update_work(*self._index.untarget(entry))
            self._index.contents.discard(entry.uid)
            self._index.request_keys.pop(entry.run_id, None)
            self._recent.forget(entry.packed)
            work = WorkKey(EfritRequest.kind, *key)
            if key in self._index.orphans:  # gate: orphans-left
                self._index.queue.forget(work)
            else:
                self._index.queue.settled(work)

    def drop_if_left(self, key: Key) -> None:
        """Forget a request that left the selection, whether it is gone or not, once its instance is gone.

        One that is still open comes back with the next list of its namespace.
        """
        entry = self._index.requests.get(key)
        if entry is None or not (entry.gone or entry.left_selection):
            return
        target = entry.target
        if target is None or self._instances.is_done(target):  # gate: left-instance
            self.drop(key)
            if target is not None:
                self._index.requeue_instance(target)

    def is_done(self, key: Key) -> bool:
        """Return whether nothing is left to do about a request."""
        entry = self._index.requests.get(key)
        if entry is None:
            return True
        target = entry.target
        pending = target is not None and entry.run_id in self._index.instances[target].views
        if entry.gone:
            return not pending
        return entry.left_selection and entry.packed.final and not pending

    def is_over(self, record: RequestRecord) -> bool:
        """Return whether a request is deleted or has its final status."""
        return not record.open

    def final_uids(self, scope: str | None = None) -> list[tuple[Key, str]]:
        """Return key and UID of the final requests of a namespace that are still remembered."""
        return [
            (key, entry.uid)
            for key, entry in self._index.requests.items()
            if entry.packed.final and in_scope(key, scope)
        ]

    def is_outdated(self, key: Key, version: str) -> bool:
        """Return whether a later version of a request is known to exist than the one recorded."""
        entry = self._index.requests.get(key)
        return entry is not None and is_older(entry.version, version)

    async def requeue_open(self, within: float, scope: str | None = None) -> None:
        """Reconcile every open request of a namespace again, in the background and spread over so many seconds."""
        await self._index.requeue_all_within(EfritRequest.kind, self.open_uids(scope), within)

    def _forget_replaced(self, entry: RequestRecord) -> None:
        """Forget a request that another has the name of by now; what a queue has of it is orphaned work."""
        target, uid = entry.target, entry.uid
        self._recent.forget(entry.packed)
        self._index.tombstones.add(uid, deleted=True)
        self._index.untarget(entry)
        self._index.contents.discard(uid)
        self._index.request_keys.pop(entry.run_id, None)
        if target is not None and entry.run_id in self._index.instances[target].views:
            self._index.add_orphan(entry.packed.key, Orphan(target, entry.run_id))

    def _run_ended(self, entry: RequestRecord, previous: PackedRequest) -> None:
        """Begin the next run of a request that was preempted; what a queue has of the former one is orphaned work."""
        self._index.request_keys.pop(previous.run_id, None)
        self._index.request_keys[entry.run_id] = entry.packed.key
        entry.handover = entry.placement = entry.failure = None
        entry.recorded_queues = ()
        entry.submitting = entry.parked = entry.may_have_arrived = False
        target = previous.target
        if target is not None and previous.run_id in self._index.instances[target].views:
            self._index.add_orphan(entry.packed.key, Orphan(target, previous.run_id))  # gate: run-settled

    def _keep_content(self, request: EfritRequest) -> None:
        """Keep the content of a request that is yet to be handed over."""
        uid = request.metadata.uid
        target = target_of(request)
        if request.final or (target is not None and request.run_id in self._index.instances[target].views):
            self._index.contents.discard(uid)
        else:
            self._index.contents.put(uid, request.spec.content)

    def _handover_seen_at_start(self, request: EfritRequest) -> Handover | None:
        target = target_of(request)
        entry = self._index.instances.get(target) if target else None
        if entry is None or request.run_id not in entry.views:
            return None
        return Handover(entry.bridge.queue_id or "")

    # What actions learned.

    def assume(self, request: Key, instance: Key | None, *, in_turn: bool = True) -> None:
        """Count a request as the instance's while its binding is being written; None takes that back.

        in_turn: whether it was the next in the line of its pool.
        """
        entry = self._index.requests.get(request)
        if entry is None or (instance is None and entry.assumed is None):  # gate: nothing-assumed
            return
        before = entry.assumed
        self._index.untarget(entry)
        if instance is None or entry.target is not None:
            # One that waits goes from the line of its pool to a member, not back into it first.
            self._index.retarget(entry.request)
        if instance is None and (entry.status_refused or entry.binding_failures >= MAX_BINDING_FAILURES):
            # Before others are: it would be reconciled at once.
            self._index.pool_lines.set_aside(entry)
        if instance is not None:
            entry.assumed = instance
            self._index.pool_lines.bound(entry, in_turn=in_turn)
            self._index.count_for(request, instance)
        self._index.update_work(before, instance)

    def binding_failed(self, key: Key, uid: str) -> None:
        """Take in that a request could not be bound, as the API server did not answer: the work queue retries it.

        Until then it keeps its turn in its pool, unless that goes on: perhaps it fails for this request alone.
        """
        entry = self.record(key, uid)
        if entry is not None:
            entry.retries_binding = True
            entry.binding_failures += 1

    def status_refused(self, key: Key, uid: str) -> None:
        """Take in that the API server refused a status, perhaps for ever.

        Until it is decided about again it keeps no place in its pool: that may be the first, before all others.
        """
        entry = self.record(key, uid)
        if entry is not None:
            entry.status_refused = True
            self._index.pool_lines.set_aside(entry)

    def queue_recorded(self, key: Key, uid: str, queue: str) -> None:
        """Remember which queue this process is about to write into a status that does not name it yet.

        Where that fails, the status goes on to name the one before.
        """
        entry = self.record(key, uid)
        if entry is not None and queue not in entry.recorded_queues:
            entry.recorded_queues = (*entry.recorded_queues, queue)[-MAX_RECORDED_QUEUES:]

    def content_read(self, key: Key, uid: str, obj: Mapping[str, Any]) -> None:
        """Take in a request that was read for its content, which is then at hand though the version is known."""
        self.observe(obj)
        entry = self.record(key, uid)
        if entry is not None and entry.open:
            self._index.contents.put(uid, str(obj["spec"]["content"]))

    def progress_dropped(self, key: Key, uid: str) -> None:
        """Remember that it was tried to say how far a request has come."""
        entry = self.record(key, uid)
        if entry is not None:
            entry.progress_written = self._index.clock()

    def session_found(self, key: Key, uid: str, instance: str) -> None:
        """Remember which instance has the session a request continues, `""` for none."""
        entry = self.record(key, uid)
        if entry is not None:
            entry.session_instance = instance
            self._index.requeue_request(key)

    def action_failed(self, request: Key, uid: str, action: str, error: EfritError, *, refused: bool = False) -> bool:
        """Record that an action for a request, or for its present run, failed.

        refused: whether repeating it as it is will not help. Return whether it did not fail before.
        """
        entry = self._record_of_run(request, uid)
        if entry is None:
            return False
        now, previous = self._index.clock(), entry.failure
        sentence = error.sentence if isinstance(error, ApiRefused) else error.message
        failure = ActionFailure(
            action, error.code, sentence[:MAX_SENTENCE_CHARS], sentence_time=now, first=now, last=now
        )
        if previous is not None and previous.action == action:
            if error.code == previous.code or now - previous.sentence_time < SENTENCE_KEPT:
                failure = replace(previous, last=now)
            failure = replace(failure, first=previous.first, refusals=previous.refusals)
        entry.failure = replace(failure, refusals=failure.refusals + refused)
        if refused:
            # Nothing is raised: the work queue does not come back to it by itself.
            self._index.requeue_request(request)
        return failure.first == now

    def parked(self, request: Key, uid: str) -> None:
        """Remember that a request comes back by itself when its bridge may be called: figures are not a reason to."""
        entry = self._record_of_run(request, uid)
        if entry is not None:
            entry.parked = True

    def _record_of_run(self, request: Key, uid: str) -> RequestRecord | None:
        entry = self._index.requests.get(request)
        return entry if entry is not None and uid in (entry.uid, entry.run_id) else None

    def result_stored(self, request: Key, uid: str) -> None:
        """Forget that the result of a request could not be stored."""
        entry = self.record(request, uid)
        if entry is not None:
            entry.failure = None

    # What decisions read.

    def snapshot(self, key: Key) -> RequestSnapshot | None:
        """Return the picture of a request, or None where there is none."""
        entry = self._index.requests.get(key)
        if entry is None:
            return None
        entry.parked = entry.retries_binding = False
        self._index.pool_lines.resume(entry)
        content = self._index.contents.get(entry.uid)
        request = entry.packed.unpack(content)
        target_key = entry.target
        target = self._instances.snapshot(target_key) if target_key else None
        view = self._index.instances[target_key].views.get(entry.run_id) if target_key else None
        pool = self._index.pools.get(entry.packed.pool) if entry.packed.pool is not None else None
        leaves = pool is not None and target_key is not None and self._leaves(pool, target_key)
        leaves |= pool is not None and target is not None and _left_by_session(request, pool, target)
        candidates: Iterable[InstanceSnapshot | None] = ()
        place = None
        if target_key is None or leaves or (target is not None and node_is_lost(target)):
            room = self._index.pool_lines.room(pool.object.key) if pool is not None else None
            keys = self._matching(request) if room is None else self._members(entry, room)
            candidates = (self._instances.snapshot(candidate) for candidate in keys)
            if pool is not None and room is not None and (target_key is None or leaves):
                place = self._pool_place(entry, pool, room)
        return RequestSnapshot(
            request=request,
            content_bytes=entry.packed.content_bytes if content is None else None,
            config=self._index.config,
            target=target,
            candidates=tuple(candidate for candidate in candidates if candidate is not None),
            bridge_view=view,
            handover=entry.handover,
            ahead=self._ahead(self._index.instances[target_key], target, key)
            if target_key and target and not view
            else 0,
            seen_for=timedelta(seconds=self._index.monotonic() - entry.first_seen),
            listed_at_start=entry.listed_at_start,
            never_submitted=self._is_never_submitted(entry, request, view),
            opened_by_other=target_key is not None and self._index.instances[target_key].facts.opened_by_other,
            gone=entry.gone,
            reduced_status=entry.reduced_status,
            loaded=self._index.queue.is_loaded(key[0]),
            progress_written=entry.progress_written,
            session_instance=entry.session_instance,
            failure=entry.failure,
            pool=place,
        )

    def ended(self, key: Key) -> EndedRequest | None:
        """Return what is left of a request that has its final status, None of any other and of one that is gone."""
        entry = self._index.requests.get(key)
        if entry is None or entry.gone or not entry.packed.final:
            return None
        entry.parked = False
        target = self._index.instances.get(entry.target) if entry.target is not None else None
        return EndedRequest(
            entry.packed.unpack(),
            entry.target if target is not None and target.instance is not None else None,
            target.views.get(entry.run_id) if target is not None else None,
            target.bridge if target is not None else BridgeView(),
        )

    def _is_never_submitted(self, entry: RequestRecord, request: EfritRequest, view: RequestView | None) -> bool:
        """Return whether the queue that the status names cannot have the request.

        It names the queue since this process leads, so nobody else can have sent the request there.
        """
        queue, target = request.status.queue_id, entry.target
        if queue is None or target is None or queue not in entry.recorded_queues or entry.may_have_arrived:
            return False
        if entry.submitting or entry.handover is not None or view is not None:
            return False
        return not self._index.instances[target].facts.opened_by_other

    def _pool_place(self, entry: RequestRecord, pool: PoolRecord, room: PoolRoom) -> PoolPlace:
        """Return the place of a request that waits for a member of its pool, or whose member leaves that."""
        spec = pool.object.spec
        place = PoolPlace(
            pool.object.metadata.name,
            spec.placement.strategy,
            spec.placement.max_load_per_instance,
            awake=room.awake,
            asleep=room.asleep,
            waiting=self._index.pool_lines.backlog(pool.object.key),
            affinity_wait=spec.placement.affinity_wait,
        )
        if entry.target is not None:
            # It had its turn: it goes first.
            return replace(place, leaves=entry.target[1])
        line = self._index.pool_lines.line(pool.object.key)
        flow = line.flow_of(entry.packed.key) if line is not None else None
        ahead = self._index.pool_lines.ahead(entry, room.awake + room.asleep)
        has_room = ahead < room.awake + room.asleep
        victim, may_come = self._preemptions.victim(entry, pool) if not has_room else (None, False)
        return replace(
            place,
            ahead=ahead,
            flow_has_all=flow is not None and self._index.pool_lines.flow_has_all(pool.object.key, flow),
            turned_away=spec.fairness.max_pending_per_flow if entry.turned_away else None,
            victim=victim,
            victim_may_come=may_come,
        )

    def _members(self, entry: RequestRecord, room: PoolRoom) -> tuple[Key, ...]:
        """Return members of its pool that a request may go to: some with room, and the one that has its session."""
        pool, session = entry.packed.pool, entry.session_instance
        member = (pool[0], session) if pool is not None and session else None
        if pool is None or member is None or member in room.members:
            return room.members
        return (*room.members, member) if member in self._index.pool_lines.members_of(pool) else room.members

    def _leaves(self, pool: PoolRecord, member: Key) -> bool:
        """Return whether a member takes nothing more: it drains, its pod stops, or it is gone."""
        entry = self._index.instances[member]
        if member[1] in pool.draining:
            return True
        if entry.instance is None:
            return self._index.is_listed(member[0])
        return entry.pod is not None and entry.pod.deleting

    def _matching(self, request: EfritRequest) -> list[Key]:
        spec = request.spec
        if spec.pool_ref is not None:
            labels = {names.POOL_LABEL: spec.pool_ref.name}
        elif spec.selector is not None:
            labels = dict(spec.selector.match_labels)
        else:
            return []
        return self._index.labels.matching(request.metadata.namespace, labels)

    def _ahead(self, entry: InstanceRecord, target: InstanceSnapshot, key: Key) -> int:
        stats = target.bridge.stats
        limit = target.instance.spec.queue.max_pending
        if stats is None or stats.pending + stats.processing + len(entry.backlog) <= limit:
            return 0
        return entry.backlog.ahead_of(key)


def _was_admitted(request: EfritRequest) -> bool:
    """Return whether the status says that an earlier process let the request wait for its pool."""
    status = request.status
    if status.instance_name is not None or status.reason in ADMITTED_REASONS:  # gate: was-admitted
        return True
    # It waits for the member that has its session, and why is that member's reason.
    return request.spec.session is not None and status.reason is not None


def _left_by_session(request: EfritRequest, pool: PoolRecord, instance: InstanceSnapshot) -> bool:
    """Return whether a request that continues a session may come to leave the member that has it."""
    preferred = pool.object.spec.placement.affinity_wait is not None
    return preferred and request.spec.session is not None and not instance.available and not sleeps(instance)


def _flow_labels(request: EfritRequest, *, is_requester_noted: bool) -> Mapping[str, str]:
    """Return what the flow of a request follows from: its labels, and who made it as the API server saw it.

    Empty where it names no pool. Labels that are larger than a flow is worth are left out; the requester stays. Where
    the API server notes none, what stands there is not believed: anybody may have written it.
    """
    if request.spec.pool_ref is None:
        return NO_LABELS
    meta = request.metadata
    size = sum(len(name) + len(value) for name, value in meta.labels.items())
    labels = meta.labels if size <= MAX_LABEL_CHARS else {}
    requester = meta.annotations.get(REQUESTER, "")[:MAX_FLOW_CHARS] if is_requester_noted else ""
    return {**labels, REQUESTER: requester}
