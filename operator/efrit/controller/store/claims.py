"""EfritClaims as last seen: which member each one has, and the line of those that wait for one.

An exclusive claim has the instance that it owns. From the moment that its controller begins to make it the owner, the
member is the pool's no more: two claims that are decided about at the same time never get the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.api import ClaimPhase, EfritClaim
from efrit.controller.decide.claims import is_free
from efrit.controller.decide.placement import sleeps
from efrit.controller.model.claims import FORBIDDEN_SECONDS, STATUS_ATTEMPTS, ClaimSnapshot, StatusRefusal
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot, Refusal
from efrit.controller.store.claim_record import ClaimRecord
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.watched_objects import WatchedObjects

MAX_CANDIDATES = 32
"""Members that one decision chooses among: those that it can take."""
MAX_LOOKED_AT = 128
"""Members that one decision looks at, with those that it cannot take, such as one that an update waits for."""
MANY_AHEAD = 8
"""Claims that wait before one; for fewer, as many members are looked at."""
AMPLE_SHARE = 4
"""Members are ample while more than one in so many is left once each claim that waits has one."""


class ExclusiveClaims(WatchedObjects[EfritClaim, ClaimRecord]):
    """All EfritClaims that have not ended."""

    def __init__(self, index: Index, instances: Instances) -> None:
        super().__init__(EfritClaim, index.claims, index)
        self._instances = instances
        self._taking_in_own = False
        """Whether what is being taken in is a write of this process."""

    # The object.

    def observe_written(self, obj: Mapping[str, Any]) -> None:
        """Take in a claim as a write of this process has made it."""
        meta = obj["metadata"]
        record = self.record((meta["namespace"], meta["name"]), meta["uid"])
        if record is not None:
            record.status_refusal = None
        self._taking_in_own = True
        try:
            super().observe_written(obj)
        finally:
            self._taking_in_own = False

    def _observed(self, new: EfritClaim, record: ClaimRecord | None) -> None:
        metadata = new.metadata.model_copy(update={"annotations": {}, "labels": {}, "owner_references": ()})
        new = new.model_copy(update={"metadata": metadata})
        if record is not None and record.uid != new.metadata.uid:
            self._forget(record)
            record = None
        before = _pool_of(record.object) if record is not None else None
        if record is None:
            self._records[new.key] = ClaimRecord(new)
        else:
            record.object = new
        self._index.claim_lines.observe_pool(new.key, before, _pool_of(new))
        self._index.claim_lines.line_up(new.key)
        if not (self._taking_in_own and _is_held(new)):
            # A member that is given back goes to whoever waits for one.
            gives_back = new.spec.released and not new.final
            self._index.queue.add(WorkKey(EfritClaim.kind, *new.key), first=gives_back)  # gate: gives-back-first

    def observe_gone(self, key: Key, uid: str) -> None:
        """Take in that the API server does not know this claim any more; its member goes with it."""
        self._index.tombstones.add(uid, deleted=True)
        record = self.record(key, uid)
        if record is not None:
            self._forget(record)

    def drop(self, key: Key) -> None:
        """Forget a claim that has ended."""
        record = self._records.get(key)
        if record is not None:
            self._forget(record, deleted=False)

    def is_done(self, key: Key) -> bool:
        """Return whether nothing is left to do about a claim: a decision knew that it has ended."""
        record = self._records.get(key)
        return record is None or record.read_final

    def is_over(self, record: ClaimRecord) -> bool:
        """Return whether a claim has ended."""
        return record.object.final

    async def requeue_all(self, within: float, scope: str | None = None) -> None:
        """Reconcile every claim of a namespace again, in the background and spread over so many seconds."""
        await self._index.requeue_all_within(EfritClaim.kind, self.open_uids(scope), within)

    def _forget(self, record: ClaimRecord, *, deleted: bool = True) -> None:
        key = record.object.key
        self._index.tombstones.add(record.object.metadata.uid, deleted=deleted)
        if record.taking is not None:
            self._index.claim_lines.give_up(record)
        self._index.claim_lines.leave_line(key)
        self._index.queue.forget(WorkKey(EfritClaim.kind, *key))
        self._index.claim_lines.observe_pool(key, _pool_of(record.object), None)
        del self._records[key]

    # What actions learned.

    def take_begins(self, claim: Key, uid: str, instance: Key) -> bool:
        """Take a member out of its pool while its owner is being changed; False where it is not to be had."""
        record, entry = self.record(claim, uid), self._index.instances.get(instance)
        if record is None or entry is None or entry.instance is None:
            return False
        if entry.taken_by not in (None, claim) or entry.claim is not None:  # gate: take-one
            return False
        if record.taking not in (None, instance):
            return False
        self._index.claim_lines.take(record, instance)
        return True

    def take_ended(self, claim: Key, uid: str) -> None:
        """Take in that it is known whose the member is: its object says so."""
        record = self.record(claim, uid)
        if record is not None:
            record.refusal = None
            if record.taking is not None:
                self._index.claim_lines.give_up(record)
                self.requeue(claim)

    def take_refused(self, claim: Key, uid: str, sentence: str) -> None:
        """Remember that the API server does not make a claim the owner of a member, and why."""
        record = self.record(claim, uid)
        if record is not None:
            record.refusal = Refusal(sentence, self._index.clock())
            if record.taking is not None:
                self._index.claim_lines.give_up(record)
            self.requeue(claim)

    def status_refused(self, key: Key, uid: str, sentence: str, *, forbidden: bool = False) -> None:
        """Remember that the API server refused a status of a claim, and why; one that is given up leaves the line.

        forbidden: whether it refused what the operator may do, perhaps: that counts for long only.
        """
        record = self.record(key, uid)
        if record is None:
            return
        before, now = record.status_refusal or StatusRefusal(sentence, 0), self._index.monotonic()
        since, count = None, before.count + 1
        if forbidden:
            since = now if before.forbidden_since is None else before.forbidden_since
            if now - since < FORBIDDEN_SECONDS:  # gate: claim-forbidden
                count = min(count, STATUS_ATTEMPTS - 1)
        record.status_refusal = StatusRefusal(sentence, count, since)
        self._index.claim_lines.line_up(key)

    # What decisions read.

    def snapshot(self, key: Key) -> ClaimSnapshot | None:
        """Return the picture of a claim, or None where there is none."""
        record = self._records.get(key)
        if record is None or record.uid is None:
            return None
        claim, index = record.object, self._index
        record.read_final = claim.final
        pool_key = (key[0], claim.spec.pool_ref.name)
        pool = index.pools.get(pool_key)
        owned = index.claim_lines.claimed_by(claim)
        name = claim.status.instance_name
        entry = index.instances.get((key[0], name)) if name is not None else None
        waits = index.claim_lines.is_in_line(key)
        ahead, candidates = self._candidates(pool_key, index.claim_lines.ahead(key)) if waits else (0, ())
        return ClaimSnapshot(
            claim=claim,
            pool=pool.object if pool is not None else None,
            revision=pool.revision if pool is not None else "",
            member=self._instances.snapshot(owned) if owned is not None else None,
            taking=self._instances.snapshot(record.taking) if record.taking is not None else None,
            candidates=candidates,
            ahead=ahead,
            listed=index.is_listed(key[0]),
            refusal=record.refusal,
            reduced_status=record.reduced_status,
            status_refusal=record.status_refusal,
            instance_seen=entry is not None and entry.instance is not None,
        )

    def _candidates(self, pool: Key, ahead: int) -> tuple[int, tuple[InstanceSnapshot, ...]]:
        """Return how many claims come before one, and members that it may get, first those that are taken first.

        As many as go to those before it, and one more. Where many claims wait and more members have no work, nobody
        comes before it: there is one for each, and all of them would look at as many members.
        """
        idle = self._index.claim_lines.idle_members(pool)
        if ahead >= MANY_AHEAD and len(idle) - ahead > len(idle) / AMPLE_SHARE:
            ahead = 0
        candidates, usable = list[InstanceSnapshot](), 0
        for key in idle.first(MAX_LOOKED_AT):
            snapshot = self._instances.snapshot(key)
            if snapshot is None:
                continue
            candidates.append(snapshot)
            usable += is_free(snapshot) or sleeps(snapshot)
            if usable > ahead or usable == MAX_CANDIDATES:
                break
        return ahead, tuple(candidates)


def _is_held(claim: EfritClaim) -> bool:
    """Return whether nothing is to be done about a claim that says so, until it expires or somebody changes it."""
    is_ending = claim.spec.released or claim.metadata.deletion_timestamp is not None
    return claim.status.phase == ClaimPhase.BOUND and not is_ending  # gate: bound-is-held


def _pool_of(claim: EfritClaim) -> Key:
    return claim.metadata.namespace, claim.spec.pool_ref.name
