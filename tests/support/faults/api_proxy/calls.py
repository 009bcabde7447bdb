"""What a controller asks of the API server: HTTP requests parsed into verb, resource and object, and their log.

Pure but for the log; rules.py says which fault a call gets, proxy.py injects it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from efrit.kube.media_types import APPLY_PATCH

Json = dict[str, Any]

READS = ("get", "list", "watch")
OPERATIONS = "operations"
"""Where the body of a call has the list that a JSON patch is."""


@dataclass(frozen=True)
class Target:
    """What a request is about, in the terms of RBAC; `apply` is a verb of its own here."""

    verb: str
    resource: str = ""
    sub: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def writes(self) -> bool:
        """Whether the API server changes something if it accepts the request."""
        return self.verb not in READS

    def __str__(self) -> str:
        what = f"{self.resource}/{self.sub}" if self.sub else self.resource
        return f"{self.verb} {what} {self.name}".strip()


def parse_target(method: str, path: str, query: Mapping[str, str], content_type: str = "") -> Target:
    """Parse a request line; paths outside of any collection (discovery, /version) have no resource."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, sub = (*rest[:3], "", "", "")[:3]
    return Target(_verb(method, bool(name), query, content_type), resource, sub, namespace, name)


def _verb(method: str, named: bool, query: Mapping[str, str], content_type: str) -> str:
    if method == "GET":
        watching = query.get("watch", "").lower() in ("1", "true")
        return "watch" if watching else "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    if method == "PATCH":
        return "apply" if content_type.startswith(APPLY_PATCH) else "patch"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())


@dataclass(frozen=True)
class Call:
    """One request as it passed."""

    number: int
    time: float
    """Seconds since the epoch at which it arrived."""
    target: Target
    manager: str = ""
    """Its fieldManager."""
    body: Json | None = None
    status: int | None = None
    """HTTP status of the API server's answer; None without one."""
    effect: str = ""
    """The effect that was injected, empty without one."""
    ended: float | None = None
    """Seconds since the epoch at which it was over."""


class CallLog:
    """The log, in order of arrival. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Call] = []

    def began(self, time: float, target: Target, manager: str, body: Json | None) -> int:
        """Log a call and return its number."""
        with self._lock:
            self._calls.append(Call(len(self._calls), time, target, manager, body))
            return len(self._calls) - 1

    def note(self, number: int, **facts: Any) -> None:
        """Add facts that came later."""
        with self._lock:
            self._calls[number] = replace(self._calls[number], **facts)

    def all(self) -> tuple[Call, ...]:
        """Return every call so far."""
        with self._lock:
            return tuple(self._calls)
