"""EfritPools as last seen, with their members and the requests that wait for one.

Members are the EfritInstances that a pool owns. A request of a pool waits in the pool's backlog until one of them has
room; only as many are reconciled as there is room for, so that what happens to a pool does not reach all of them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from efrit.api import Condition, ConditionStatus, EfritPool, InstanceReason, PoolStatus, condition_of
from efrit.api.instance import READY
from efrit.api.pool import MAX_FLOWS, PoolTemplate
from efrit.controller.decide.pool_scaling import MINUTE
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.names import POOL_LABEL, REVISION_LABEL
from efrit.controller.model.pools import Growth, MemberView, PoolLoad, PoolRevision, PoolSnapshot, Recommendation
from efrit.controller.model.snapshots import Refusal
from efrit.controller.store.flow_backlog import MAX_NAMED_FLOWS
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.packed_spec import MAX_BYTES
from efrit.controller.store.pool_record import PoolRecord
from efrit.controller.store.records import in_scope
from efrit.controller.store.watched_objects import WatchedObjects

REVISION_CHARS = 10
REFUSED_PAUSE, REFUSED_AGAIN_PAUSE = timedelta(seconds=10), timedelta(minutes=10)
"""How long nothing is tried with the templates that are kept."""
NO_TEMPLATE = PoolTemplate()
NO_UID = "00000000-0000-0000-0000-000000000000"
"""Of a pool that existed before this process led: no object has it."""


class Pools(WatchedObjects[EfritPool, PoolRecord]):
    """All EfritPools."""

    def __init__(self, index: Index, instances: Instances) -> None:
        super().__init__(EfritPool, index.pools, index)
        self._instances = instances
        self._left: dict[Key, str] = {}
        """UIDs of pools that are gone and may have left a PodDisruptionBudget."""

    # The object.

    def _observed(self, new: EfritPool, record: PoolRecord | None) -> None:
        if record is not None and record.uid != new.metadata.uid:
            if record.uid is not None:
                self._index.tombstones.add(record.uid, deleted=True)
            record = None
        is_first, is_changed, before = record is None, True, _Waits.of(record)
        if record is None:
            self._records[new.key] = record = PoolRecord(new)
        else:
            is_changed = record.object.metadata.generation != new.metadata.generation
        template = new.spec.template
        spec = new.spec.model_copy(update={"template": NO_TEMPLATE})
        metadata = new.metadata.model_copy(update={"annotations": {}, "labels": {}, "owner_references": ()})
        record.object = new.model_copy(update={"spec": spec, "metadata": metadata})
        if is_changed:  # gate: pool-spec-changed
            _keep_template(record, template)
            record.refusal = record.history_refusal = None
            self._index.pool_lines.share_anew(new.key)
            if is_first:
                self._index.pool_lines.admit_all(new.key)
            self._index.pool_lines.requeue_pool(new.key)
        if before != _Waits.of(record):  # gate: claims-answer
            self._index.claim_lines.requeue_all(new.key)
        self.requeue(new.key)

    def observe_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritPool was deleted: all of them are watched."""
        meta = obj["metadata"]
        self.observe_gone((meta["namespace"], meta["name"]), meta["uid"])

    def observe_gone(self, key: Key, uid: str) -> None:
        """Forget a pool that does not exist any more; its members go with it, unless it was deleted without them."""
        self._index.tombstones.add(uid, deleted=True)
        if self.record(key, uid) is not None:
            self.drop(key)
            self._leave(key, uid)

    def drop(self, key: Key) -> None:
        """Forget a pool. Its requests wait for another of the name."""
        if self._records.pop(key, None) is not None:
            self._index.queue.forget(WorkKey(EfritPool.kind, *key))
            self._index.pool_lines.requeue_waiting(key)
            self._index.claim_lines.requeue_all(key)

    def _leave(self, key: Key, uid: str) -> None:
        self._left[key] = uid
        self._index.queue.add(WorkKey(EfritPool.kind, *key))  # gate: left-budget

    def left(self, key: Key) -> str | None:
        """Return the UID of a pool of this name that is gone and may have left a budget."""
        return self._left.get(key)

    def forget_left(self, key: Key, uid: str) -> None:
        """Take in that nothing is left to do about the budget of a pool that is gone."""
        if self._left.get(key) == uid:
            del self._left[key]

    def forget_remains(self, key: Key) -> None:
        """Forget what is to be done for a pool that is gone, of a namespace that is not served any more.

        What waits for a pool of the name is reconciled when the namespace is served again.
        """
        if key not in self._records:
            self._left.pop(key, None)

    def is_done(self, key: Key) -> bool:
        """Return whether there is no such pool any more."""
        return key not in self._records

    def is_over(self, record: PoolRecord) -> bool:
        """Return False: a pool is never final."""
        return False

    async def requeue_all(self, within: float, scope: str | None = None) -> None:
        """Reconcile every pool of a namespace again, in the background and spread over so many seconds."""
        await self._index.requeue_all_within(EfritPool.kind, self.open_uids(scope), within)

    # What actions learned.

    def scale(self, pool: Key, uid: str, needed: int, wanted: int, cause: str = "") -> None:
        """Remember how many members a pool needs now, and is to have; within a window the largest need counts.

        cause: why that is another number than before.
        """
        record = self.record(pool, uid)
        if record is None:
            return
        now, autoscaling = self._index.clock(), record.object.spec.autoscaling
        if record.desired is None:
            # What was needed before this process led is not known: no less than there was.
            record.recommendations.extend(_recommended_before(record.object, now))  # gate: recommended-before
        if record.desired is not None and wanted > record.desired:
            record.growths.append(Growth(now, wanted - record.desired))
        if wanted != record.desired:
            record.scale_cause = cause
        record.desired = wanted
        while record.growths and record.growths[0].time <= now - MINUTE:
            record.growths.popleft()
        recommendations = record.recommendations
        while recommendations and recommendations[-1].members <= needed:
            recommendations.pop()
        recommendations.append(Recommendation(now, needed))
        window = autoscaling.scale_down.stabilization_seconds if autoscaling is not None else 0
        while recommendations and recommendations[0].time < now - timedelta(seconds=window):
            recommendations.popleft()

    def drain(self, pool: Key, uid: str, members: frozenset[str]) -> None:
        """Place requests on these members no more; those that drain no longer get some again."""
        record = self.record(pool, uid)
        if record is None:
            return
        resumed, began, now = record.draining - members, record.drain_began, self._index.monotonic()
        begun = members - began.keys()
        record.drain_began = {name: began.get(name, now) for name in members}
        for name in resumed:
            self._index.pool_lines.requeue_for_member((pool[0], name))
        for name in begun:
            self._index.requeue_waiting((pool[0], name))

    def created(self, pool: Key, uid: str) -> None:
        """Take in that a member was created."""
        record = self.record(pool, uid)
        if record is not None:
            record.refusal = None

    def refused(self, pool: Key, uid: str, sentence: str) -> None:
        """Remember that the API server did not take a member of the pool, and why."""
        record = self.record(pool, uid)
        if record is not None:
            record.refusal = Refusal(sentence, self._index.clock())
            self.requeue(pool)

    def status_written(self, pool: Key) -> None:
        """Remember that the status of a pool was written."""
        record = self._records.get(pool)
        if record is not None:
            record.status_written = self._index.clock()

    def budget_applied(self, pool: Key, uid: str, manifest: Mapping[str, Any]) -> None:
        """Remember the PodDisruptionBudget of a pool as it was applied."""
        record = self.record(pool, uid)
        if record is not None:
            record.budget, record.budget_written, record.budget_refusal = manifest, self._index.clock(), None

    def budget_refused(self, pool: Key, uid: str, sentence: str) -> None:
        """Remember that the API server did not take the PodDisruptionBudget of a pool, and why."""
        record = self.record(pool, uid)
        if record is not None:
            record.budget, record.budget_refusal = None, Refusal(sentence, self._index.clock())
            self.requeue(pool)

    def history_read(self, pool: Key, uid: str, revisions: tuple[PoolRevision, ...]) -> None:
        """Remember which templates of a pool are kept."""
        record = self.record(pool, uid)
        if record is not None:
            record.history = revisions
            self.requeue(pool)

    def revision_kept(self, pool: Key, uid: str, revision: PoolRevision) -> None:
        """Take in that a template of a pool is kept, by this number."""
        record = self.record(pool, uid)
        if record is not None:
            record.history_refusal = None
            if record.history is not None:
                others = (other for other in record.history if other.digest != revision.digest)
                record.history = (*others, revision)

    def revision_removed(self, pool: Key, uid: str, revision: PoolRevision) -> None:
        """Take in that a template of a pool is kept no more."""
        record = self.record(pool, uid)
        if record is not None and record.history is not None:
            record.history = tuple(other for other in record.history if other.uid != revision.uid)

    def history_changed(self, pool: Key, uid: str) -> None:
        """Have the templates of a pool that are kept read again: they are not what was known of them."""
        record = self.record(pool, uid)
        if record is not None:
            record.history = None
            self.requeue(pool)

    def history_refused(self, pool: Key, uid: str, sentence: str, *, lasting: bool = True) -> None:
        """Remember that the API server does not keep the templates of a pool, and why.

        lasting: what it refuses twice it will refuse again. Otherwise it is reported the second time.
        """
        record = self.record(pool, uid)
        if record is not None:
            again = record.history_refusal is not None
            pause = REFUSED_AGAIN_PAUSE if lasting and again else REFUSED_PAUSE
            refusal = Refusal(sentence, self._index.clock(), pause, is_reported=lasting or again)
            record.history, record.history_refusal = None, refusal
            self.requeue(pool)

    async def resync_all(self, within: float, scope: str | None = None) -> None:
        """Have what each pool of a namespace owns applied or read again within so many seconds."""
        pools = self.open_uids(scope)
        for key in pools:
            record = self._records[key]
            record.budget = None  # gate: budget-resync
            if record.history is not None:
                # Whatever was refused before has been done since.
                record.history = record.history_refusal = None  # gate: history-resync
        orphaned = self._orphaned(scope)
        for key in orphaned:
            # It may have been deleted while nobody led.
            self._left.setdefault(key, NO_UID)
        await self._index.requeue_all_within(EfritPool.kind, [*pools, *orphaned], within)

    def _orphaned(self, scope: str | None) -> set[Key]:
        """Return the pools of a namespace that members name by label, and that do not exist."""
        pools = set()
        for key, entry in self._index.instances.items():
            if entry.object is not None and in_scope(key, scope) and REVISION_LABEL in entry.object.metadata.labels:
                pools.add((key[0], entry.object.metadata.labels.get(POOL_LABEL, "")))
        return {pool for pool in pools if pool[1] and pool not in self._records}

    def requeue_waiting(self, pool: Key) -> None:
        """Have as many requests that wait for a pool reconciled as its members have room for."""
        self._index.pool_lines.requeue_pool(pool)

    # What decisions read.

    def snapshot(self, key: Key) -> PoolSnapshot | None:
        """Return the picture of a pool, or None where there is none."""
        record = self._records.get(key)
        if record is None:
            return None
        claimed = self._index.claim_lines.claimed_from(key)
        # For a label that came too soon after another one.
        self._index.pool_lines.share_anew(key)
        return PoolSnapshot(
            pool=record.object,
            template=json.loads(zlib.decompress(record.template)) if record.template is not None else None,
            revision=record.revision,
            members=tuple(self._members(key)),
            has_too_many=self._index.pool_lines.has_too_many(key),
            draining=frozenset(record.draining),
            drain_began=self._drain_began(record),
            listed=self._index.is_listed(key[0]),
            pending=self._index.pool_lines.backlog(key),
            oldest_pending=self._index.pool_lines.oldest(key),
            claims=self._index.claim_lines.waiting(key),
            claims_taken=tuple(record.claims_taken),
            claims_returned=tuple(record.claims_returned),
            returning=self._index.claim_lines.returning(key),
            flows=tuple(self._index.pool_lines.busiest_flows(key, MAX_FLOWS)),
            desired=record.desired if record.desired is not None else record.object.status.desired_replicas,
            scale_cause=record.scale_cause,
            recommendations=tuple(record.recommendations) or _recommended_before(record.object, self._index.clock()),
            growths=tuple(record.growths),
            refusal=record.refusal,
            status_written=record.status_written,
            claimed=tuple(name for _, name in claimed),
            claimed_revisions=frozenset(filter(None, map(self._revision_of, claimed))),
            history=record.history,
            history_refusal=record.history_refusal,
            budget=record.budget,
            budget_written=record.budget_written,
            budget_refusal=record.budget_refusal,
        )

    def _drain_began(self, record: PoolRecord) -> dict[str, datetime]:
        """Return since when each member drains, by the clock as it is set now."""
        now = self._index.clock()
        elapsed = self._index.monotonic()  # gate: drain-elapsed
        return {name: now - timedelta(seconds=elapsed - began) for name, began in record.drain_began.items()}

    def status(self, key: Key) -> PoolStatus:
        """Return the status of a pool as last seen. Raises KeyError where there is none."""
        return self._records[key].object.status

    def waiting(self, key: Key) -> PoolLoad:
        """Return what waits for a pool, and all of its flows."""
        lines = self._index.pool_lines
        return PoolLoad(lines.backlog(key), lines.oldest(key), tuple(lines.busiest_flows(key, MAX_NAMED_FLOWS + 1)))

    def _revision_of(self, instance: Key) -> str | None:
        record = self._index.instances.get(instance)
        return record.object.metadata.labels.get(REVISION_LABEL) if record is not None and record.object else None

    def _members(self, pool: Key) -> list[MemberView]:
        members = []
        for key in sorted(self._index.pool_lines.members_of(pool)):
            snapshot = self._instances.snapshot(key)
            if snapshot is None:
                continue
            instance, facts = snapshot.instance, snapshot.facts
            meta, ready = instance.metadata, condition_of(instance.status.conditions, READY)
            members.append(
                MemberView(
                    name=meta.name,
                    uid=meta.uid,
                    resource_version=meta.resource_version,
                    revision=meta.labels.get(REVISION_LABEL),
                    created=meta.creation_timestamp,
                    ready=ready is not None and ready.status == ConditionStatus.TRUE,
                    ready_changed=ready.last_transition_time if ready is not None else None,
                    ready_message=ready.message if ready is not None else "",
                    load=snapshot.load,
                    plans=snapshot.active_plans + snapshot.suspended_plans,
                    working_since=self._index.working_since(key),
                    deleting=meta.deletion_timestamp is not None,
                    asleep=bool(instance.status.suspended_idle),
                    refused=facts.refused or _pod_refused(ready),
                )
            )
        return members


class _Waits(NamedTuple):
    """What of a pool an exclusive claim says that waits for a member: another one is announced by that member."""

    is_there: bool
    has_members: bool = False
    """Whether it is to have any."""

    @classmethod
    def of(cls, record: PoolRecord | None) -> _Waits:
        """Return it of a pool, None for one that is not there."""
        pool = record.object if record is not None else None
        if pool is None or pool.metadata.deletion_timestamp is not None:
            return cls(is_there=False)
        return cls(is_there=True, has_members=pool.spec.replicas != 0)


def _pod_refused(ready: Condition | None) -> str | None:
    """Return what an instance says of a pod that the API server does not take, such as beyond a quota."""
    return ready.message if ready is not None and ready.reason == InstanceReason.CHILD_REFUSED else None


def _keep_template(record: PoolRecord, template: PoolTemplate) -> None:
    text = template.model_dump_json(by_alias=True, exclude_defaults=True).encode()
    record.revision = hashlib.sha256(text).hexdigest()[:REVISION_CHARS]
    record.template = zlib.compress(text, 1) if len(text) <= MAX_BYTES else None


def _recommended_before(pool: EfritPool, now: datetime) -> tuple[Recommendation, ...]:
    desired = pool.status.desired_replicas
    return (Recommendation(now, desired),) if desired is not None else ()
