"""EfritInstances as last seen, with what their children, bridges and own actions of the controller reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from efrit.api import ConditionStatus, EfritInstance, condition_of
from efrit.api.instance import READY, HandoverState
from efrit.controller.decide.explanation import absent_since
from efrit.controller.decide.figures import EARLY_WRITES, MAX_WRITES, is_kept
from efrit.controller.decide.rollout import nothing_runs
from efrit.controller.model.keys import RESYNC, Key, WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.store.figures_pace import FiguresPace
from efrit.controller.store.handovers import Handovers
from efrit.controller.store.index import Index
from efrit.controller.store.instance_record import InstanceRecord, new_handover_id, scheduling_fingerprint
from efrit.controller.store.records import in_scope
from efrit.controller.store.watched_objects import WatchedObjects

MAX_REPORTED_FAILURES = 6
"""Failures in a row to apply children that count as a refusal: with the work queue's pauses, about two seconds."""

CLAIMED_SECONDS = 10.0
"""Within which an instance is decided about again that an exclusive claim has taken as it was: in the second half."""

RETRY_REPLACE = timedelta(seconds=1)
"""When a StatefulSet is decided about again that was not applied because of a hand-over."""


class Instances(WatchedObjects[EfritInstance, InstanceRecord]):
    """All EfritInstances; a record without an object is one of which only children were seen."""

    def __init__(self, index: Index, handovers: Handovers) -> None:
        super().__init__(EfritInstance, index.instances, index)
        self._handovers = handovers
        self._figures_pace = FiguresPace()

    # The object.

    def _observed(self, new: EfritInstance, record: InstanceRecord | None) -> None:
        entry = record or self._index.instances[new.key]
        if entry.deleted_uid == new.metadata.uid and new.metadata.deletion_timestamp is None:
            return
        previous, pool, claim = entry.instance, entry.pool, entry.claim
        # The deletion of the one before may have been seen already.
        replaced = entry.newest_uid not in (None, new.metadata.uid)
        refusal, entry.newest_uid = entry.store_instance(new), new.metadata.uid
        # Work gets to one that is claimed by its name alone.
        selectable = entry.object is not None and entry.claim is None and entry.taken_by is None
        self._index.labels.put(new.key, entry.object.metadata.labels if entry.object and selectable else None)
        if replaced:
            entry.pod_owners.clear()
            entry.facts = entry.facts.carried_over(new_handover_id())
        elif previous is None:
            entry.facts = replace(entry.facts, handover_paused=False)
            if entry.facts.events_after is None:
                absent = absent_since(new, self._index.clock())  # gate: events-before
                entry.facts = replace(entry.facts, events_after=absent)
        if entry.statefulset is not None:
            entry.observe_owner(entry.statefulset)
        self._index.pool_lines.place_member(new.key, pool, entry.pool)
        self._index.claim_lines.place(new.key, claim, entry.claim)
        self._index.observe_rollout(new.key)
        self._index.update_work(new.key)
        _observe_handover(entry, new)
        _observe_ready(entry, new)
        refused = entry.facts.refused, entry.facts.refused_generation
        if refusal is not None and refused != (refusal, new.metadata.generation):
            # Labels change without a new generation.
            self.refused(new.key, new.metadata.uid, new.metadata.generation, refusal)
        if claim is None and entry.claim is not None and _has_same_content(previous, entry.instance):
            # Nothing has to be done about it because somebody claims it, and claims that wait are to be bound first,
            # those that come next as well.
            key = WorkKey(EfritInstance.kind, *new.key)
            self._index.requeue_within(key, CLAIMED_SECONDS, least=CLAIMED_SECONDS / 2)
        else:
            self._index.requeue_instance(new.key)
        # As both are kept: of too many labels none is, and the object itself would differ each time.
        before, after = (
            scheduling_fingerprint(instance) if instance else None for instance in (previous, entry.instance)
        )
        if before != after:
            self._index.requeue_waiting(new.key)
            self._requeue_unbound(new.key)
            self._index.claim_lines.requeue_owner(new.key)

    def observe_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritInstance was deleted: all of them are watched."""
        meta = obj["metadata"]
        self.observe_gone((meta["namespace"], meta["name"]), meta["uid"])

    def observe_gone(self, key: Key, uid: str | None) -> None:
        """Forget the EfritInstance with this UID; one made anew under its name stays."""
        entry = self._index.instances.get(key)
        if entry is None or (entry.instance is not None and entry.instance.metadata.uid != uid):  # gate: deleted-uid
            return
        if uid is not None:
            self._index.tombstones.add(uid, deleted=True)  # gate: instance-tombstone
        pool, claim = entry.pool, entry.claim
        entry.object = entry.packed_spec = entry.pool = entry.claim = None
        entry.left_selection = False
        self._index.pool_lines.place_member(key, pool, None)
        self._index.claim_lines.place(key, claim, None)
        self._index.labels.put(key, None)
        self._index.observe_rollout(key)
        self._index.requeue_instance(key)
        self._index.requeue_waiting(key)

    def drop(self, key: Key) -> None:
        """Forget an instance that is gone, once nothing of it is left that a request could ask for."""
        entry = self._index.instances.get(key)
        if entry is None or entry.instance is not None or entry.pod is not None:
            return
        self._index.forget_orphans(key)
        for uid in list(entry.views):
            request = self._index.request_keys.get(uid)
            if request is None:
                del entry.views[uid]
            elif self._index.requests[request].gone:
                # Nothing is left of its work either, and nothing else would bring the controller back to it.
                del entry.views[uid]
                self._index.requeue_request(request)
        if entry.empty:
            del self._index.instances[key]

    def is_done(self, key: Key) -> bool:
        """Return whether there is no such instance any more; its children may still be there."""
        record = self._index.instances.get(key)
        return record is None or record.object is None

    def is_over(self, record: InstanceRecord) -> bool:
        """Return whether there is no object: an instance is never final."""
        return record.object is None

    def keys(self, scope: str | None = None) -> list[Key]:
        """Return the keys of all instances of a namespace, those included of which only children are left."""
        return [key for key in self._index.instances if in_scope(key, scope)]

    def uids(self, scope: str | None = None) -> dict[Key, str | None]:
        """Return the UID of each instance of a namespace by its key, None where only children are left."""
        return {
            key: entry.instance.metadata.uid if entry.instance else None
            for key, entry in self._index.instances.items()
            if in_scope(key, scope)
        }

    # What actions learned.

    def pause_handover(self, instance: Key) -> None:
        """Hand no more requests to an instance until `resume_handover`."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, handover_paused=True)  # gate: pause-handover

    def resume_handover(self, instance: Key) -> None:
        """Hand requests to an instance again, those first that have waited for it."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, handover_paused=False)
        self._index.requeue_waiting(instance)
        self._requeue_unbound(instance)

    def replace_begins(self, instance: Key) -> bool:
        """Let nothing be handed over while a StatefulSet is applied that may replace the pod.

        False where a request has been handed over since the decision, or is just being: the pod may have come up.
        """
        entry, snapshot = self._index.instances[instance], self.snapshot(instance)
        is_busy = snapshot is not None and snapshot.available and not nothing_runs(snapshot)
        if entry.submitting or is_busy:  # gate: replace-begins
            self._index.queue.add_after(WorkKey(EfritInstance.kind, *instance), RETRY_REPLACE.total_seconds())
            return False
        entry.replacing = True
        return True

    def replace_ended(self, instance: Key) -> None:
        """Hand requests to an instance again whose StatefulSet was applied, or is not to be any more."""
        entry = self._index.instances.get(instance)
        if entry is not None and entry.replacing:
            entry.replacing = False
            self._index.requeue_waiting(instance)
            self._index.pool_lines.requeue_for_member(instance)  # gate: replaced-requeue

    def _requeue_unbound(self, instance: Key) -> None:
        """Have requests reconciled that have no instance and may get this one."""
        self._index.requeue_unbound(instance[0])
        self._index.pool_lines.requeue_for_member(instance)

    def removal_begins(self, instance: Key, *, only_idle: bool) -> bool:
        """Let nothing be handed over while an instance is deleted; False where it has work and may have none."""
        entry = self._index.instances.get(instance)
        if entry is None or (only_idle and entry.open_requests):  # gate: removal-of-idle
            return False
        entry.removals += 1  # gate: removal-begins
        return True

    def removal_ended(self, instance: Key) -> None:
        """Hand requests to an instance again that is not deleted after all."""
        entry = self._index.instances.get(instance)
        if entry is None or not entry.removals:
            return
        entry.removals -= 1
        if entry.instance is not None and not entry.removals:
            self._index.requeue_waiting(instance)
            self._requeue_unbound(instance)

    def not_idle(self, instance: Key) -> None:
        """Take in that the API server knows of open work on an instance that was taken for idle."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, last_activity=self._index.clock())
        self._index.requeue_instance(instance)

    def deleted(self, instance: Key, uid: str) -> None:
        """Take in that this process has deleted an EfritInstance: what the watch still reports of it is late."""
        self._index.instances[instance].deleted_uid = uid
        self.observe_gone(instance, uid)

    def take_figures_turn(self, instance: Key) -> None:
        """Give an instance a turn to have its figures written, and have it reconciled then."""
        entry, now = self._index.instances[instance], self._index.clock()
        turn = self._figures_pace.take(now, instance[0])
        entry.facts = replace(entry.facts, figures_turn=turn)
        self._index.queue.add_after(WorkKey(EfritInstance.kind, *instance), (turn - now).total_seconds())

    def status_written(self, instance: Key, *, figures_alone: bool = False) -> None:
        """Remember a write of an instance's status, and whether it came before the time of its figures.

        figures_alone: whether it says nothing else that is new; it takes a turn, unless it had one.
        """
        entry, now = self._index.instances[instance], self._index.clock()
        facts, before = entry.facts, entry.facts.stats_written
        if figures_alone and not is_kept(facts.figures_turn, now):  # gate: figures-turn
            self._figures_pace.take(now, instance[0])
        early = facts.work_ended is not None and before is not None and now < before + self._index.config.stats_every
        entry.facts = replace(
            facts,
            status_writes=(*facts.status_writes, now)[-MAX_WRITES:],
            stats_written=now,
            figures_turn=None,
            early_writes=(*facts.early_writes, now)[-EARLY_WRITES:] if early else facts.early_writes,
        )

    async def resync_all(self, within: float, scope: str | None = None) -> None:
        """Have the children of each instance of a namespace applied again at a moment within so many seconds."""
        await self._index.requeue_all_within(RESYNC, self.keys(scope), within)

    def resync(self, key: Key) -> None:
        """Have the children of an instance applied again that are not known to be as they were applied."""
        if key not in self._index.instances:
            return
        self.apply_unanswered(key)
        self._index.queue.add_background(WorkKey(EfritInstance.kind, *key))

    def apply_unanswered(self, instance: Key) -> None:
        """Take in that the API server did not say whether it took the children: have them applied again."""
        entry = self._index.instances[instance]
        entry.facts = replace(entry.facts, resync=True)

    def applied(self, instance: Key, uid: str, generation: int, digest: str = "") -> bool:
        """Remember that the children of this generation were accepted; False where they were refused before.

        False as well where the instance with this UID is gone by now.
        `digest` is that of all children but the StatefulSet, which may be held back.
        """
        entry = self.record(instance, uid)
        if entry is None:
            return False
        entry.failures = 0
        taken_before = entry.facts.refused is None
        entry.facts = replace(
            entry.facts,
            applied_generation=generation,
            applied_digest=digest,
            refused=None,
            resync=False,
            child_missing=False,
        )
        if not taken_before:
            self._index.requeue_instance(instance)
        return taken_before

    def refused(self, instance: Key, uid: str, generation: int, sentence: str) -> None:
        """Remember that a child was refused, and why."""
        entry = self.record(instance, uid)
        if entry is None:
            return
        entry.facts = replace(
            entry.facts,
            refused=sentence,
            refused_generation=generation,
            refused_time=self._index.clock(),
            resync=False,
            applied_generation=0,
            applied_digest=None,
        )
        self._index.requeue_instance(instance)

    def failed(self, instance: Key, uid: str, generation: int, sentence: str) -> bool:
        """Remember that the API server failed over a child; once that lasts, take it for a refusal and say so.

        A hiccup passes. An admission webhook that is down answers so for hours, and no status would say why.
        """
        entry = self.record(instance, uid)
        if entry is None:
            return False
        entry.failures += 1
        if entry.failures < MAX_REPORTED_FAILURES:
            return False
        entry.failures = 0
        self.refused(instance, uid, generation, sentence)
        return True

    def explained(self, instance: Key, pod_uid: str | None, problem: str | None) -> None:
        """Remember Kubernetes' own sentence on why an instance does not start, unless its pod is another by now."""
        entry = self._index.instances[instance]
        pod = entry.own_pod
        if (pod.uid if pod is not None else None) != pod_uid:  # gate: explained-pod
            return
        if pod is not None and pod.is_running:
            problem = None
        is_new = entry.facts.problem != problem
        entry.facts = replace(entry.facts, problem=problem, explained_time=self._index.clock())
        if is_new:
            self._index.requeue_instance(instance)

    # What decisions read.

    def snapshot(self, key: Key, *, deciding: bool = False) -> InstanceSnapshot | None:
        """Return the picture of an instance, or None where there is none.

        deciding: whether the decision is about the instance itself: others need not all of its spec, which may be
        large, and `may_close` goes through its requests.
        """
        entry = self._index.instances.get(key)
        if entry is None or entry.instance is None:
            return None
        instance = (entry.whole_instance() if deciding else None) or entry.instance
        plans = self._index.plans_of(key)
        return InstanceSnapshot(
            instance=instance,
            too_large=entry.too_large,
            config=self._index.config,
            statefulset=entry.own_statefulset,
            pod=entry.own_pod,
            claims=tuple(entry.claims.values()),
            bridge=entry.bridge,
            open_requests=len(entry.open_requests),
            active_plans=plans.active,
            suspended_plans=plans.suspended,
            listed=self._index.work_is_listed(key, entry.instance),
            facts=entry.facts,
            unfinished=entry.unfinished,
            controller_started=self._index.started,
            rollout=self._index.rollouts.view(),
            update_reserved=self._index.rollouts.is_reserved(key),
            replacing=entry.replacing,
            removing=entry.removals > 0,
            may_close=deciding and self._handovers.may_close(key),
            claimed=entry.claim is not None or entry.taken_by is not None,
            waiting=len(entry.backlog),
            figures_wait=deciding and self._are_figures_waiting(),
        )

    def _are_figures_waiting(self) -> bool:
        now = self._index.clock()
        return self._figures_pace.next_turn(now) > now


def _has_same_content(previous: EfritInstance | None, instance: EfritInstance | None) -> bool:
    """Return whether two versions of an instance differ in labels, annotations and owners at most."""
    if previous is None or instance is None:
        return False
    before, after = previous.metadata, instance.metadata
    is_same = (before.uid, before.generation, before.deletion_timestamp) == (
        after.uid,
        after.generation,
        after.deletion_timestamp,
    )
    return is_same and previous.status == instance.status


def _observe_ready(entry: InstanceRecord, instance: EfritInstance) -> None:
    """Remember when an instance was first Ready; its pod's start is written with the condition that is about it."""
    first_ready = entry.facts.first_ready if instance.status.start_time == entry.pod_started else None
    entry.pod_started = instance.status.start_time
    ready = condition_of(instance.status.conditions, READY)
    if first_ready is None and ready is not None and ready.status == ConditionStatus.TRUE:
        # The condition does not change where one pod follows another between two writes.
        first_ready = max(ready.last_transition_time, instance.status.start_time or ready.last_transition_time)
    if first_ready != entry.facts.first_ready:
        entry.facts = replace(entry.facts, first_ready=first_ready)


def _observe_handover(entry: InstanceRecord, instance: EfritInstance) -> None:
    recorded = instance.status.handover
    if recorded is None:
        return
    if recorded.state == HandoverState.CLOSED:
        entry.facts = replace(entry.facts, closed_before=True, opened_by_other=False)
    elif recorded.id != entry.facts.handover_id:
        # Though this process leads: a former leader may have been asleep, or have a lease of another name.
        entry.facts = replace(entry.facts, opened_by_other=True)  # gate: opened-by-other
