"""What bridges report: whether they are connected, who has which request, what became of it."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from efrit.api import EfritInstance, EfritRequest
from efrit.controller import metrics
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.model.snapshots import Handover
from efrit.controller.model.views import BridgeView, emacs_takes_work
from efrit.controller.store.held_answers import HeldAnswer
from efrit.controller.store.index import Index, Orphan
from efrit.controller.store.instance_record import InstanceRecord
from efrit.controller.store.request_record import RequestRecord, is_outdated
from efrit.protocol import RequestState
from efrit.protocol.events import Event, Reset
from efrit.protocol.view import DiskProblem, RequestView, Stats

log = logging.getLogger(__name__)

ORPHAN_GRACE = timedelta(seconds=3)
"""How long the watch may need to report a request that a bridge has; after that the API server is asked."""
MAX_EARLY_INSTANCES = 16
MAX_EARLY_ANSWERS = 4
"""Answers to unknown requests that are looked into at once, of each of so many instances: while the first list of a
namespace is read, the request of an answer may be its last one."""
FIGURES_SECONDS = 0.5
"""An instance is reconciled this often at most because of figures alone."""
MAX_UNKNOWN = 10_000
"""Views kept of one bridge beyond what its queue takes: a bridge that makes them up must not fill the memory."""

# It becomes part of a path at the API server; what is not a name of an object must not.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


class BridgeEvents:
    """Takes in the event streams of the bridges and their replies to calls."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._early = Counter[Key]()
        """Answers of each instance that were looked into at once."""

    def event(self, instance: Key, pod_uid: str, event: Event) -> None:
        """Take in one event of a bridge's stream."""
        entry = self._index.instances[instance]
        match event:
            case Reset(queue_id=queue_id):
                stats = entry.bridge.stats if entry.bridge.pod_uid == pod_uid else None
                self._index.forget_orphans(instance)
                for uid in entry.views:
                    self._index.answers.discard(HeldAnswer(instance, uid))
                entry.views.clear()
                for key in entry.open_requests:
                    self._index.place(entry, key)
                since = entry.bridge.lost_since or self._index.clock()
                entry.bridge = BridgeView(
                    connected=False,
                    pod_uid=pod_uid,
                    queue_id=queue_id,
                    stats=stats,
                    unresponsive=entry.bridge.unresponsive,
                    lost_since=since,
                )
            case RequestView():
                if entry.views.get(event.id) != event:
                    self.view(instance, event)
            case Stats():
                # The first figures close the list that follows a reset: from here on the picture is whole.
                changed = not entry.bridge.connected or _disk_problem(entry.bridge.stats) != _disk_problem(event)
                begins_work = emacs_takes_work(event) and not entry.bridge.takes_work
                if _shows_work(entry, event):
                    entry.facts = replace(entry.facts, last_activity=self._index.clock())
                entry.bridge = replace(
                    entry.bridge,
                    connected=True,
                    pod_uid=pod_uid,
                    queue_id=event.queue_id,
                    stats=event,
                    problem=None,
                    lost_since=None,
                )
                if changed:
                    # All that waits for an instance waits for what it writes then.
                    self._index.requeue_instance(instance, first=bool(entry.open_requests))
                    self._index.requeue_waiting(instance)
                else:
                    self._requeue_for_figures(instance, entry)
                    self._index.requeue_held_back(instance, event)
                if changed or begins_work:  # gate: emacs-begins-work
                    self._index.requeue_unbound(instance[0])
                    self._index.pool_lines.requeue_for_member(instance)

    def _requeue_for_figures(self, instance: Key, entry: InstanceRecord) -> None:
        """Have an instance reconciled for its figures: a bridge reports them as often as it likes."""
        now = self._index.monotonic()
        if entry.figures_taken > now:
            return
        entry.figures_taken = max(now, entry.figures_taken + FIGURES_SECONDS)
        self._index.queue.add_after(WorkKey(EfritInstance.kind, *instance), entry.figures_taken - now)

    def bridge_lost(self, instance: Key, pod_uid: str, problem: str) -> None:
        """Take in that a bridge cannot be reached."""
        entry = self._index.instances[instance]
        bridge, pod = entry.bridge, entry.own_pod.uid if entry.own_pod else None
        # The present pod's bridge may fail before anything of it was received.
        if pod_uid not in (bridge.pod_uid, pod) and bridge.pod_uid is not None:
            return
        if bridge.connected or (bridge.pod_uid, bridge.problem) != (pod_uid, problem):
            since = bridge.lost_since if not bridge.connected and bridge.pod_uid == pod_uid else None
            entry.bridge = replace(
                bridge, connected=False, pod_uid=pod_uid, problem=problem, lost_since=since or self._index.clock()
            )
            self._index.requeue_instance(instance)

    def bridge_responsive(self, instance: Key, problem: str | None) -> None:
        """Take in that a bridge does not answer calls, and why; None: that it does again."""
        entry = self._index.instances.get(instance)
        if entry is not None and entry.bridge.unresponsive != problem:
            entry.bridge = replace(entry.bridge, unresponsive=problem)
            self._index.requeue_instance(instance)

    def bridge_disconnected(self, instance: Key) -> None:
        """Take in that nobody is connected to an instance on purpose."""
        entry = self._index.instances.get(instance)
        if entry is not None and entry.bridge.pod_uid is not None:
            entry.bridge = BridgeView(queue_id=entry.bridge.queue_id)
            self._index.requeue_instance(instance)

    def request_submitted(self, instance: Key, view: RequestView) -> None:
        """Take in the reply to a hand-over: of what is queued nothing is to be said before it has waited a while."""
        key = self._index.request_keys.get(view.id)
        if key is None or view.state != RequestState.QUEUED:
            self.view(instance, view)
        elif self._record_view(instance, key, view):
            work = WorkKey(EfritRequest.kind, *key)
            self._index.queue.add_after(work, self._index.config.queued_after.total_seconds())

    def view(self, instance: Key, view: RequestView) -> None:
        """Take in what a bridge said of one request."""
        key = self._index.request_keys.get(view.id)
        if key is None:
            if not self._is_outdated(instance, view):
                self._observe_unknown(instance, view)
        elif self._record_view(instance, key, view):
            pause = self._pause(self._index.requests[key], view)
            if pause is not None:
                self._index.queue.add_after(WorkKey(EfritRequest.kind, *key), pause.total_seconds())
            else:
                # Somebody waits for an answer; after a start, thousands that are not begun may be ahead of it.
                self._index.requeue_request(key, first=view.state.final)

    def _pause(self, record: RequestRecord, view: RequestView) -> timedelta | None:
        """Return for how long nothing is decided about a request that is on its way; None where something may be.

        Short work is over before its status says more. What a pool waits for is decided at once.
        """
        if record.packed.cancelled or record.packed.pool is not None or not record.open:  # gate: pause-of-open
            return None
        if view.state == RequestState.QUEUED and record.submitting:
            # As the reply to the hand-over, which is under way.
            return self._index.config.queued_after
        if view.state == RequestState.RUNNING and view.progress is None:
            return self._index.config.running_after
        return None

    def _is_outdated(self, instance: Key, view: RequestView) -> bool:
        recorded = self._index.instances[instance].views.get(view.id)
        return recorded is not None and is_outdated(view, recorded)

    def _record_view(self, instance: Key, key: Key, view: RequestView) -> bool:
        """Take in a view of a request that is known; return whether it differs from the one before."""
        views = self._index.instances[instance].views
        if self._is_outdated(instance, view):
            return False
        record = self._index.requests[key]
        if not record.may_be_on(instance):
            log.debug("%s/%s reported %s/%s, which is not one of its requests", *instance, *key)
            return False
        # Whose it is, is known: what else a bridge says about that could be of any size.
        origin = {"name": key[1], "namespace": key[0]} if view.metadata is not None else None
        views[view.id] = structs.replace(view, metadata=origin)
        self._hold_answer(HeldAnswer(instance, view.id), view)
        self._index.contents.discard(record.uid)
        _clear_failure(record, view)
        # Outlives the views, which go when the bridge starts over: a replaced queue is then noticed.
        given_back = view.response is not None and view.response.is_given_back
        record.handover = Handover(self._index.instances[instance].bridge.queue_id or "", absent=given_back)
        if given_back:
            record.may_have_arrived = False
        if view.state == RequestState.RUNNING:
            self._index.pool_lines.begun(record)
        if key in self._index.instances[instance].open_requests:
            self._index.place(self._index.instances[instance], key)
        return True

    def _hold_answer(self, answer: HeldAnswer, view: RequestView) -> None:
        """Count an answer, and drop older ones that have no room beside it: they are read again."""
        if view.response is None:
            self._index.answers.discard(answer)
            return
        for dropped in self._index.answers.hold(answer, view.response):
            views = self._index.instances[dropped.instance].views
            if dropped.uid in views:
                views[dropped.uid] = structs.replace(views[dropped.uid], response=None)
            metrics.BUDGET_WAITS.labels("answers").inc()

    def answer_acknowledged(self, instance: Key, uid: str) -> None:
        """Forget an answer that is stored."""
        view = self._index.instances[instance].views.pop(uid, None)
        self._index.answers.discard(HeldAnswer(instance, uid))
        key = self._index.request_keys.get(uid)
        if key is not None:
            # With one that is over all is done in the same reconciliation, or once it leaves the watched selection.
            record = self._index.requests[key]
            if record.open:
                if record.handover is not None and record.handover.absent:
                    # It is as if it had never been handed over.
                    record.handover = None
                    self._index.place(self._index.instances[instance], key)
                self._index.requeue_request(key)
        elif view is not None:
            self._index.forget_orphan(instance, view)

    def orphans(self, request: Key) -> list[Orphan]:
        """Return the work on bridges whose requests of this key are not known here, of connected bridges first.

        A bridge that cannot be reached must not keep the others waiting.
        """
        orphans = self._index.orphans.get(request, ())
        return sorted(orphans, key=lambda orphan: not self._is_connected(orphan.instance))

    def orphan_settled(self, request: Key, instance: Key, uid: str) -> None:
        """Forget orphaned work that was looked into."""
        self._index.discard_orphan(request, Orphan(instance, uid))

    def _is_connected(self, instance: Key) -> bool:
        entry = self._index.instances.get(instance)
        return entry is not None and entry.bridge.connected

    def _observe_unknown(self, instance: Key, view: RequestView) -> None:
        """Keep what is needed of work whose request is not known: it may have been deleted, or not be seen yet."""
        entry = self._index.instances[instance]
        limit = MAX_UNKNOWN + (entry.instance.spec.queue.max_pending if entry.instance else 0)
        recorded = entry.views.get(view.id)
        if recorded is not None:
            self._index.forget_orphan(instance, recorded)
        elif len(entry.views) >= limit:
            log.debug("%s/%s reported more than %d requests: %s is not kept", *instance, limit, view.id)
            return
        origin = view.metadata or {}
        name, namespace = origin.get("name"), origin.get("namespace")
        ours = isinstance(name, str) and _NAME.fullmatch(name) is not None and namespace == instance[0]
        # Its answer is fetched should the request turn up.
        metadata = {"name": name, "namespace": namespace} if ours else None
        entry.views[view.id] = structs.replace(view, response=None, metadata=metadata)
        if ours:
            self._index.add_orphan((instance[0], str(name)), Orphan(instance, view.id))
            work = WorkKey(EfritRequest.kind, instance[0], str(name))
            if view.state.final and self._may_look_early(instance):
                self._index.queue.add(work, first=True)  # gate: early-answer
            else:
                self._index.queue.add_after(work, ORPHAN_GRACE.total_seconds())

    def _may_look_early(self, instance: Key) -> bool:
        """Return whether one more answer to an unknown request is looked into at once, and count it."""
        if self._index.is_listed(instance[0]) or self._early[instance] >= MAX_EARLY_ANSWERS:
            return False
        if instance not in self._early and len(self._early) >= MAX_EARLY_INSTANCES:
            return False
        self._early[instance] += 1
        return True


def _clear_failure(record: RequestRecord, view: RequestView) -> None:
    """Forget the failing action of a request whose bridge answers; an answer without its text is still to be read."""
    if record.failure is None or record.failure.action == "StoreResult":
        return
    if not (view.state.final and view.response is None):
        record.failure = None


def _disk_problem(stats: Stats | None) -> DiskProblem | None:
    return stats.disk.problem if stats is not None and stats.disk is not None else None


def _shows_work(entry: InstanceRecord, stats: Stats) -> bool:
    """Return whether figures show work now, or of answers since they were last heard or written."""
    last_stats = entry.bridge.stats
    if last_stats is not None:
        processed = last_stats.processed
    else:
        reported = entry.instance.status.queue if entry.instance is not None else None
        processed = reported.processed if reported is not None else 0
    return stats.pending > 0 or stats.processing > 0 or stats.processed != processed
