"""EfritPlans and their requests as last seen. The requests come from the part for requests.

Finished requests are not watched: what a plan's had to say is taken in when the controller writes their end, and
listed once by a controller that has just started. A plan is reconciled when something changes that it may wait for,
not whenever a request tells how far it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritPlan, EfritRequest
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import PlanSnapshot, Refusal
from efrit.controller.store.index import Index
from efrit.controller.store.plan_homes import home_of
from efrit.controller.store.records import PlanRecord, older
from efrit.controller.store.watched_objects import WatchedObjects

log = logging.getLogger(__name__)


def owner_of(request: EfritRequest) -> str | None:
    """Return the UID of the plan that a request belongs to."""
    owners = request.metadata.owner_references
    return next((each.uid for each in owners if each.kind == EfritPlan.kind and each.controller), None)


class Plans(WatchedObjects[EfritPlan, PlanRecord]):
    """All EfritPlans that are open, or with which something is left to do."""

    def __init__(self, index: Index) -> None:
        super().__init__(EfritPlan, index.plans, index)
        self._keys: dict[str, Key] = {}
        """Keys of the plans by their UIDs."""
        self._plans: dict[str, Key] = {}
        """Keys of the plans by the UIDs of their requests."""

    # The object.

    def _observed(self, new: EfritPlan, record: PlanRecord | None) -> None:
        known = record.plan if record is not None else None
        if record is None or record.plan.metadata.uid != new.metadata.uid:
            if record is not None:
                self._index.tombstones.add(record.plan.metadata.uid, deleted=True)
                self._forget(record)
            listed_at_start = not self._index.is_listed(new.metadata.namespace)
            self._records[new.key] = PlanRecord(new, listed_at_start=listed_at_start)
            self._keys[new.metadata.uid] = new.key
        else:
            record.object = new
        self._file(new.key)
        if known is None or _fingerprint(known) != _fingerprint(new):
            self.requeue(new.key)

    def gone(self, key: Key, uid: str) -> None:
        """Forget a plan that does not exist any more; its requests go with it."""
        self._index.tombstones.add(uid, deleted=True)
        if self.record(key, uid) is not None:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Forget a plan."""
        record = self._records.pop(key, None)
        if record is not None:
            self._index.tombstones.add(record.plan.metadata.uid, deleted=False)
            self._file(key)
            self._forget(record)
            self._index.queue.forget(WorkKey(EfritPlan.kind, *key))

    def finished_with(self, key: Key) -> bool:
        """Return whether nothing is left to do about a plan."""
        record = self._records.get(key)
        return record is not None and record.plan.final

    def is_over(self, record: PlanRecord) -> bool:
        """Return whether a plan has its final status."""
        return record.plan.final

    def requeue_open(self, within: float, scope: str | None = None, *, anew: bool = False) -> None:
        """Reconcile every open plan of a namespace again, in the background and spread over so many seconds.

        anew: list the requests of each first.
        """
        for key in self.open_uids(scope):
            if anew:
                self._records[key].listed = False
            self._index.requeue_within(WorkKey(EfritPlan.kind, *key), within)

    # Its requests.

    def observe_request(self, request: EfritRequest) -> None:
        """Take in a request, if it belongs to a plan that is known."""
        key = self._keys.get(owner_of(request) or "")
        if key is None or self._index.tombstones.is_late(request.metadata.uid, final=request.final):
            return
        record, name = self._records[key], request.metadata.name
        known = record.requests.get(name)
        if known is not None and older(request.metadata.resource_version, known.metadata.resource_version):
            return
        if known is not None:
            self._plans.pop(known.metadata.uid, None)
        record.requests[name] = request
        self._plans[request.metadata.uid] = key
        self._file(key)
        if known is None or _progress(known) != _progress(request):
            self.requeue(key)

    def request_gone(self, request: Key, uid: str) -> None:
        """Take in that a request was deleted, one that is final and otherwise forgotten included."""
        key = self._plans.pop(uid, None)
        if key is not None:
            record = self._records[key]
            record.requests.pop(request[1], None)
            record.results.pop(uid, None)
            self.requeue(key)

    # What actions learned.

    def listed(self, plan: Key, uid: str, found: Iterable[Mapping[str, Any]]) -> None:
        """Take in all requests that a plan has."""
        record = self.record(plan, uid)
        if record is None:
            return
        names = set()
        for obj in found:
            names.add(obj["metadata"]["name"])
            try:
                self.observe_request(EfritRequest.model_validate(obj))
            except ValidationError as error:
                log.error("EfritRequest %s cannot be read: %s", obj["metadata"]["name"], error)
        # One made since is found again when it is created again.
        for name in record.requests.keys() - names:  # gate: unlisted-requests
            self._plans.pop(record.requests.pop(name).metadata.uid, None)
        record.listed = True
        self._file(plan)
        self.requeue(plan)

    def result_read(self, plan: Key, uid: str, request_uid: str, text: str) -> None:
        """Take in the whole result of a request."""
        record = self.record(plan, uid)
        if record is not None:
            record.results[request_uid] = text
            self.requeue(plan)

    def created(self, plan: Key, uid: str, obj: Mapping[str, Any]) -> None:
        """Take in that a request of a plan is there."""
        record = self.record(plan, uid)
        if record is not None:
            record.refusal = None
            self.observe_request(EfritRequest.model_validate(obj))

    def refused(self, plan: Key, uid: str, sentence: str) -> None:
        """Remember that the API server did not take a request of the plan, and why."""
        record = self.record(plan, uid)
        if record is not None:
            record.refusal = Refusal(sentence, self._index.clock())
            self.requeue(plan)

    # What decisions read.

    def snapshot(self, key: Key) -> PlanSnapshot | None:
        """Return the picture of a plan, or None where there is none."""
        record = self._records.get(key)
        if record is None:
            return None
        return PlanSnapshot(
            plan=record.plan,
            requests=dict(record.requests) if record.listed else None,
            results=dict(record.results),
            target=self._index.home_of_plan(record.plan, record.requests.values()),
            refusal=record.refusal,
            reduced_status=record.reduced_status,
        )

    def _forget(self, record: PlanRecord) -> None:
        """Take a plan and its requests out of the indexes by UID."""
        self._keys.pop(record.plan.metadata.uid, None)
        for request in record.requests.values():
            self._plans.pop(request.metadata.uid, None)

    def _file(self, key: Key) -> None:
        """Bring the index of homes up to date with the record of a plan."""
        record, home, suspended = self._records.get(key), None, False
        if record is not None and not record.plan.final:
            spec = record.plan.spec
            complete = record.listed or not record.listed_at_start
            home = home_of(record.plan, record.requests.values(), complete=complete)
            # One that is cancelled ends first, suspended or not.
            suspended = spec.suspend and not spec.cancel
        self._index.file_plan(key, home, suspended=suspended)


def _fingerprint(plan: EfritPlan) -> tuple[object, ...]:
    """Return what of a plan decides what comes next; the rest of its status only tells."""
    meta, status = plan.metadata, plan.status
    return meta.uid, meta.generation, meta.deletion_timestamp, status.phase, status.start_time, status.instance_name


def _progress(request: EfritRequest) -> tuple[object, ...]:
    """Return what of a request a plan may wait for."""
    return request.metadata.uid, request.status.phase, request.status.instance_name, request.spec.cancel
