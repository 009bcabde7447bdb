"""Which instances are being updated, wait for it or have failed it: kept from their statuses and StatefulSets.

Everything here can be read off the cluster again, but for the cause of an update that is being drained for (taken for
the release's) and the reservations, which only bridge the moment until a status is written.
"""

from __future__ import annotations

from datetime import datetime

from efrit.api import ConditionStatus, EfritInstance, UpdateReason, condition_of
from efrit.api.instance import UPDATED
from efrit.controller.model.keys import Key
from efrit.controller.model.rollout import RolloutView, UpdateCause, UpdateSlot
from efrit.controller.model.views import StatefulSetView

WAITING = (UpdateReason.QUEUED, UpdateReason.STOPPED)


class Rollouts:
    """Bounded by the number of instances; each change costs time in proportion to the updates under way."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._slots: dict[Key, UpdateSlot] = {}
        self._reserved: dict[Key, UpdateSlot] = {}
        self._failed: dict[Key, None] = {}
        self._succeeded: set[Key] = set()
        self._waiting: dict[str, dict[Key, None]] = {}
        self._view: RolloutView | None = None

    def observe(self, key: Key, instance: EfritInstance | None, statefulset: StatefulSetView | None) -> bool:
        """Take in an instance with its StatefulSet, None for what is gone.

        Returns whether those that wait for an update may have their turn now.
        """
        before = (self._slots.pop(key, None), key in self._failed, key in self._succeeded)
        self._failed.pop(key, None)
        self._succeeded.discard(key)
        waits = False
        updated = condition_of(instance.status.conditions, UPDATED) if instance is not None else None
        if updated is not None and statefulset is not None and statefulset.replicas:
            cause = before[0].cause if before[0] else self._cause(key, statefulset)
            if updated.status == ConditionStatus.UNKNOWN:
                draining = updated.reason == UpdateReason.DRAINING
                since = (None if draining else statefulset.update_started) or updated.last_transition_time
                if before[0] is not None and before[0].draining == draining:
                    # Anyone who may edit the StatefulSet may write a later time, again and again.
                    since = min(since, before[0].since)
                self._slots[key] = UpdateSlot(*key, since, cause, draining)
            ours = statefulset.update_trial and statefulset.release_hash == self._release
            if ours and updated.reason == UpdateReason.FAILED:
                self._failed[key] = None
            elif ours and updated.status == ConditionStatus.TRUE:
                self._succeeded.add(key)
            waits = updated.reason in WAITING
        self._set_waiting(key, waits)
        after = (self._slots.get(key), key in self._failed, key in self._succeeded)
        if before == after:
            return False
        self._view = None
        freed = before[0] is not None and after[0] is None
        return freed or before[1:] != after[1:]

    def reserve(self, key: Key, cause: UpdateCause, now: datetime) -> None:
        """Count an instance as being updated until its status says so; its namespace goes to the end of the line."""
        waiting = self._waiting.pop(key[0], None)
        if waiting is not None:
            self._waiting[key[0]] = waiting
        self._reserved[key] = UpdateSlot(*key, now, cause, draining=True)
        self._view = None

    def is_reserved(self, key: Key) -> bool:
        """Return whether an instance is counted though its status may not say so yet."""
        return key in self._reserved

    def cancel_reservation(self, key: Key) -> None:
        """Forget a reservation: its instance is decided about anew."""
        slot = self._reserved.pop(key, None)
        if slot is None:
            return
        if key in self._slots:
            # The status cannot tell the cause of what is still being drained for.
            reserved_slot = self._slots[key]
            self._slots[key] = UpdateSlot(*key, reserved_slot.since, slot.cause, reserved_slot.draining)
        self._view = None

    def view(self) -> RolloutView:
        """Return the updates under way and how those to the current release ended."""
        if self._view is None:
            slots = self._slots | {key: slot for key, slot in self._reserved.items() if key not in self._slots}
            self._view = RolloutView(tuple(slots.values()), tuple(self._failed), len(self._succeeded))
        return self._view

    def next_waiting(self, per_namespace: int) -> list[Key]:
        """Return the instances whose turn it may be: so many of each namespace, those that waited longest first.

        The namespace whose turn was longest ago comes first.
        """
        return [key for waiting in self._waiting.values() for key in list(waiting)[:per_namespace]]

    def _cause(self, key: Key, statefulset: StatefulSetView) -> UpdateCause:
        reserved = self._reserved.get(key)
        if reserved is not None:
            return reserved.cause
        return UpdateCause.RELEASE

    def _set_waiting(self, key: Key, waits: bool) -> None:
        if waits:
            self._waiting.setdefault(key[0], {}).setdefault(key)
            return
        waiting = self._waiting.get(key[0])
        if waiting is not None:
            waiting.pop(key, None)
            if not waiting:
                del self._waiting[key[0]]
