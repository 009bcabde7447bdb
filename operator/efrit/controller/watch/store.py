"""The in-memory picture of the world: fed by watch events and by what actions learned, read as snapshots.

Level-triggered: every change adds the keys it may matter to, and nothing here says what is to be done. An object is
never replaced by an older version of itself, so that the controller reads its own writes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritInstance, EfritRequest
from efrit.controller.decide.views import (
    BridgeView,
    ControllerConfig,
    Handover,
    InstanceSnapshot,
    Key,
    RequestSnapshot,
)
from efrit.controller.watch.line import rank
from efrit.controller.watch.queue import WorkKey, WorkQueue
from efrit.controller.watch.records import (
    InstanceRecord,
    RequestRecord,
    instance_key,
    older,
    outdated,
    target_of,
)
from efrit.controller.watch.views import claim_view, pod_view, statefulset_view
from efrit.protocol import Event, RequestView, Reset, Stats

log = logging.getLogger(__name__)

UNCLAIMED_GRACE = timedelta(seconds=10)
POOL_LABEL = "efrit.dev/pool"


class Store:
    """The world as last seen. One event loop only; no locks."""

    def __init__(self, queue: WorkQueue, config: ControllerConfig, clock: Callable[[], datetime]) -> None:
        self._queue = queue
        self._config = config
        self._clock = clock
        self._started = clock()
        self._instances: dict[Key, InstanceRecord] = defaultdict(InstanceRecord)
        self._requests: dict[Key, RequestRecord] = {}
        self._keys: dict[str, Key] = {}
        self._unclaimed: dict[Key, tuple[Key, str]] = {}

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
        replaced = entry.instance is not None and entry.instance.metadata.uid != instance.metadata.uid
        entry.instance = instance
        if replaced:
            entry.refused, entry.problem, entry.last_activity = None, None, None
        self._look_instance(instance.key)
        self._look_waiting(instance.key)
        self._look_unbound(instance.metadata.namespace)

    def forget_instance(self, key: Key) -> None:
        """Take in that an EfritInstance is gone."""
        if key in self._instances:
            self._instances[key].instance = None
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
        if entry is not None and entry.request.metadata.uid == request.metadata.uid:
            if older(request, entry.request):
                return
            self._untarget(entry)
            entry.request = request
        else:
            if entry is not None:
                self._untarget(entry)
                self._keys.pop(entry.request.metadata.uid, None)
            self._requests[request.key] = RequestRecord(request, self._told_before(request))
            self._keys[request.metadata.uid] = request.key
        self._unclaimed.pop(request.key, None)
        self._retarget(request)
        self._look_request(request.key)

    def request_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an EfritRequest left the watched selection: deleted, or final."""
        meta = obj["metadata"]
        entry = self._requests.get((meta["namespace"], meta["name"]))
        if entry is not None and entry.request.metadata.uid == meta["uid"]:
            entry.left = True
            self._look_request(entry.request.key)

    def observe_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's pod."""
        key = instance_key(obj)
        if key is not None:
            entry = self._instances[key]
            view = pod_view(obj)
            if entry.pod is None or entry.pod.uid != view.uid:
                entry.problem = None
            entry.pod = view
            self._look_instance(key)
            if view.deleting:
                self._look_waiting(key)

    def forget_pod(self, obj: Mapping[str, Any]) -> None:
        """Take in that a pod is gone."""
        key = instance_key(obj)
        if key is None:
            return
        entry = self._instances[key]
        if entry.pod is not None and entry.pod.uid == obj["metadata"]["uid"]:
            entry.pod = None
            self._look_instance(key)

    def observe_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in an instance's StatefulSet."""
        key = instance_key(obj)
        if key is not None:
            self._instances[key].statefulset = statefulset_view(obj)
            self._look_instance(key)

    def forget_statefulset(self, obj: Mapping[str, Any]) -> None:
        """Take in that a StatefulSet is gone."""
        key = instance_key(obj)
        if key is not None:
            self._instances[key].statefulset = None
            self._look_instance(key)

    def observe_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in a PersistentVolumeClaim of an instance."""
        key = instance_key(obj)
        if key is not None:
            view = claim_view(obj)
            known = self._instances[key].claims.get(view.name)
            self._instances[key].claims[view.name] = view
            if known is None or known.phase != view.phase:
                self._look_instance(key)

    def forget_claim(self, obj: Mapping[str, Any]) -> None:
        """Take in that a claim is gone."""
        key = instance_key(obj)
        if key is not None and self._instances[key].claims.pop(obj["metadata"]["name"], None) is not None:
            self._look_instance(key)

    # What actions learned.

    def bridge_event(self, instance: Key, pod_uid: str, event: Event) -> None:
        """Take in one event of a bridge's stream."""
        entry = self._instances[instance]
        match event:
            case Reset(queue_id=queue_id):
                stats = entry.bridge.stats if entry.bridge.pod_uid == pod_uid else None
                entry.views.clear()
                for key in entry.open_requests:
                    self._place(entry, key)
                entry.bridge = BridgeView(
                    connected=False, pod_uid=pod_uid, queue_id=queue_id, stats=stats, since=self._clock()
                )
            case RequestView():
                self._observe_view(instance, event)
            case Stats():
                # The first figures close the list that follows a reset: from here on the picture is whole.
                opened = not entry.bridge.connected
                entry.bridge = replace(
                    entry.bridge,
                    connected=True,
                    pod_uid=pod_uid,
                    queue_id=event.queue_id,
                    stats=event,
                    problem=None,
                )
                self._look_instance(instance)
                if opened:
                    self._look_waiting(instance)
                    self._look_unbound(instance[0])
                else:
                    self._look_held_back(instance, event)

    def bridge_lost(self, instance: Key, pod_uid: str, problem: str) -> None:
        """Take in that a bridge cannot be reached."""
        entry = self._instances[instance]
        known, pod = entry.bridge, entry.pod.uid if entry.pod else None
        # The present pod's bridge may fail before it was ever heard of.
        if pod_uid not in (known.pod_uid, pod) and known.pod_uid is not None:
            return
        if known.connected or (known.pod_uid, known.problem) != (pod_uid, problem):
            entry.bridge = replace(known, connected=False, pod_uid=pod_uid, problem=problem)
            self._look_instance(instance)

    def bridge_closed(self, instance: Key) -> None:
        """Take in that nobody is connected to an instance on purpose."""
        entry = self._instances.get(instance)
        if entry is not None and entry.bridge.pod_uid is not None:
            entry.bridge = BridgeView(queue_id=entry.bridge.queue_id)
            self._look_instance(instance)

    def request_view(self, instance: Key, view: RequestView) -> None:
        """Take in what a bridge said of one request."""
        self._observe_view(instance, view)

    def handed_over(self, instance: Key, request: Key, uid: str) -> None:
        """Remember that the queue of an instance may have a request, though nobody said so."""
        entry = self._requests.get(request)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.handover = Handover(self._instances[instance].bridge.queue_id or "")

    def assume(self, request: Key, instance: Key | None) -> None:
        """Count a request as the instance's while its binding is being written; None takes that back."""
        entry = self._requests.get(request)
        if entry is None or target_of(entry.request) is not None:
            return
        self._untarget(entry)
        if instance is not None:
            entry.assumed = instance
            self._instances[instance].open_requests.add(request)

    def absent(self, request: Key, uid: str, queue_id: str) -> None:
        """Remember that a queue does not know a request."""
        entry = self._requests.get(request)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.handover = Handover(queue_id, absent=True)
            self._look_request(request)

    def turned_away(self, request: Key, uid: str, sentence: str) -> None:
        """Remember that a bridge will never take a request, and why."""
        entry = self._requests.get(request)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.handover = Handover("", absent=True, refused=sentence)
            self._look_request(request)

    def acknowledged(self, instance: Key, uid: str) -> None:
        """Forget an answer that is stored."""
        view = self._instances[instance].views.pop(uid, None)
        key = self._keys.get(uid)
        if key is not None:
            self._look_request(key)
        elif view is not None and (name := (view.metadata or {}).get("name")) is not None:
            self._unclaimed.pop((instance[0], str(name)), None)

    def applied(self, instance: Key) -> None:
        """Remember that the children were accepted."""
        entry = self._instances[instance]
        entry.resync = False
        if entry.refused is not None:
            entry.refused = None
            self._look_instance(instance)

    def refused(self, instance: Key, generation: int, sentence: str) -> None:
        """Remember that a child was refused, and why."""
        entry = self._instances[instance]
        entry.refused, entry.refused_generation, entry.resync = sentence, generation, False
        entry.refused_time = self._clock()
        self._look_instance(instance)

    def explained(self, instance: Key, problem: str | None) -> None:
        """Remember Kubernetes' own sentence on why an instance does not start."""
        entry = self._instances[instance]
        if entry.problem != problem:
            entry.problem = problem
            self._look_instance(instance)

    def status_written(self, instance: Key) -> None:
        """Remember when an instance's figures were last written."""
        self._instances[instance].stats_written = self._clock()

    def request_gone(self, key: Key, uid: str) -> None:
        """Take in that the API server does not know this request any more."""
        entry = self._requests.get(key)
        if entry is not None and entry.request.metadata.uid == uid:
            self._untarget(entry)
            entry.gone = True
            self._look_request(key)

    def drop_request(self, key: Key) -> None:
        """Forget a request with which nothing is left to do."""
        entry = self._requests.pop(key, None)
        if entry is not None:
            self._untarget(entry)
            self._keys.pop(entry.request.metadata.uid, None)
            self._queue.forget(WorkKey(EfritRequest.kind, *key))

    # What decisions read.

    def instance_snapshot(self, key: Key) -> InstanceSnapshot | None:
        """Return the picture of an instance, or None where there is none."""
        entry = self._instances.get(key)
        if entry is None or entry.instance is None:
            return None
        return InstanceSnapshot(
            instance=entry.instance,
            config=self._config,
            statefulset=entry.statefulset,
            pod=entry.pod,
            claims=tuple(entry.claims.values()),
            bridge=entry.bridge,
            open_requests=len(entry.open_requests),
            last_activity=entry.last_activity,
            refused=entry.refused,
            refused_generation=entry.refused_generation,
            refused_time=entry.refused_time,
            problem=entry.problem,
            stats_written=entry.stats_written,
            resync=entry.resync,
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
        if target_key is None:
            candidates = (self.instance_snapshot(each) for each in self._matching(request))
        return RequestSnapshot(
            request=request,
            config=self._config,
            target=target,
            candidates=tuple(each for each in candidates if each is not None),
            bridge_view=view,
            handover=entry.handover,
            ahead=self._ahead(self._instances[target_key], target, key) if target_key and target and not view else 0,
            controller_started=self._started,
            gone=entry.gone,
        )

    def must_verify(self, key: Key) -> bool:
        """Whether a request left the selection though nothing known explains it."""
        entry = self._requests.get(key)
        if entry is None or not entry.left or entry.gone:
            return False
        phase = entry.request.status.phase
        return phase is None or not phase.final

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
        phase = entry.request.status.phase
        ttl = entry.request.spec.ttl_seconds_after_finished
        return entry.left and phase is not None and phase.final and not pending and ttl is None

    def unclaimed(self, key: Key) -> tuple[Key, str] | None:
        """Return (instance, uid) of work on a bridge whose request is not known here."""
        return self._unclaimed.get(key)

    def claim(self, key: Key) -> None:
        """Forget unclaimed work that was looked into."""
        self._unclaimed.pop(key, None)

    def instance_keys(self) -> list[Key]:
        """Return the keys of all instances, those included of which only children are left."""
        return list(self._instances)

    def open_request_uids(self) -> dict[Key, str]:
        """Return key and UID of every request not yet final."""
        return {
            key: entry.request.metadata.uid
            for key, entry in self._requests.items()
            if not entry.gone and not (entry.request.status.phase and entry.request.status.phase.final)
        }

    def final_requests(self) -> list[tuple[Key, str]]:
        """Return key and UID of the final requests that are still remembered."""
        return [
            (key, entry.request.metadata.uid)
            for key, entry in self._requests.items()
            if entry.request.status.phase is not None and entry.request.status.phase.final
        ]

    def child_uids(self) -> set[str]:
        """Return the UIDs of all pods and StatefulSets that are known."""
        children = (child for entry in self._instances.values() for child in (entry.pod, entry.statefulset))
        return {child.uid for child in children if child is not None}

    def forget_children(self, uids: set[str]) -> None:
        """Forget the pods and StatefulSets with these UIDs."""
        for key, entry in self._instances.items():
            if entry.pod is not None and entry.pod.uid in uids:
                entry.pod = None
                self._look_instance(key)
            if entry.statefulset is not None and entry.statefulset.uid in uids:
                entry.statefulset = None
                self._look_instance(key)

    def counts(self) -> tuple[int, int]:
        """Return how many instances and open requests are known."""
        instances = sum(1 for entry in self._instances.values() if entry.instance is not None)
        return instances, len(self.open_request_uids())

    def prune(self, key: Key) -> None:
        """Forget an instance that is gone, once nothing of it is left that a request could ask for."""
        entry = self._instances.get(key)
        if entry is None or entry.instance is not None or entry.pod is not None:
            return
        for uid in [uid for uid in entry.views if uid not in self._keys]:
            del entry.views[uid]
        if entry.empty:
            del self._instances[key]

    def resync(self, key: Key) -> None:
        """Have the children of an instance applied again."""
        self._instances[key].resync = True
        self._look_instance(key)

    # Inside.

    def _told_before(self, request: EfritRequest) -> Handover | None:
        target = target_of(request)
        entry = self._instances.get(target) if target else None
        if entry is None or request.metadata.uid not in entry.views:
            return None
        return Handover(entry.bridge.queue_id or "")

    def _observe_view(self, instance: Key, view: RequestView) -> None:
        views = self._instances[instance].views
        known = views.get(view.id)
        if known is not None and outdated(view, known):
            return
        views[view.id] = view
        key = self._keys.get(view.id)
        if key is not None:
            # Outlives the views, which go when the bridge starts over: a replaced queue is then noticed.
            record = self._requests[key]
            record.handover = Handover(self._instances[instance].bridge.queue_id or "")
            if key in self._instances[instance].open_requests:
                self._place(self._instances[instance], key)
            self._look_request(key)
            return
        origin = view.metadata or {}
        name, namespace = origin.get("name"), origin.get("namespace")
        if isinstance(name, str) and namespace == instance[0]:
            self._unclaimed[instance[0], name] = (instance, view.id)
            work = WorkKey(EfritRequest.kind, instance[0], name)
            self._queue.add_after(work, UNCLAIMED_GRACE.total_seconds())

    def _retarget(self, request: EfritRequest) -> None:
        target = target_of(request)
        if target is None:
            return
        entry = self._instances[target]
        moments = (request.metadata.creation_timestamp, request.status.completion_time, entry.last_activity)
        entry.last_activity = max((each for each in moments if each is not None), default=None)
        if self._requests[request.key].open:
            entry.open_requests.add(request.key)
            self._place(entry, request.key)
        elif not entry.open_requests and entry.instance is not None and entry.instance.spec.idle:
            self._look_instance(target)

    def _untarget(self, entry: RequestRecord) -> None:
        key = entry.request.key
        for target in (target_of(entry.request), entry.assumed):
            if target is not None:
                self._instances[target].open_requests.discard(key)
                self._instances[target].line.discard(key)
        entry.assumed = None

    def _place(self, entry: InstanceRecord, key: Key) -> None:
        """Put an open request into the line of its instance, or take it out once the instance has it."""
        request = self._requests[key].request
        if request.metadata.uid in entry.views:
            entry.line.discard(key)
        else:
            entry.line.add(key, rank(request))

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

    def _look_instance(self, key: Key) -> None:
        self._queue.add(WorkKey(EfritInstance.kind, *key))

    def _look_request(self, key: Key) -> None:
        self._queue.add(WorkKey(EfritRequest.kind, *key))

    def _look_waiting(self, target: Key) -> None:
        for key in self._instances[target].open_requests:
            self._look_request(key)

    def _look_held_back(self, target: Key, stats: Stats) -> None:
        """Look at as many requests in the line as the instance has room for."""
        entry = self._instances[target]
        if entry.instance is None:
            return
        for key in entry.line.first(entry.instance.spec.queue.max_pending - stats.pending - stats.processing):
            self._look_request(key)

    def _look_unbound(self, namespace: str) -> None:
        for key, entry in self._requests.items():
            if key[0] == namespace and target_of(entry.request) is None:
                self._look_request(key)
