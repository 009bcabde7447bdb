"""Which exclusive claims wait for a member of a pool, and which instances they have or take: a part of the index."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from efrit.api import ConditionStatus, EfritClaim, EfritInstance, ReleasePolicy, condition_of
from efrit.api.instance import READY
from efrit.controller.decide.idle import last_activity_of
from efrit.controller.model import names
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.store.backlog import BEGINNING, Backlog
from efrit.controller.store.claim_record import ClaimRecord
from efrit.controller.store.groups import regroup
from efrit.controller.store.instance_record import ClaimOwner, InstanceRecord

if TYPE_CHECKING:
    from efrit.controller.store.index import Index


class IdleMembers:
    """Members that an exclusive claim may take: those that are awake first, then current ones, then by last use.

    One that an update waits for, or whose pod has just changed, is among them: whoever looks at them finds out.
    """

    def __init__(self, order: list[tuple[bool, bool, datetime, Key]]) -> None:
        self._order = order

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._order)

    def first(self, limit: int) -> Iterator[Key]:
        """Yield the first ones, at most so many."""
        # The first will do, most of the time, and dates are slow to compare.
        order = self._order.copy()
        heapq.heapify(order)
        for _ in range(min(limit, len(order))):
            yield heapq.heappop(order)[-1]


def _serves(entry: InstanceRecord, instance: EfritInstance) -> bool:
    """Return whether a member is Ready, and its Emacs and the volume of its queue take work."""
    ready = condition_of(instance.status.conditions, READY)
    is_ready = ready is not None and ready.status == ConditionStatus.TRUE
    return is_ready and entry.disk_takes_work and entry.takes_work


class ClaimLines:
    """The line of each pool's exclusive claims, and the instances that claims own."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lines: dict[Key, Backlog] = {}
        """Exclusive claims that wait for a member, by pool, whether there is one or not."""
        self._claimed: dict[ClaimOwner, set[Key]] = {}
        """Instances by the exclusive claim that owns them."""
        self._claims_of_pool: dict[Key, set[Key]] = {}
        """Exclusive claims that have not ended, by pool."""

    def place(self, instance: Key, before: ClaimOwner | None, claim: ClaimOwner | None) -> None:
        """Count an instance as that of the exclusive claim that owns it, None where none does or it is gone."""
        regroup(self._claimed, instance, before, claim)
        entry = self._index.instances[instance]
        taker = self._index.claims.get(entry.taken_by) if entry.taken_by is not None else None
        if taker is not None and (entry.instance is None or claim is not None):
            self.give_up(taker)
        pool = self._index.pool_lines.pool_of(instance)
        if before is not None and claim is None and pool is not None:
            pool.claims_returned.append(self._index.clock())
        for owner in {before, claim} - {None} if before != claim else ():
            if owner is not None:
                self._owner_changed(owner, is_taken_in=taker is not None and taker.object.key == owner.key)

    def _owner_changed(self, owner: ClaimOwner, *, is_taken_in: bool) -> None:
        record = self._index.claims.get(owner.key)
        if record is not None and record.uid == owner.uid:
            self._index.pool_lines.changed(self._pool_of_claim(owner.key))
            self.line_up(owner.key)
            # Who is making it the owner goes on with that once the reply is there.
            if not (is_taken_in and self._index.queue.is_active(WorkKey(EfritClaim.kind, *owner.key))):
                self.requeue(owner.key)

    def observe_pool(self, claim: Key, before: Key | None, pool: Key | None) -> None:
        """Count an exclusive claim as one of a pool, whether there is one or not; None once it is forgotten."""
        regroup(self._claims_of_pool, claim, before, pool)
        if before is not None and before != pool:
            self._index.pool_lines.changed(before)

    def claimed_from(self, pool: Key) -> list[Key]:
        """Return the instances that exclusive claims of a pool have, or are becoming the owner of."""
        records = self._records_out_of_line(pool)
        owned = (record.taking or self.claimed_by(record.object) for record in records)
        return sorted(instance for instance in owned if instance is not None)

    def returning(self, pool: Key) -> int:
        """Return how many instances that exclusive claims of a pool have are on their way back to it."""
        claims = (record.object for record in self._records_out_of_line(pool))
        return sum(
            claim.spec.released and claim.spec.release == ReleasePolicy.RETURN and self.claimed_by(claim) is not None
            for claim in claims
        )

    def _records_out_of_line(self, pool: Key) -> list[ClaimRecord]:
        """Return the exclusive claims of a pool that do not wait for a member, in no order."""
        line = self._lines.get(pool)
        # There may be thousands that wait, and each change of the pool asks.
        claims = self._claims_of_pool.get(pool, set()) - (line.keys if line is not None else set())
        return [self._index.claims[claim] for claim in claims]

    def claimed_by(self, claim: EfritClaim) -> Key | None:
        """Return the instance that an exclusive claim owns: the one in its status, or else the first by name."""
        owned = self._claimed.get(ClaimOwner(claim.key, claim.metadata.uid), set())
        return min(owned, key=lambda key: (key[1] != claim.status.instance_name, key), default=None)

    def take(self, record: ClaimRecord, instance: Key) -> None:
        """Take a member out of its pool for an exclusive claim that is becoming its owner."""
        entry, claim = self._index.instances[instance], record.object.key
        if entry.taken_by == claim:
            return
        record.taking, entry.taken_by = instance, claim
        self._index.labels.put(instance, None)
        pool, entry.pool = entry.pool, None
        pool_record = self._index.pools.get(self._pool_of_claim(claim))
        if pool_record is not None:
            pool_record.claims_taken.append(self._index.clock())
        self._index.pool_lines.take_member(instance, pool)
        self.leave_line(claim)

    def give_up(self, record: ClaimRecord) -> None:
        """Take a member for that of the owner that its object names, who may be the pool or the claim."""
        entry = self._index.instances.get(record.taking) if record.taking is not None else None
        instance, record.taking = record.taking, None
        if entry is not None and instance is not None and entry.taken_by == record.object.key:
            entry.taken_by = None
            if entry.object is not None:
                entry.pool = entry.pool_in_object
                self._index.labels.put(instance, entry.object.metadata.labels if entry.claim is None else None)
                self._index.pool_lines.place_member(instance, None, entry.pool)
                if entry.claim is None:
                    # Otherwise whoever has seen that the claim owns it has had it reconciled.
                    self._index.requeue_instance(instance)
                    self._index.pool_lines.requeue_for_member(instance)
        self.line_up(record.object.key)

    def line_up(self, claim: Key) -> None:
        """Put an exclusive claim in the line of its pool if it waits for a member, otherwise take it out."""
        record = self._index.claims[claim]
        new, meta = record.object, record.object.metadata
        is_given_up = record.status_refusal is not None and record.status_refusal.lasts  # gate: refused-in-line
        waits = (
            not new.final
            and not new.spec.released
            and new.status.bound_time is None
            and meta.deletion_timestamp is None
            and record.taking is None
            and self.claimed_by(new) is None
            and not is_given_up
        )
        if not waits:
            self.leave_line(claim)
            return
        pool = self._pool_of_claim(claim)
        line = self._lines.setdefault(pool, Backlog())
        is_new = line.ahead_of(claim) == len(line)
        line.add(claim, (meta.creation_timestamp or BEGINNING, meta.name))
        if is_new and not self._index.pool_lines.has_member_awake(pool):
            self._index.pool_lines.requeue_key(pool)
        elif is_new:
            self._index.pool_lines.changed(pool)

    def leave_line(self, claim: Key) -> None:
        """Take an exclusive claim out of the line of its pool, and have the next one reconciled."""
        pool = self._pool_of_claim(claim)
        line = self._lines.get(pool)
        if line is None or line.ahead_of(claim) == len(line):
            return
        line.discard(claim)
        if not len(line):
            del self._lines[pool]
        self.requeue_first(pool, 1)
        # The pool is to have fewer members than while it waited, and those kept for it take requests again.
        self._index.pool_lines.changed(pool)
        self._index.pool_lines.requeue_pool(pool)

    def _pool_of_claim(self, claim: Key) -> Key:
        return claim[0], self._index.claims[claim].object.spec.pool_ref.name

    def is_in_line(self, claim: Key) -> bool:
        """Return whether an exclusive claim waits for a member."""
        line = self._lines.get(self._pool_of_claim(claim))
        return line is not None and line.ahead_of(claim) < len(line)

    def ahead(self, claim: Key) -> int:
        """Return how many exclusive claims come before one that waits."""
        line = self._lines.get(self._pool_of_claim(claim))
        return line.ahead_of(claim) if line is not None else 0

    def waiting(self, pool: Key) -> int:
        """Return how many exclusive claims wait for a member of a pool."""
        line = self._lines.get(pool)
        return len(line) if line is not None else 0

    def idle_members(self, pool: Key) -> IdleMembers:
        """Return the members of a pool that an exclusive claim may take: without work, none that drains."""
        record = self._index.pools.get(pool)
        order: list[tuple[bool, bool, datetime, Key]] = []
        if record is None:
            return IdleMembers(order)
        draining, instances = record.draining, self._index.instances
        for key in self._index.pool_lines.members_of(pool):
            entry = instances[key]
            instance = entry.instance
            # The patch of the owner would take other owners away.
            if instance is None or entry.open_requests or key[1] in draining or not entry.sole_owner:
                continue
            # Of many that have plans all who are looked at might be.
            if self._index.plans_of(key).total:  # gate: claimed-without-plans
                continue
            asleep = bool(instance.status.suspended_idle)
            # Of many whose disks are full, as well.
            if not asleep and not _serves(entry, instance):  # gate: claimed-serves
                continue
            is_former = instance.metadata.labels.get(names.REVISION_LABEL) != record.revision
            order.append((asleep, is_former, last_activity_of(instance, entry.facts) or BEGINNING, key))
        return IdleMembers(order)

    def held(self, pool: Key) -> set[Key]:
        """Return the members that get no requests because as many exclusive claims wait: those with the fewest."""
        count, record = self.waiting(pool), self._index.pools.get(pool)
        if not count or record is None:
            return set()
        members = (key for key in self._index.pool_lines.members_of(pool) if key[1] not in record.draining)
        instances = self._index.instances
        least = heapq.nsmallest(count, members, key=lambda key: (len(instances[key].open_requests), key))
        return set(least)  # gate: held-for-claims

    def requeue_first(self, pool: Key, count: int) -> None:
        """Have the first exclusive claims reconciled that wait for a member of a pool."""
        line = self._lines.get(pool)
        for key in line.first(count) if line is not None else ():
            self.requeue(key)

    def requeue_all(self, pool: Key) -> None:
        """Have all exclusive claims reconciled that wait for a member of a pool, a few of them at a time."""
        line = self._lines.get(pool)
        if line is not None:
            self._index.queue.add_all(EfritClaim.kind, pool[0], line.first(len(line)))

    def requeue_owner(self, instance: Key) -> None:
        """Have the exclusive claim reconciled that owns an instance."""
        owner = self._index.instances[instance].claim
        record = self._index.claims.get(owner.key) if owner is not None else None
        if owner is not None and record is not None and record.uid == owner.uid:
            self.requeue(owner.key)

    def requeue(self, key: Key) -> None:
        """Have an exclusive claim reconciled."""
        self._index.queue.add(WorkKey(EfritClaim.kind, *key))
