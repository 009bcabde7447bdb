"""A small world for all orders in which a request may be handed over, cancelled, and its parts restarted.

The store and the decisions are the real ones; API server, queue and pod are a few fields. One request, one instance.
What may happen next is `World.steps`; each step is a function of the world alone, so that all orders can be tried.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from efrit.controller.decide.handover import is_away, next_handover
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import CancelWork, ConfirmHandover, PatchStatus, Submit
from efrit.controller.store.store import Store
from efrit.protocol import RequestReason, RequestState
from efrit.protocol.events import Reset
from efrit.protocol.view import RequestView
from tests.support.factory import (
    CONFIG,
    NOW,
    OWNED,
    POD_UID,
    QUEUE_ID,
    Json,
    answered,
    instance_json,
    request_json,
    seconds,
    statefulset_json,
    stats,
    view,
)

INSTANCE = ("team", "alpha")
WORK = ("team", "work")
UID = "uid-work"
OTHER = "of another process"
LATER = NOW + seconds(60)

Step = Callable[["World"], None]


class _NoQueue:
    """A work queue for a test that itself chooses what is reconciled."""

    def add(self, key: object, *, first: bool = False, awaited: bool = False) -> None: ...

    def add_all(self, kind: str, namespace: str, keys: object) -> None: ...

    def add_after(self, key: object, seconds: float) -> None: ...

    def forget(self, key: object) -> None: ...

    def is_loaded(self, namespace: str) -> bool:
        return False


def _now() -> datetime:
    return NOW


@dataclass
class World:
    """What is stored, what is on the queue, what this process remembers, and what is under way."""

    instance: Json = field(default_factory=lambda: instance_json(version="100"))
    request: Json = field(default_factory=lambda: request_json(version="200"))
    created: bool = False
    store: Any = None
    pod: bool = False
    connected: bool = False
    delivered: bool = False
    declined: bool = False
    submitting: Submit | None = None
    on_the_way: bool = False
    """A hand-over that was sent and may arrive at any time, whoever sent it."""
    delayed: tuple[PatchStatus, ...] = ()
    """Writes of the instance whose sender has given them up."""
    restarts: int = 0
    losses: int = 0
    starts: int = 0
    other: bool = False
    """Whether another process leads as well, which may open the instance and hand the request over."""

    def copy(self) -> World:
        """Return a world of its own; what nothing changes (resources, views) is shared."""
        made = copy.copy(self)
        made.store = _copied(self.store)
        return made

    def drop(self) -> None:
        """Free what nobody looks at again: its parts know each other, and the collector takes longer to find them."""
        vars(self.store._index).clear()

    # What may happen.

    def steps(self) -> list[tuple[str, Step]]:
        """Return what may happen next, by name."""
        if self.final:
            return [("arrive", World.arrive)] if self.on_the_way else []
        steps: list[tuple[str, Step]] = [("decide instance", World.decide_instance)]
        if not self.created:
            steps.append(("create", World.create))
        elif self.submitting is None:
            steps.append(("decide request", World.decide_request))
        if self.submitting is not None:
            steps += [("returns", World.returns), ("lost", World.lost)]
        if self.on_the_way and self.pod:
            steps.append(("arrive", World.arrive))
        if self.created and not self.request["spec"].get("cancel"):
            steps.append(("cancel", World.cancel))
        if self.restarts < 2:
            steps.append(("restart", World.restart))
        if self.losses < 1:
            steps += [("write lost", World.write_is_lost), ("write delayed", World.write_is_delayed)]
        if self.delayed:
            steps.append(("delayed write", World.delayed_write))
        if self.pod and not self.connected:
            steps.append(("connect", World.connect))
        if self.other and self.pod:
            if not self._other_opened:
                steps.append(("other opens", World.other_opens))
            elif self.created and not self.request["spec"].get("cancel"):
                steps.append(("other hands over", World.other_hands_over))
        if self.other:
            steps.append(("watch", World.watch))
        if self.pod:
            steps.append(("pod goes", World.pod_goes))
        elif self.starts < 2:
            steps.append(("pod comes", World.pod_comes))
        return steps

    @property
    def _other_opened(self) -> bool:
        return bool(self.instance["status"].get("handover", {}).get("id") == OTHER)

    @property
    def final(self) -> bool:
        """Whether the request has its final status."""
        return self.request["status"].get("phase") in ("Succeeded", "Failed")

    def broken(self) -> str | None:
        """Return which promise is broken, None where all are kept."""
        never_ran = self.final and "startTime" not in self.request["status"]
        return "it was handed over, its status says that it never ran" if never_ran and self.delivered else None

    def fingerprint(self) -> tuple[object, ...]:
        """Return what tells this world from others, as far as it matters."""
        record = self.store._index.requests.get(WORK)
        target = self.store._index.instances[INSTANCE]
        handover = target.instance.status.handover if target.instance else None
        stored = self.instance["status"].get("handover", {})
        mine = target.facts.handover_id
        return (
            self.created,
            self.pod,
            self.connected,
            self.delivered,
            self.declined,
            self.submitting is not None and self.submitting.handover_id == mine,
            self.submitting is not None,
            self.on_the_way,
            tuple(
                version.resource_version == self.instance["metadata"]["resourceVersion"] for version in self.delayed
            ),
            tuple(version.status["handover"]["state"] for version in self.delayed),
            (self.restarts, self.losses, self.starts),
            (stored.get("state"), stored.get("id") == mine),
            handover and (handover.state, handover.id == mine),
            target.instance is not None
            and target.instance.metadata.resource_version == self.instance["metadata"]["resourceVersion"],
            (target.facts.closed_before, target.facts.opened_by_other, self._other_opened),
            self.request["spec"].get("cancel"),
            self.request["status"].get("handover"),
            self.request["status"].get("phase"),
            self.request["status"].get("queueID"),
            record and (record.handover, record.submitting, record.listed_at_start),
            UID in target.views,
        )

    # The cluster.

    def create(self) -> None:
        self.created = True
        self.store.requests.observe(self.request)

    def cancel(self) -> None:
        self._write_request(spec={"cancel": True})

    def pod_comes(self) -> None:
        self.pod, self.starts = True, self.starts + 1
        self.store.children.observe_statefulset(statefulset_json())
        self.store.children.observe_pod(_pod())

    def pod_goes(self) -> None:
        self.pod = self.connected = False
        self.store.children.forget_pod(_pod())
        self.store.bridges.bridge_disconnected(INSTANCE)

    def connect(self) -> None:
        """Let the bridge tell the whole picture."""
        self.connected = True
        views = [self._view()] if self.delivered or self.declined else []
        for event in (Reset(queue_id=QUEUE_ID, epoch="e"), *views, stats()):
            self.store.bridges.event(INSTANCE, POD_UID, event)

    def arrive(self) -> None:
        """Let what was sent reach the queue."""
        self.on_the_way = False
        self.delivered = self.delivered or not self.declined

    # The other leader.

    def other_opens(self) -> None:
        """Let another open it; the watch tells of it later."""
        self._store_handover({"state": "Open", "id": OTHER})

    def other_hands_over(self) -> None:
        self.on_the_way = True

    def watch(self) -> None:
        """Let the watch of instances tell what is stored."""
        self.store.instances.observe(self.instance)

    # The controller.

    def restart(self) -> None:
        """Kill the process; the next one lists everything before it decides."""
        self.restarts += 1
        self.submitting = None
        self.store = Store(_NoQueue(), CONFIG, _now)  # type: ignore[arg-type]
        self.connected = False
        if self.pod:
            self.store.children.observe_statefulset(statefulset_json())
            self.store.children.observe_pod(_pod())
        self.store.instances.observe(self.instance)
        if self.created:
            self.store.requests.observe(self.request)
        self.store.first_list_complete(None)

    def decide_request(self) -> None:
        """Decide about the request and carry it out; a hand-over only begins here."""
        snapshot = self.store.requests.snapshot(WORK)
        for action in decide_request(snapshot, LATER):
            match action:
                case Submit():
                    if not self.store.handovers.submit_begins(INSTANCE, WORK, UID, action.handover_id):
                        return
                    self.submitting, self.on_the_way = action, True
                case ConfirmHandover():
                    handover = action.handover.to_wire() if action.handover else None
                    self.store.instances.observe(self.instance)
                    if self.instance["status"].get("handover") != handover:
                        return
                case CancelWork():
                    self.declined = True
                    self.store.bridges.view(INSTANCE, self._view())
                case PatchStatus():
                    if action.resource_version != self.request["metadata"]["resourceVersion"]:
                        self.store.requests.observe(self.request)
                        return
                    self._write_request(status=dict(action.status))

    def returns(self) -> None:
        """Let the bridge have the request and say so, if it is there."""
        if not self.connected:
            self.lost()
            return
        if self.on_the_way:
            self.arrive()
        self.store.bridges.request_submitted(INSTANCE, self._view())
        self.store.handovers.submit_ended(INSTANCE, WORK, UID)
        self.submitting = None

    def lost(self) -> None:
        """Let the bridge not answer; the request may have arrived, or arrive later."""
        self.store.handovers.handed_over(INSTANCE, WORK, UID)
        self.store.handovers.submit_ended(INSTANCE, WORK, UID)
        self.submitting = None

    def decide_instance(self) -> None:
        """Decide what is recorded of the instance, and write it."""
        patch = self._instance_patch()
        if patch is not None:
            self._apply(patch)
            self.store.instances.observe(self.instance)

    def write_is_lost(self) -> None:
        """Do the write, and let nobody say so."""
        patch = self._instance_patch()
        if patch is not None:
            self.losses += 1
            self._apply(patch)

    def write_is_delayed(self) -> None:
        """Let the sender give up the write, which is done later."""
        patch = self._instance_patch()
        if patch is not None:
            self.losses += 1
            self.delayed = (*self.delayed, patch)

    def delayed_write(self) -> None:
        """Do what was given up, if nothing else was written; the watch tells of it."""
        patch, *rest = self.delayed
        self.delayed = tuple(rest)
        self._apply(patch)
        self.store.instances.observe(self.instance)

    # Inside.

    def _instance_patch(self) -> PatchStatus | None:
        snapshot = self.store.instances.snapshot(INSTANCE, deciding=True)
        new, old = next_handover(snapshot), snapshot.instance.status.handover
        if new == old or new is None:
            return None
        if is_away(snapshot) and not self.store.handovers.close_begins(INSTANCE):
            return None
        meta = snapshot.instance.metadata
        status = {"handover": new.to_wire()}
        return PatchStatus("EfritInstance", INSTANCE, meta.uid, meta.resource_version, status)

    def _apply(self, patch: PatchStatus) -> None:
        meta = self.instance["metadata"]
        same = self.instance["status"].get("handover") == patch.status["handover"]
        if patch.resource_version != meta["resourceVersion"] or same:
            return
        self._store_handover(dict(patch.status["handover"]))

    def _store_handover(self, handover: Json) -> None:
        meta = self.instance["metadata"]
        meta = {**meta, "resourceVersion": str(int(meta["resourceVersion"]) + 1)}
        self.instance = {**self.instance, "metadata": meta, "status": {"handover": handover}}

    def _write_request(self, *, spec: Json | None = None, status: Json | None = None) -> None:
        meta = self.request["metadata"]
        self.request = {
            **self.request,
            "metadata": {**meta, "resourceVersion": str(int(meta["resourceVersion"]) + 1)},
            "spec": {**self.request["spec"], **(spec or {})},
            "status": self.request["status"] if status is None else status,
        }
        self.store.requests.observe(self.request)

    def _view(self) -> RequestView:
        if self.delivered:
            return answered(result="2") if self.declined else view(state=RequestState.RUNNING, attempt=1)
        return answered(reason=RequestReason.CANCELLED, started=None, attempt=0)


def first_world() -> World:
    """Return the world with an instance that has never had a pod."""
    world = World()
    world.restart()
    return replace(world, restarts=0)


def _copied(store: Store) -> Store:
    made = Store(_NoQueue(), CONFIG, _now)  # type: ignore[arg-type]
    new, old = made._index, store._index
    for key, record in old.instances.items():
        new.instances[key] = entry = copy.copy(record)
        for name in ("claims", "views", "open_requests", "recorded_requests", "children_seen"):
            setattr(entry, name, getattr(record, name).copy())
        entry.backlog = _with_own_parts(record.backlog)
    new.requests.update({key: copy.copy(record) for key, record in old.requests.items()})
    for name in ("request_keys", "_listed"):
        setattr(new, name, getattr(old, name).copy())
    new.labels = _with_own_parts(old.labels)
    new.labels._keys = {label: set(keys) for label, keys in old.labels._keys.items()}
    new.tombstones = _with_own_parts(old.tombstones)
    new.orphans = {key: dict(orphans) for key, orphans in old.orphans.items()}
    new.unbound.update({key: set(value) for key, value in old.unbound.items()})
    new.queue, new.started, new.rollouts = old.queue, old.started, old.rollouts
    return made


def _with_own_parts(original: Any) -> Any:
    """Return a copy of what has lists and dicts alone; what is in them is shared, as nothing changes it."""
    made = object.__new__(type(original))
    for name, part in vars(original).items():
        setattr(made, name, part.copy())
    return made


def _pod() -> Json:
    labels = {"efrit.dev/instance": "alpha"}
    meta = {"name": "efrit-alpha-0", "namespace": "team", "uid": POD_UID, "labels": labels, **OWNED}
    return {"kind": "Pod", "metadata": meta, "spec": {}, "status": {"phase": "Running", "podIP": "127.0.0.1"}}
