"""EfritPlans and their requests as last seen. The requests come from the part for requests.

Small facts of each are remembered; plans and requests whole are in `plan_contents.py`, as far as there is room.

Finished requests are not watched: what a plan's had to say is taken in when the controller writes their end, and
listed once by a controller that has just started. A plan is reconciled when something changes that it may wait for,
not whenever a request reports how far it has come.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritPlan, EfritRequest
from efrit.api.meta import Resource
from efrit.api.plan import Assess, Intent
from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import PlanSnapshot, Refusal
from efrit.controller.store.index import Index
from efrit.controller.store.plan_contents import MAX_BYTES
from efrit.controller.store.plan_record import PlanPart, PlanRecord
from efrit.controller.store.plan_targets import target_of_plan
from efrit.controller.store.records import is_older
from efrit.controller.store.watched_objects import WatchedObjects

log = logging.getLogger(__name__)

MAX_REQUESTS = 1000
"""Of one plan: a dozen steps with every part tried three times have 432."""
TOO_LARGE = (
    f"The plan has more than {MAX_REQUESTS} EfritRequests, or they take more than {MAX_BYTES >> 20} MiB: "
    "delete those of past steps."
)
TOO_LARGE_PAUSE = timedelta(seconds=60)
_LEFT_OUT = Intent(description="(spec.intent is left out)")


def owner_of(request: EfritRequest) -> str | None:
    """Return the UID of the plan that a request belongs to."""
    owners = request.metadata.owner_references
    return next((owner.uid for owner in owners if owner.kind == EfritPlan.kind and owner.controller), None)


class Plans(WatchedObjects[EfritPlan, PlanRecord]):
    """All EfritPlans that are open, or with which something is left to do."""

    def __init__(self, index: Index) -> None:
        super().__init__(EfritPlan, index.plans, index)
        self._contents = index.plan_contents
        self._keys: dict[str, Key] = {}
        """Keys of the plans by their UIDs."""
        self._plans: dict[str, Key] = {}
        """Keys of the plans by the UIDs of their requests."""

    # The object.

    def _observed(self, new: EfritPlan, record: PlanRecord | None) -> None:
        previous, key = record.plan if record is not None else None, new.key
        small = _without_content(new)
        if record is None or record.plan.metadata.uid != new.metadata.uid:
            if record is not None:
                self._index.tombstones.add(record.plan.metadata.uid, deleted=True)
                self._forget(key, record)
            listed_at_start = not self._index.is_listed(new.metadata.namespace)
            self._records[key] = record = PlanRecord(
                small, listed_at_start=listed_at_start, unconfirmed=listed_at_start
            )
            self._keys[new.metadata.uid] = key
            self._contents.begin(key)
        else:
            record.object = small
        if new.final:
            self._contents.discard(key)
        content = self._contents.find(key)
        version = previous.metadata.resource_version if previous is not None else None
        if content is not None and (content.plan is None or version != new.metadata.resource_version):
            content.plan = _packed(new)
            self._content_changed(key, record)
        self._record_target(key)
        if previous is None or _fingerprint(previous) != _fingerprint(small):
            self.requeue(key)

    def observe_gone(self, key: Key, uid: str) -> None:
        """Forget a plan that does not exist any more; its requests go with it."""
        self._index.tombstones.add(uid, deleted=True)
        if self.record(key, uid) is not None:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Forget a plan."""
        record = self._records.pop(key, None)
        if record is not None:
            self._index.tombstones.add(record.plan.metadata.uid, deleted=False)
            self._record_target(key)
            self._forget(key, record)
            self._index.queue.forget(WorkKey(EfritPlan.kind, *key))

    def is_done(self, key: Key) -> bool:
        """Return whether nothing is left to do about a plan: a decision knew that it is final."""
        record = self._records.get(key)
        return record is None or record.read_final

    def is_over(self, record: PlanRecord) -> bool:
        """Return whether a plan has its final status."""
        return record.plan.final

    async def requeue_open(self, within: float, scope: str | None = None, *, anew: bool = False) -> None:
        """Reconcile every open plan of a namespace again, in the background and spread over so many seconds.

        anew: list the requests of each first.
        """
        open_plans = self.open_uids(scope)
        for key in open_plans if anew else ():
            self._records[key].listed = False
        await self._index.requeue_all_within(EfritPlan.kind, open_plans, within)

    # Its requests.

    def pinned(self, key: Key) -> AbstractContextManager[None]:
        """Keep at hand in this block what is known of a plan."""
        return self._contents.pinned(key)

    def has_object(self, key: Key) -> bool:
        """Return whether the whole object of a plan is at hand."""
        content = self._contents.find(key)
        return content is not None and content.plan is not None

    def observe_request(self, request: EfritRequest) -> None:
        """Take in a request, if it belongs to a plan that is known."""
        key = self._keys.get(owner_of(request) or "")
        if key is None or self._index.tombstones.is_late(request.metadata.uid, final=request.final):
            return
        record, meta = self._records[key], request.metadata
        # Whoever may create a request in another namespace may write any owner.
        if meta.namespace != key[0]:  # gate: plan-namespace
            return
        previous = record.parts.get(meta.name)
        if previous is not None and is_older(meta.resource_version, previous.version):
            return
        if previous is None and len(record.parts) >= MAX_REQUESTS:  # gate: plan-requests
            self._contents.discard(key)
            # Nothing reports those that are deleted once they are final: the next list begins with none.
            self._forget_parts(record)
            self._is_too_large(key, record)
            return
        if previous is not None:
            self._plans.pop(previous.uid, None)
        part = PlanPart(
            meta.uid, meta.resource_version, request.status.instance_name, _progress(request), request.final
        )
        record.parts[meta.name] = part
        self._plans[meta.uid] = key
        content = self._contents.find(key)
        if content is not None and (previous != part or meta.name not in content.requests):
            content.requests[meta.name] = _packed(request)
            if previous is not None and previous.uid != meta.uid:
                content.results.pop(previous.uid, None)
            self._content_changed(key, record)
        self._record_target(key)
        if previous is None or previous.progress != part.progress:
            self.requeue(key)

    def request_gone(self, request: Key, uid: str) -> None:
        """Take in that a request was deleted, one that is final and otherwise forgotten included."""
        key = self._plans.pop(uid, None)
        if key is not None:
            record = self._records[key]
            part = record.parts.get(request[1])
            if part is not None and not part.final:
                # One that is final was deleted by this process: nothing needs it.
                self._mark_unconfirmed(record)
            self._forget_part(key, record, request[1])
            self.requeue(key)

    # What actions learned.

    def observe_listed(self, obj: Mapping[str, Any]) -> None:
        """Take in one of the requests that a plan has; one that cannot be read is logged."""
        try:
            self.observe_request(self._index.reader.read(EfritRequest, obj))
        except ValidationError as error:
            log.error("EfritRequest %s cannot be read: %s", obj["metadata"]["name"], error)

    def listed(self, plan: Key, uid: str, names: Set[str]) -> None:
        """Take in that these are all requests that a plan has, after each was observed."""
        record = self.record(plan, uid)
        if record is None:
            return
        content = self._contents.find(plan)
        readable = names if content is None else names & content.requests.keys()
        # One made since is found again when it is created again.
        for name in record.parts.keys() - readable:  # gate: unlisted-requests
            self._plans.pop(record.parts[name].uid, None)
            self._forget_part(plan, record, name)
            self._mark_unconfirmed(record)
        record.listed = True
        if content is not None:
            content.listed = True
        self._record_target(plan)
        self.requeue(plan)

    def result_read(self, plan: Key, uid: str, request_uid: str, text: str) -> None:
        """Take in the whole result of a request."""
        record, content = self.record(plan, uid), self._contents.find(plan)
        if record is not None and content is not None:
            content.results[request_uid] = text.encode("utf-8", "surrogatepass")
            self._content_changed(plan, record)
            self.requeue(plan)

    def is_too_large(self, plan: Key, uid: str) -> bool:
        """Return whether a plan that is being read turned out to have more than fits into memory."""
        return self.record(plan, uid) is not None and self._contents.find(plan) is None

    def created(self, plan: Key, uid: str, obj: Mapping[str, Any]) -> None:
        """Take in that a request of a plan is there."""
        record = self.record(plan, uid)
        if record is not None:
            record.refusal = None
            self.observe_request(self._index.reader.read(EfritRequest, obj))

    def confirmation_begins(self, plan: Key, uid: str) -> None:
        """Record that the API server is being asked whether a plan exists."""
        record = self.record(plan, uid)
        if record is not None:
            record.confirming = True

    def confirmed(self, plan: Key, uid: str) -> None:
        """Take in that a plan exists: it did when it was asked about, and a request may have gone since."""
        record = self.record(plan, uid)
        if record is not None and record.confirming:
            record.unconfirmed = False

    def refused(self, plan: Key, uid: str, sentence: str) -> None:
        """Remember that the API server did not take a request of the plan, and why."""
        record = self.record(plan, uid)
        if record is not None:
            record.refusal = Refusal(sentence, self._index.clock())
            self.requeue(plan)

    # What decisions read.

    def snapshot(self, key: Key) -> PlanSnapshot | None:
        """Return the picture of a plan, None where there is none; without requests where they have to be listed."""
        record = self._records.get(key)
        if record is None:
            return None
        record.read_final = record.plan.final
        content = self._contents.use(key) if record.listed else None
        plan, requests, results = record.plan, None, {}
        if content is not None and content.plan is not None:
            plan = EfritPlan.model_validate_json(content.plan)
            requests = {
                name: EfritRequest.model_validate_json(serialized) for name, serialized in content.requests.items()
            }
            results = {uid: text.decode("utf-8", "surrogatepass") for uid, text in content.results.items()}
        target = self._index.instance_of_plan(record.plan, record.instance_names)
        return PlanSnapshot(
            plan=plan,
            requests=requests,
            results=results,
            target=target,
            pod=self._index.instances[target.key].own_pod if target is not None else None,
            refusal=record.refusal,
            unconfirmed=record.unconfirmed,
            reduced_status=record.reduced_status,
        )

    def _forget(self, key: Key, record: PlanRecord) -> None:
        """Take a plan and its requests out of the indexes by UID."""
        self._contents.discard(key)
        self._keys.pop(record.plan.metadata.uid, None)
        self._forget_parts(record)

    @staticmethod
    def _mark_unconfirmed(record: PlanRecord) -> None:
        """Have the API server asked for a plan before a request of it is made again."""
        record.unconfirmed, record.confirming = True, False

    def _forget_parts(self, record: PlanRecord) -> None:
        for part in record.parts.values():
            self._plans.pop(part.uid, None)
        record.parts.clear()
        record.listed = False
        self._mark_unconfirmed(record)

    def _forget_part(self, key: Key, record: PlanRecord, name: str) -> None:
        part, content = record.parts.pop(name, None), self._contents.find(key)
        if part is not None and content is not None:
            content.requests.pop(name, None)
            content.results.pop(part.uid, None)
            self._contents.changed(key)

    def _content_changed(self, key: Key, record: PlanRecord) -> None:
        if not self._contents.changed(key):
            self._is_too_large(key, record)

    def _is_too_large(self, key: Key, record: PlanRecord) -> None:
        record.refusal = Refusal(TOO_LARGE, self._index.clock(), TOO_LARGE_PAUSE)
        self.requeue(key)

    def _record_target(self, key: Key) -> None:
        """Bring the index of targets up to date with the record of a plan."""
        record, target, suspended = self._records.get(key), None, False
        if record is not None and not record.plan.final:
            spec = record.plan.spec
            complete = record.listed or not record.listed_at_start
            target = target_of_plan(record.plan, record.instance_names, complete=complete)
            # One that is cancelled ends first, suspended or not.
            suspended = spec.suspend and not spec.cancel
        self._index.set_plan_target(key, target, suspended=suspended)


def _without_content(plan: EfritPlan) -> EfritPlan:
    """Return a plan as it is remembered: what says whether and where there is something to do, and until when."""
    metadata: dict[str, object] = {"labels": {}, "annotations": {}, "owner_references": ()}
    spec = {"intent": _LEFT_OUT, "amendments": (), "tasks": (), "assess": Assess(), "act": None, "environment": None}
    status = {"tree": (), "commits": (), "observations": ()}
    return plan.model_copy(
        update={
            "metadata": plan.metadata.model_copy(update=metadata),
            "spec": plan.spec.model_copy(update=spec),
            "status": plan.status.model_copy(update=status),
        }
    )


def _packed(obj: Resource) -> bytes:
    """Return an object as JSON, of its annotations the requester alone: kubectl has a copy of the object in one."""
    requester = obj.metadata.annotations.get(REQUESTER, "")[:MAX_FLOW_CHARS]
    annotations = {REQUESTER: requester} if requester else {}
    small = obj.model_copy(update={"metadata": obj.metadata.model_copy(update={"annotations": annotations})})
    return small.model_dump_json(by_alias=True, exclude_defaults=True).encode()


def _fingerprint(plan: EfritPlan) -> tuple[object, ...]:
    """Return what of a plan decides what comes next; the rest of its status only reports."""
    meta, status = plan.metadata, plan.status
    return meta.uid, meta.generation, meta.deletion_timestamp, status.phase, status.start_time, status.instance_name


def _progress(request: EfritRequest) -> tuple[object, ...]:
    """Return what of a request a plan may wait for."""
    return request.metadata.uid, request.status.phase, request.status.instance_name, request.spec.cancel
