"""Plans and their requests as last seen. Fed by the watch and by what actions learned; requests come from the store.

Finished requests are not watched: what a plan's had to say is taken in when the controller writes their end, and
listed once by a controller that has just started. A plan is looked at when something changes that it may wait for,
not whenever a request tells how far it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritInstance, EfritPlan, EfritRequest
from efrit.controller.decide.plan_views import PlanSnapshot, Refusal
from efrit.controller.decide.views import Key
from efrit.controller.watch.plan_homes import Home, PlanCount, PlanHomes, home_of
from efrit.controller.watch.queue import WorkKey, WorkQueue

log = logging.getLogger(__name__)

FindTarget = Callable[[EfritPlan, Iterable[EfritRequest]], EfritInstance | None]
HomesChanged = Callable[[set[Home]], None]


@dataclass(slots=True)
class PlanRecord:
    """What is known of one plan."""

    plan: EfritPlan
    requests: dict[str, EfritRequest] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    listed: bool = False
    listed_at_start: bool = False
    """Whether another process may have made requests of it."""
    left: bool = False
    cramped: bool = False
    refusal: Refusal | None = None


def owner_of(request: EfritRequest) -> str | None:
    """Return the UID of the plan that a request belongs to."""
    owners = request.metadata.owner_references
    return next((each.uid for each in owners if each.kind == EfritPlan.kind and each.controller), None)


class Plans:
    """The memory of plans. One event loop only; no locks."""

    def __init__(
        self,
        queue: WorkQueue,
        clock: Callable[[], datetime],
        find_target: FindTarget,
        homes_changed: HomesChanged,
        is_listed: Callable[[str], bool],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._find_target = find_target
        self._homes_changed = homes_changed
        self._is_listed = is_listed
        self._homes = PlanHomes()
        self._records: dict[Key, PlanRecord] = {}
        self._keys: dict[str, Key] = {}

    # What watch handlers tell.

    def observe_plan(self, obj: Mapping[str, Any]) -> None:
        """Take in an EfritPlan."""
        try:
            plan = EfritPlan.model_validate(obj)
        except ValidationError as error:
            log.error("EfritPlan %s cannot be read: %s", obj.get("metadata", {}).get("name"), error)
            return
        record = self._records.get(plan.key)
        if record is not None and _older(plan, record.plan):
            return
        known = record.plan if record is not None else None
        if record is None or record.plan.metadata.uid != plan.metadata.uid:
            if known is not None:
                self._keys.pop(known.metadata.uid, None)
            self._records[plan.key] = PlanRecord(plan, listed_at_start=not self._is_listed(plan.metadata.namespace))
            self._keys[plan.metadata.uid] = plan.key
        else:
            record.plan = plan
        self._file(plan.key)
        if known is None or _bearing(known) != _bearing(plan):
            self._look(plan.key)

    def plan_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritPlan left the watched selection: deleted, or final."""
        meta = obj["metadata"]
        key = meta["namespace"], meta["name"]
        record = self._records.get(key)
        if record is not None and record.plan.metadata.uid == meta["uid"]:
            record.left = True
            self._look(key)

    # What the store tells.

    def observe_request(self, request: EfritRequest) -> None:
        """Take in a request, if it belongs to a plan that is known."""
        key = self._keys.get(owner_of(request) or "")
        if key is None:
            return
        record, name = self._records[key], request.metadata.name
        known = record.requests.get(name)
        if known is not None and _older(request, known):
            return
        record.requests[name] = request
        self._file(key)
        if known is None or _progress(known) != _progress(request):
            self._look(key)

    def request_gone(self, request: Key, uid: str) -> None:
        """Take in that a request was deleted, one that is final and otherwise forgotten included."""
        namespace, name = request
        for key, record in self._records.items():
            known = record.requests.get(name) if key[0] == namespace else None
            if known is not None and known.metadata.uid == uid:
                del record.requests[name]
                record.results.pop(uid, None)
                self._look(key)

    # What actions learned.

    def listed(self, plan: Key, uid: str, found: Iterable[Mapping[str, Any]]) -> None:
        """Take in all requests that a plan has."""
        record = self._of(plan, uid)
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
        record.requests = {name: each for name, each in record.requests.items() if name in names}
        record.listed = True
        self._file(plan)
        self._look(plan)

    def result_read(self, plan: Key, uid: str, request_uid: str, text: str) -> None:
        """Take in the whole result of a request."""
        record = self._of(plan, uid)
        if record is not None:
            record.results[request_uid] = text
            self._look(plan)

    def created(self, plan: Key, uid: str, obj: Mapping[str, Any]) -> None:
        """Take in that a request of a plan is there."""
        record = self._of(plan, uid)
        if record is not None:
            record.refusal = None
            self.observe_request(EfritRequest.model_validate(obj))

    def refused(self, plan: Key, uid: str, sentence: str) -> None:
        """Remember that the API server did not take a request of the plan, and why."""
        record = self._of(plan, uid)
        if record is not None:
            record.refusal = Refusal(sentence, self._clock())
            self._look(plan)

    def cramped(self, plan: Key, uid: str) -> None:
        """Remember that the object of a plan has no room for a status of the usual size."""
        record = self._of(plan, uid)
        if record is not None:
            record.cramped = True

    def plan_gone(self, plan: Key, uid: str) -> None:
        """Forget a plan that does not exist any more; its requests go with it."""
        if self._of(plan, uid) is not None:
            self.drop(plan)

    # What decisions and sweeps read.

    def snapshot(self, key: Key) -> PlanSnapshot | None:
        """Return the picture of a plan, or None where there is none."""
        record = self._records.get(key)
        if record is None:
            return None
        return PlanSnapshot(
            plan=record.plan,
            requests=dict(record.requests) if record.listed else None,
            results=dict(record.results),
            target=self._find_target(record.plan, record.requests.values()),
            refusal=record.refusal,
            cramped=record.cramped,
        )

    def must_verify(self, key: Key) -> str | None:
        """Return the UID of a plan that left the selection though nothing known explains it."""
        record = self._records.get(key)
        return record.plan.metadata.uid if record is not None and record.left and not record.plan.final else None

    def verified(self, key: Key) -> None:
        """Take in that a plan that left the selection still exists."""
        if key in self._records:
            self._records[key].left = False

    def finished_with(self, key: Key) -> bool:
        """Whether nothing is left to do about a plan."""
        record = self._records.get(key)
        return record is not None and record.plan.final and record.plan.spec.ttl_seconds_after_finished is None

    def drop(self, key: Key) -> None:
        """Forget a plan."""
        record = self._records.pop(key, None)
        if record is not None:
            self._file(key)
            self._keys.pop(record.plan.metadata.uid, None)
            self._queue.forget(WorkKey(EfritPlan.kind, *key))

    def count_at(self, home: Home) -> PlanCount:
        """Return how many open plans live on an instance, or may live on any of a pool."""
        return self._homes.count(home)

    def open_uids(self, scope: str | None = None) -> dict[Key, str]:
        """Return key and UID of every plan of a namespace that is not final."""
        return {
            key: record.plan.metadata.uid
            for key, record in self._records.items()
            if not record.plan.final and scope in (None, key[0])
        }

    def look_at_open(self, scope: str | None = None, *, anew: bool = False) -> None:
        """Look at every open plan of a namespace again; `anew`: list the requests of each first."""
        for key in self.open_uids(scope):
            if anew:
                self._records[key].listed = False
            self._look(key)

    # Inside.

    def _file(self, key: Key) -> None:
        """Bring the index of homes up to date with the record of a plan."""
        record, home, suspended = self._records.get(key), None, False
        if record is not None and not record.plan.final:
            spec = record.plan.spec
            complete = record.listed or not record.listed_at_start
            home = home_of(record.plan, record.requests.values(), complete=complete)
            # One that is cancelled ends first, suspended or not.
            suspended = spec.suspend and not spec.cancel
        changed = self._homes.file(key, home, suspended=suspended)
        if changed:
            self._homes_changed(changed)

    def _of(self, key: Key, uid: str) -> PlanRecord | None:
        record = self._records.get(key)
        return record if record is not None and record.plan.metadata.uid == uid else None

    def _look(self, key: Key) -> None:
        self._queue.add(WorkKey(EfritPlan.kind, *key))


def _bearing(plan: EfritPlan) -> tuple[object, ...]:
    """Return what of a plan decides what comes next; the rest of its status only tells."""
    meta, status = plan.metadata, plan.status
    return meta.uid, meta.generation, meta.deletion_timestamp, status.phase, status.start_time, status.instance_name


def _progress(request: EfritRequest) -> tuple[object, ...]:
    """Return what of a request a plan may wait for."""
    return request.metadata.uid, request.status.phase, request.status.instance_name, request.spec.cancel


def _older(new: EfritPlan | EfritRequest, known: EfritPlan | EfritRequest) -> bool:
    a, b = new.metadata.resource_version, known.metadata.resource_version
    return a.isdigit() and b.isdigit() and int(a) < int(b)
