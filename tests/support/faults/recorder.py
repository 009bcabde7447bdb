"""Watches the objects of one namespace straight at the API server, independently of the controller's connection.

A watch continues from the last version it had when its own connection breaks. Where the API server cannot go back
that far (410 Gone) it lists, marks what it finds as LISTED, and notes the gap.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from efrit.errors import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.support.faults.history import FINAL_PHASES, REMOVED, ObjectVersion, RequestVersion
from tests.support.faults.pool_workload import BROKEN_IMAGE
from tests.support.kube import Events, Kube
from tests.support.timeout import TIMEOUT

RETRY_SECONDS = 0.1
FINAL_CLAIMS = ("Expired", "Released")
GONE = 410


class Watcher(ABC):
    """One list and watch in a thread of its own; a subclass says what to keep."""

    def __init__(self, plane: ControlPlane, plural: str, namespace: str, clock: Callable[[], float]) -> None:
        self._where = plural, namespace
        self._kube = Kube(plane)
        self._clock = clock
        self._lock = threading.Lock()
        self._watch_gaps: list[float] = []
        self._position = ""
        self._events: Events | None = None
        self._stopping = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"recorder of {plural}", daemon=True)

    def start(self) -> None:
        """Start the thread. Return once no later change can be missed."""
        self._thread.start()
        if not self._listening.wait(TIMEOUT):
            raise AssertionError("the recorder does not reach the API server")

    def close(self) -> None:
        """End the thread and its connection."""
        self._stopping.set()
        if self._events is not None:
            self._events.end()
        self._thread.join(10)
        self._kube.close()

    @property
    def watch_gaps(self) -> tuple[float, ...]:
        """When the recorder had to list again, in seconds since the start of the run."""
        with self._lock:
            return tuple(self._watch_gaps)

    @abstractmethod
    def _note(self, event: str, obj: dict[str, Any]) -> None:
        """Keep one version of an object."""

    @abstractmethod
    def _note_missing(self, listed: set[str]) -> None:
        """Note what a list after a gap has no more; `listed`: the UIDs it has."""

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._position:
                    self._list()
                self._listening.set()
                self._watch()
            except (ApiError, ValueError) as error:
                if isinstance(error, ApiError) and error.status == GONE:
                    self._position = ""
                    with self._lock:
                        self._watch_gaps.append(self._clock())
                    continue
                # A connection may end within a line: what it was of is sent again from the position before it.
                self._stopping.wait(RETRY_SECONDS)

    def _list(self) -> None:
        body = self._kube.call("GET", self._kube.path(*self._where))
        for item in body["items"]:
            self._note("LISTED", item)
        self._position = body["metadata"]["resourceVersion"]
        self._note_missing({item["metadata"]["uid"] for item in body["items"]})

    def _watch(self) -> None:
        # The API server sends a bookmark every minute at least: a silence longer than that is a dead connection.
        with self._kube.events(*self._where, allowWatchBookmarks="true", resourceVersion=self._position) as events:
            self._events = events
            for event in events:
                if event["type"] != "BOOKMARK":
                    self._note(event["type"], event["object"])
                self._position = event["object"]["metadata"]["resourceVersion"]


class RequestRecorder(Watcher):
    """The requests of a namespace. Start it before the first is created; read it from any thread."""

    def __init__(self, plane: ControlPlane, namespace: str, clock: Callable[[], float]) -> None:
        super().__init__(plane, "efritrequests", namespace, clock)
        self._versions: list[RequestVersion] = []
        self._final: dict[str, RequestVersion] = {}
        self._latest: dict[str, RequestVersion] = {}

    @property
    def versions(self) -> tuple[RequestVersion, ...]:
        """Every version so far, in the order of observation."""
        with self._lock:
            return tuple(self._versions)

    @property
    def final(self) -> Mapping[str, RequestVersion]:
        """Return the first final version of each request, by UID."""
        with self._lock:
            return dict(self._final)

    @property
    def latest(self) -> Mapping[str, RequestVersion]:
        """Return the newest version of each request, by UID."""
        with self._lock:
            return dict(self._latest)

    def _note_missing(self, listed: set[str]) -> None:
        with self._lock:
            for uid, version in self._latest.items():
                if uid not in listed and version.event not in REMOVED:
                    # What it became after this version is unknown.
                    unseen = replace(version, at=self._clock(), event="UNSEEN", resource_version=int(self._position))
                    self._versions.append(unseen)
                    self._latest[uid] = unseen

    def _note(self, event: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        version = RequestVersion(
            at=self._clock(),
            event=event,
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            status=obj.get("status", {}),
            cancel=bool(obj["spec"].get("cancel")),
        )
        with self._lock:
            self._versions.append(version)
            self._latest[version.uid] = version
            if version.final:
                self._final.setdefault(version.uid, version)


class ObjectRecorder(Watcher):
    """Objects of one kind in a namespace, reduced to what the invariants are about."""

    def __init__(self, plane: ControlPlane, plural: str, namespace: str, clock: Callable[[], float]) -> None:
        super().__init__(plane, plural, namespace, clock)
        self._plural = plural
        self._versions: list[ObjectVersion] = []

    @property
    def versions(self) -> Sequence[ObjectVersion]:
        """Every version so far, in the order of observation."""
        with self._lock:
            return tuple(self._versions)

    def _note_missing(self, listed: set[str]) -> None:
        """Do nothing: what was deleted unobserved is not judged."""

    def _note(self, event: str, obj: dict[str, Any]) -> None:
        meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
        homes = {
            "efritinstances": meta["name"],
            "statefulsets": meta.get("labels", {}).get("efrit.dev/instance", ""),
            "efritplans": status.get("instanceName") or spec.get("instanceRef", {}).get("name", ""),
            "efritpools": "",
            "efritclaims": status.get("instanceName", ""),
        }
        scaling = spec.get("autoscaling", {})
        replicas = spec.get("replicas", 0)
        owner: dict[str, Any] = next((one for one in meta.get("ownerReferences", ()) if one.get("controller")), {})
        ready = next((one["status"] for one in status.get("conditions", ()) if one["type"] == "Ready"), "")
        template = spec.get("template", {}).get("spec", {}) if self._plural == "efritpools" else spec
        revision = meta.get("labels", {}).get("efrit.dev/pool-revision", "")
        version = ObjectVersion(
            at=self._clock(),
            event=event,
            kind=self._plural,
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            instance=homes[self._plural],
            mode=str(spec.get("operatingMode", "")),
            replicas=int(replicas),
            suspended=bool(spec.get("suspend")),
            final=status.get("phase") in (*FINAL_PHASES, *FINAL_CLAIMS),
            owner=f"{owner['kind']}/{owner['name']}" if owner else "",
            owner_uid=owner.get("uid", ""),
            instance_uid=status.get("instanceUID", ""),
            revision=revision or status.get("revision", ""),
            ready=ready == "True",
            asleep=status.get("suspendedIdle") is True,
            smallest=int(scaling.get("minReplicas", replicas)),
            largest=int(scaling.get("maxReplicas", replicas)),
            phase=status.get("phase", ""),
            broken=template.get("emacs", {}).get("image") == BROKEN_IMAGE,
        )
        with self._lock:
            self._versions.append(version)
