"""What the bridges tell, and what was learned in talking to them: who has which request, what became of it."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from datetime import timedelta

from efrit.api import EfritRequest
from efrit.controller.decide.views import BridgeView, Handover, Key
from efrit.controller.watch.memory import Memory
from efrit.controller.watch.queue import WorkKey
from efrit.controller.watch.records import InstanceRecord, outdated, target_of
from efrit.protocol import DiskProblem, Event, RequestView, Reset, Stats

log = logging.getLogger(__name__)

UNCLAIMED_GRACE = timedelta(seconds=3)
"""How long the watch may need to tell of a request that a bridge has; after that the API server is asked."""


MOST_UNKNOWN = 10_000
"""Views kept of one bridge beyond what its queue takes: a bridge that makes them up must not fill the memory."""


# It becomes part of a path at the API server; what is no name of an object must not.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


class BridgeNews(Memory):
    """The memory as far as bridges feed it."""

    def bridge_event(self, instance: Key, pod_uid: str, event: Event) -> None:
        """Take in one event of a bridge's stream."""
        entry = self._instances[instance]
        match event:
            case Reset(queue_id=queue_id):
                stats = entry.bridge.stats if entry.bridge.pod_uid == pod_uid else None
                self._forget_unclaimed(instance)
                entry.views.clear()
                for key in entry.open_requests:
                    self._place(entry, key)
                since = entry.bridge.lost_since or self._clock()
                entry.bridge = BridgeView(
                    connected=False, pod_uid=pod_uid, queue_id=queue_id, stats=stats, lost_since=since
                )
            case RequestView():
                self._observe_view(instance, event)
            case Stats():
                # The first figures close the list that follows a reset: from here on the picture is whole.
                changed = not entry.bridge.connected or _disk_problem(entry.bridge.stats) != _disk_problem(event)
                if _shows_work(entry, event):
                    entry.last_activity = self._clock()
                entry.bridge = replace(
                    entry.bridge,
                    connected=True,
                    pod_uid=pod_uid,
                    queue_id=event.queue_id,
                    stats=event,
                    problem=None,
                    lost_since=None,
                )
                self._look_instance(instance)
                if changed:
                    self._look_waiting(instance)
                    self._look_unbound(instance[0])
                else:
                    self._look_held_back(instance, event)

    def bridge_lost(self, instance: Key, pod_uid: str, problem: str) -> None:
        """Take in that a bridge cannot be reached."""
        entry = self._instances[instance]
        known, pod = entry.bridge, entry.own_pod.uid if entry.own_pod else None
        # The present pod's bridge may fail before it was ever heard of.
        if pod_uid not in (known.pod_uid, pod) and known.pod_uid is not None:
            return
        if known.connected or (known.pod_uid, known.problem) != (pod_uid, problem):
            since = known.lost_since if not known.connected and known.pod_uid == pod_uid else None
            entry.bridge = replace(
                known, connected=False, pod_uid=pod_uid, problem=problem, lost_since=since or self._clock()
            )
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

    def unclaimed(self, key: Key) -> tuple[Key, str] | None:
        """Return (instance, uid) of work on a bridge whose request is not known here."""
        return self._unclaimed.get(key)

    def claim(self, key: Key) -> None:
        """Forget unclaimed work that was looked into."""
        self._unclaimed.pop(key, None)

    def _forget_unclaimed(self, instance: Key) -> None:
        """Forget the unclaimed work of an instance: its bridge tells of it anew, or never again."""
        for uid, view in self._instances[instance].views.items():
            key = instance[0], str((view.metadata or {}).get("name"))
            if self._unclaimed.get(key) == (instance, uid):
                del self._unclaimed[key]
                if key not in self._requests:
                    self._queue.forget(WorkKey(EfritRequest.kind, *key))

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
        key = self._keys.get(view.id)
        if key is None:
            self._observe_unknown(instance, view)
            return
        record = self._requests[key]
        if not record.may_be_on(instance):
            log.debug("%s/%s tells of %s/%s, which is none of its requests", *instance, *key)
            return
        views[view.id] = view
        # Outlives the views, which go when the bridge starts over: a replaced queue is then noticed.
        record.handover = Handover(self._instances[instance].bridge.queue_id or "")
        if key in self._instances[instance].open_requests:
            self._place(self._instances[instance], key)
        self._look_request(key)

    def _observe_unknown(self, instance: Key, view: RequestView) -> None:
        """Keep what is needed of work whose request is not known: it may have been deleted, or not be seen yet."""
        entry = self._instances[instance]
        most = MOST_UNKNOWN + (entry.instance.spec.queue.max_pending if entry.instance else 0)
        if view.id not in entry.views and len(entry.views) >= most:
            log.debug("%s/%s tells of more than %d requests: %s is not kept", *instance, most, view.id)
            return
        origin = view.metadata or {}
        name, namespace = origin.get("name"), origin.get("namespace")
        ours = isinstance(name, str) and _NAME.fullmatch(name) is not None and namespace == instance[0]
        # Its answer is fetched should the request turn up.
        kept = {"response": None, "metadata": {"name": name, "namespace": namespace} if ours else None}
        entry.views[view.id] = view.model_copy(update=kept)
        if ours:
            self._unclaimed[instance[0], str(name)] = (instance, view.id)
            work = WorkKey(EfritRequest.kind, instance[0], str(name))
            self._queue.add_after(work, UNCLAIMED_GRACE.total_seconds())


def _disk_problem(stats: Stats | None) -> DiskProblem | None:
    return stats.disk.problem if stats is not None and stats.disk is not None else None


def _shows_work(entry: InstanceRecord, stats: Stats) -> bool:
    """Whether figures tell of work now, or of answers since they were last heard or written."""
    known = entry.bridge.stats
    if known is not None:
        processed = known.processed
    else:
        told = entry.instance.status.queue if entry.instance is not None else None
        processed = told.processed if told is not None else 0
    return stats.pending > 0 or stats.processing > 0 or stats.processed != processed
