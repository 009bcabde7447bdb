"""Instances that are served before their namespace is: all that their own requests rest on has been read.

At a start the lists of a namespace may take long, and a request needs its own instance alone.
"""

from __future__ import annotations

import asyncio
import contextlib

from efrit.api import ConditionStatus, EfritInstance, EfritRequest, condition_of
from efrit.api.instance import UPDATED
from efrit.controller.decide.instances import found_ready_before
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.store.index import Index
from efrit.controller.store.instances import Instances
from efrit.controller.store.records import in_scope


class EarlyInstances:
    """Those that are served now."""

    def __init__(self, index: Index, instances: Instances) -> None:
        self._index = index
        self._instances = instances
        self._keys: set[Key] = set()
        self._answered = asyncio.Event()

    def add(self, key: Key) -> bool:
        """Serve an instance that was read with its children, if no other has a say in it; return whether it is."""
        snapshot = self._instances.snapshot(key)
        if snapshot is None or not _stands_alone(snapshot):  # gate: early-alone
            return False
        self._keys.add(key)
        self._index.requeue_instance(key)
        return True

    async def first_answer(self, seconds: float) -> None:
        """Return once the status of a request that is served early is final, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._answered.wait()

    def reconciled(self, work: WorkKey) -> None:
        """Take in that the reconciliation of a key is over."""
        if not self._keys or work.kind != EfritRequest.kind:
            return
        record = self._index.requests.get((work.namespace, work.name))
        if record is not None and record.packed.final and self.serves(work):
            self._answered.set()

    def clear(self, scope: str | None) -> None:
        """Serve none of a namespace early any more; None for the whole cluster."""
        self._keys = {key for key in self._keys if not in_scope(key, scope)}

    def serves(self, work: WorkKey) -> bool:
        """Return whether a key is of such an instance, or of a request that is bound to one."""
        key: Key | None = (work.namespace, work.name)
        if work.kind == EfritRequest.kind:
            record = self._index.requests.get((work.namespace, work.name))
            key = record.target if record is not None else None
        elif work.kind != EfritInstance.kind:
            return False
        return key in self._keys


def _stands_alone(snapshot: InstanceSnapshot) -> bool:
    """Return whether an earlier controller left an instance Ready and up to date: no turn among others is awaited."""
    updated = condition_of(snapshot.instance.status.conditions, UPDATED)
    is_updated = updated is None or updated.status == ConditionStatus.TRUE
    deleting = snapshot.instance.metadata.deletion_timestamp is not None
    return found_ready_before(snapshot) and snapshot.statefulset is not None and is_updated and not deleting
