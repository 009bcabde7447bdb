"""The in-memory picture of the world: fed by watch events and by what actions learned, read as snapshots.

Level-triggered: every change adds the keys it may matter to, and nothing here says what is to be done. An object is
never replaced by an older version of itself, so that the controller reads its own writes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritInstance, EfritRequest
from efrit.controller.decide.figures import EARLY_WRITES, MAX_WRITES
from efrit.controller.decide.placement import node_is_lost
from efrit.controller.decide.views import InstanceSnapshot, Key, RequestSnapshot
from efrit.controller.watch.apply_results import ApplyResults
from efrit.controller.watch.memory import POOL_LABEL
from efrit.controller.watch.queue import WorkKey
from efrit.controller.watch.records import (
    InstanceRecord,
    RequestRecord,
    bearing,
    in_scope,
    older,
    target_of,
)

log = logging.getLogger(__name__)


class Store(ApplyResults):
    """The world as last seen: the memory as watch handlers feed it and decisions read it."""

    # What watch handlers tell.

    def observe_instance(self, obj: Mapping[str, Any]) -> None:
        """Take in an EfritInstance."""
        try:
            instance = EfritInstance.model_validate(obj)
        except ValidationError as error:
            log.error("EfritInstance %s cannot be read: %s", obj.get("metadata", {}).get("name"), error)
            return
        entry = self._instances[instance.key]
        if entry.instance is not None and older(instance, entry.instance):
            return
        if entry.deleted_uid == instance.metadata.uid and instance.metadata.deletion_timestamp is None:
            return
        known = entry.instance
        replaced = known is not None and known.metadata.uid != instance.metadata.uid
        entry.instance = instance
        if known is None or replaced:
            entry.handover_paused = False
        if replaced:
            entry.pod_owners.clear()
        if entry.statefulset is not None:
            entry.observe_owner(entry.statefulset)
        if replaced:
            entry.refused, entry.problem, entry.last_activity, entry.explained_time = None, None, None, None
            entry.applied_generation, entry.applied_digest, entry.child_missing = 0, None, False
            entry.secret_check, entry.secret_applied_time = False, None
        self._observe_rollout(instance.key)
        self._note_work(instance.key)
        self._observe_handover(entry, instance, replaced=replaced)
        self._look_instance(instance.key)
        if known is None or bearing(known) != bearing(instance):
            self._look_waiting(instance.key)
            self._look_unbound(instance.metadata.namespace)

    def instance_gone(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritInstance was deleted."""
        meta = obj["metadata"]
        self.forget_instance((meta["namespace"], meta["name"]), meta["uid"])

    def forget_instance(self, key: Key, uid: str | None) -> None:
        """Forget the EfritInstance with this UID; one made anew under its name stays."""
        entry = self._instances.get(key)
        if entry is None or (entry.instance is not None and entry.instance.metadata.uid != uid):
            return
        entry.instance = None
        self._observe_rollout(key)
        self._look_instance(key)
        self._look_waiting(key)

    def observe_request(self, obj: Mapping[str, Any]) -> None:
        """Take in an EfritRequest."""
        try:
            request = EfritRequest.model_validate(obj)
        except ValidationError as error:
            log.error("EfritRequest %s cannot be read: %s", obj.get("metadata", {}).get("name"), error)
            return
        entry = self._requests.get(request.key)
        if entry is not None and older(request, entry.request):
            return
        before = (target_of(entry.request), entry.assumed) if entry is not None else ()
        if entry is not None and entry.request.metadata.uid == request.metadata.uid:
            self._untarget(entry)
            if request.status.progress != entry.request.status.progress:
                entry.progress_told = self._clock()
            entry.request = request
        else:
            if entry is not None:
                self._abandon(entry)
            self._requests[request.key] = RequestRecord(
                request,
                self._told_before(request),
                seen_time=self._clock(),
                listed_at_start=not self.is_listed(request.metadata.namespace),
            )
            self._keys[request.metadata.uid] = request.key
        if self._unclaimed.get(request.key, (None, ""))[1] == request.metadata.uid:
            del self._unclaimed[request.key]
        self._retarget(request)
        self._note_work(*before, target_of(request))
        self._look_request(request.key)
        self.plans.observe_request(request)

    def request_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritRequest left the watched selection: deleted, or final."""
        meta = obj["metadata"]
        entry = self._requests.get((meta["namespace"], meta["name"]))
        if entry is not None and entry.request.metadata.uid == meta["uid"]:
            entry.left = True
            self._look_request(entry.request.key)

    # What actions learned.

    def pause_handover(self, instance: Key) -> None:
        """Hand no more requests to an instance until `resume_handover`."""
        self._instances[instance].handover_paused = True

    def resume_handover(self, instance: Key) -> None:
        """Hand requests to an instance again, those first that have waited for it."""
        self._instances[instance].handover_paused = False
        self._look_waiting(instance)
        self._look_unbound(instance[0])

    def not_idle(self, instance: Key) -> None:
        """Take in that the API server knows of open work on an instance that was taken for idle."""
        self._instances[instance].last_activity = self._clock()
        self._look_instance(instance)

    def instance_deleted(self, instance: Key, uid: str) -> None:
        """Take in that this process has deleted an EfritInstance: what the watch still tells of it is late."""
        self._instances[instance].deleted_uid = uid
        self.forget_instance(instance, uid)

    def status_written(self, instance: Key) -> None:
        """Remember a write of an instance's status, and whether it came before the time of its figures."""
        entry, now = self._instances[instance], self._clock()
        entry.status_writes = (*entry.status_writes, now)[-MAX_WRITES:]
        before, entry.stats_written = entry.stats_written, now
        if entry.work_ended is not None and before is not None and now < before + self._config.stats_every:
            entry.early_writes = (*entry.early_writes, now)[-EARLY_WRITES:]

    def cramped(self, key: Key, uid: str) -> None:
        """Remember that the object of a request has no room for a status of the usual size."""
        entry = self._requests.get(key)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.cramped = True

    def progress_dropped(self, key: Key, uid: str) -> None:
        """Remember that it was tried to say how far a request has come."""
        entry = self._requests.get(key)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.progress_told = self._clock()

    def session_found(self, key: Key, uid: str, instance: str) -> None:
        """Remember which instance has the session a request continues, `""` for none."""
        entry = self._requests.get(key)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.session_home = instance
            self._look_request(key)

    def request_gone(self, key: Key, uid: str) -> None:
        """Take in that the API server does not know this request any more."""
        entry = self._requests.get(key)
        if entry is not None and entry.request.metadata.uid == uid:
            before = target_of(entry.request), entry.assumed
            self._untarget(entry)
            entry.gone = True
            self._note_work(*before)
            self._look_request(key)
        self.plans.request_gone(key, uid)

    def drop_request(self, key: Key) -> None:
        """Forget a request with which nothing is left to do."""
        entry = self._requests.pop(key, None)
        if entry is not None:
            before = target_of(entry.request), entry.assumed
            self._untarget(entry)
            self._note_work(*before)
            self._keys.pop(entry.request.metadata.uid, None)
            self._queue.forget(WorkKey(EfritRequest.kind, *key))

    # What decisions read.

    def instance_snapshot(self, key: Key, *, deciding: bool = False) -> InstanceSnapshot | None:
        """Return the picture of an instance, or None where there is none.

        deciding: whether the decision is about the instance itself; `may_close` goes through its requests.
        """
        entry = self._instances.get(key)
        if entry is None or entry.instance is None:
            return None
        plans = self._plans_of(key)
        return InstanceSnapshot(
            instance=entry.instance,
            config=self._config,
            statefulset=entry.own_statefulset,
            pod=entry.own_pod,
            claims=tuple(entry.claims.values()),
            bridge=entry.bridge,
            open_requests=len(entry.open_requests),
            active_plans=plans.active,
            suspended_plans=plans.suspended,
            listed=self._work_is_listed(key, entry.instance),
            handover_paused=entry.handover_paused,
            last_activity=entry.last_activity,
            applied_generation=entry.applied_generation,
            refused=entry.refused,
            refused_generation=entry.refused_generation,
            refused_time=entry.refused_time,
            problem=entry.problem,
            explained_time=entry.explained_time,
            stats_written=entry.stats_written,
            work_ended=entry.work_ended,
            early_writes=entry.early_writes,
            status_writes=entry.status_writes,
            resync=entry.resync,
            applied_digest=entry.applied_digest,
            child_missing=entry.child_missing,
            secret_check=entry.secret_check,
            secret_applied_time=entry.secret_applied_time,
            unfinished=entry.unfinished,
            controller_started=self._started,
            rollout=self.rollouts.view(),
            update_reserved=self.rollouts.is_reserved(key),
            handover_id=entry.handover_id,
            closed_before=entry.closed_before,
            may_close=deciding and self.may_close(key),
            waiting=len(entry.line),
        )

    def request_snapshot(self, key: Key) -> RequestSnapshot | None:
        """Return the picture of a request, or None where there is none."""
        entry = self._requests.get(key)
        if entry is None:
            return None
        request = entry.request
        target_key = target_of(request)
        target = self.instance_snapshot(target_key) if target_key else None
        view = self._instances[target_key].views.get(request.metadata.uid) if target_key else None
        candidates: Iterable[InstanceSnapshot | None] = ()
        if target_key is None or (target is not None and node_is_lost(target)):
            candidates = (self.instance_snapshot(each) for each in self._matching(request))
        return RequestSnapshot(
            request=request,
            config=self._config,
            target=target,
            candidates=tuple(each for each in candidates if each is not None),
            bridge_view=view,
            handover=entry.handover,
            ahead=self._ahead(self._instances[target_key], target, key) if target_key and target and not view else 0,
            seen_time=entry.seen_time,
            listed_at_start=entry.listed_at_start,
            gone=entry.gone,
            cramped=entry.cramped,
            progress_told=entry.progress_told,
            session_home=entry.session_home,
            failure=entry.failure,
        )

    def must_verify(self, key: Key) -> bool:
        """Whether a request left the selection though nothing known explains it."""
        entry = self._requests.get(key)
        if entry is None or not entry.left or entry.gone:
            return False
        return not entry.request.final

    def verified(self, key: Key) -> None:
        """Take in that a request that left the selection still exists."""
        if key in self._requests:
            self._requests[key].left = False

    def finished_with(self, key: Key) -> bool:
        """Whether nothing is left to do about a request."""
        entry = self._requests.get(key)
        if entry is None:
            return True
        target = target_of(entry.request)
        pending = target is not None and entry.request.metadata.uid in self._instances[target].views
        if entry.gone:
            return not pending
        ttl = entry.request.spec.ttl_seconds_after_finished
        return entry.left and entry.request.final and not pending and ttl is None

    def instance_keys(self, scope: str | None = None) -> list[Key]:
        """Return the keys of all instances of a namespace, those included of which only children are left."""
        return [key for key in self._instances if in_scope(key, scope)]

    def instance_uids(self, scope: str | None = None) -> dict[Key, str | None]:
        """Return the UID of each instance of a namespace by its key, None where only children are left."""
        return {
            key: entry.instance.metadata.uid if entry.instance else None
            for key, entry in self._instances.items()
            if in_scope(key, scope)
        }

    def open_request_uids(self, scope: str | None = None) -> dict[Key, str]:
        """Return key and UID of every request of a namespace that is not final."""
        return {
            key: entry.request.metadata.uid
            for key, entry in self._requests.items()
            if entry.open and in_scope(key, scope)
        }

    def final_requests(self, scope: str | None = None) -> list[tuple[Key, str]]:
        """Return key and UID of the final requests of a namespace that are still remembered."""
        return [
            (key, entry.request.metadata.uid)
            for key, entry in self._requests.items()
            if entry.request.final and in_scope(key, scope)
        ]

    def look_at_namespace(self, scope: str | None) -> None:
        """Look at all that is known of a namespace, None for the whole cluster."""
        for key in self.instance_keys(scope):
            self._look_instance(key)
        for key in list(self._requests):
            if in_scope(key, scope):
                self._look_request(key)
        for key in list(self._unclaimed):
            if in_scope(key, scope):
                self._look_request(key)
        self.plans.look_at_open(scope)

    def look_at_open(self, within: float, scope: str | None = None) -> None:
        """Look at every open request of a namespace again, spread over so many seconds."""
        for key in self.open_request_uids(scope):
            self._queue.add_after(WorkKey(EfritRequest.kind, *key), random.uniform(0, within))  # noqa: S311

    def counts(self) -> tuple[int, int]:
        """Return how many instances and open requests are known."""
        instances = sum(1 for entry in self._instances.values() if entry.instance is not None)
        return instances, len(self.open_request_uids())

    def prune(self, key: Key) -> None:
        """Forget an instance that is gone, once nothing of it is left that a request could ask for."""
        entry = self._instances.get(key)
        if entry is None or entry.instance is not None or entry.pod is not None:
            return
        self._forget_unclaimed(key)
        for uid in list(entry.views):
            request = self._keys.get(uid)
            if request is None:
                del entry.views[uid]
            elif self._requests[request].gone:
                # Nothing is left of its work either, and nothing else would bring the controller back to it.
                del entry.views[uid]
                self._look_request(request)
        if entry.empty:
            del self._instances[key]

    def resync(self, key: Key) -> None:
        """Have the children of an instance applied again."""
        self._instances[key].resync = True
        self._look_instance(key)

    # Inside.

    def _abandon(self, entry: RequestRecord) -> None:
        """Forget a request that another has the name of by now; what a queue has of it is unclaimed work."""
        request = entry.request
        target, uid = target_of(request), request.metadata.uid
        self._untarget(entry)
        self._keys.pop(uid, None)
        if target is not None and uid in self._instances[target].views:
            self._unclaimed[request.key] = target, uid

    def _matching(self, request: EfritRequest) -> list[Key]:
        spec = request.spec
        if spec.pool_ref is not None:
            wanted = {POOL_LABEL: spec.pool_ref.name}
        elif spec.selector is not None:
            wanted = dict(spec.selector.match_labels)
        else:
            return []
        return [
            key
            for key, entry in self._instances.items()
            if key[0] == request.metadata.namespace
            and entry.instance is not None
            and wanted.items() <= entry.instance.metadata.labels.items()
        ]

    def _ahead(self, entry: InstanceRecord, target: InstanceSnapshot, key: Key) -> int:
        stats = target.bridge.stats
        limit = target.instance.spec.queue.max_pending
        if stats is None or stats.pending + stats.processing + len(entry.line) <= limit:
            return 0
        return entry.line.ahead_of(key)
