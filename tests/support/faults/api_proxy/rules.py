"""Which fault hits which call or watch event: data that a test or a schedule arms, and the matching.

Nothing here touches a connection: proxy.py injects faults into calls, streams.py into watch events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.support.faults.api_proxy.calls import Json, Target

FINAL = ("Succeeded", "Failed")
FOR_EVER = 0


class Effect(StrEnum):
    """What a fault does to a call, or to an event of a watch."""

    # Of a call.
    KILL_BEFORE_SEND = "kill-before-send"
    """The controller is killed, and the API server never gets the call."""
    KILL_AFTER_COMMIT = "kill-after-commit"
    """The API server has answered; the controller is killed without the answer."""
    KILL_AFTER_REPLY = "kill-after-reply"
    """The controller gets the answer, then it is killed."""
    LOST_REPLY = "lost-reply"
    """The API server has answered; the connection is reset instead of the answer."""
    RESET = "reset"
    """The connection is reset, and the API server never gets the call."""
    CONFLICT_409 = "conflict-409"
    TOO_MANY_429 = "too-many-429"
    ERROR_500 = "error-500"
    GONE_410 = "gone-410"
    """The HTTP status, as of a list or a watch that begins too far in the past."""
    DELAYED = "delayed"
    """Held for a while before the API server gets it."""
    STALE_AFTER_COMMIT = "stale-after-commit"
    """Committed and answered at once, but the watch of the resource shows nothing from there on for a while."""
    STALE_LIST = "stale-list"
    """A list is answered as of the resource version in `value`."""

    # Of an event of a watch that is under way.
    EVENT_DELAYED = "event-delayed"
    """The event and all that follow wait."""
    EVENT_DROPPED = "event-dropped"
    EVENT_DUPLICATED = "event-duplicated"
    EVENT_REORDERED = "event-reordered"
    """It is sent after the next event of another object, or after `seconds`."""
    STREAM_EXPIRED = "stream-expired"
    """The ERROR event 410 is sent instead of the event, and the stream ends."""
    STREAM_ENDED = "stream-ended"
    """The stream ends cleanly before the event."""
    STREAM_CUT = "stream-cut"
    """Half of the event, then the connection is reset."""
    STREAM_SILENT = "stream-silent"
    """No more bytes, until `seconds` are over or the proxy is healed."""


EVENT_EFFECTS = frozenset(effect for effect in Effect if effect.value.startswith(("event-", "stream-")))
WRITE_EFFECTS = (
    Effect.KILL_BEFORE_SEND,
    Effect.KILL_AFTER_COMMIT,
    Effect.KILL_AFTER_REPLY,
    Effect.LOST_REPLY,
    Effect.RESET,
    Effect.CONFLICT_409,
    Effect.TOO_MANY_429,
    Effect.ERROR_500,
    Effect.DELAYED,
    Effect.STALE_AFTER_COMMIT,
)
"""The effects that a fault of a write can have."""
KILLING_EFFECTS = frozenset({Effect.KILL_BEFORE_SEND, Effect.KILL_AFTER_COMMIT, Effect.KILL_AFTER_REPLY})

Predicate = Callable[[Json], bool]


@dataclass(frozen=True)
class Fault:
    """A fault for the calls or events that it matches; fields left empty match everything.

    `when` is called with the body of a call ({} without one), or with the object of an event.
    """

    effect: Effect
    verb: str = ""
    resource: str = ""
    sub: str | None = None
    """The subresource; None matches any, "" the object itself."""
    name: str = ""
    type: str = ""
    """ADDED, MODIFIED, DELETED, BOOKMARK: of an event."""
    when: Predicate | None = None
    skip: int = 0
    """How many matches pass first."""
    times: int = 1
    """How many matches are hit; FOR_EVER until healed."""
    seconds: float = 2.0
    """How long a call or event is held, or the delay of Retry-After."""
    value: str = ""
    then: tuple[Fault, ...] = ()
    """Armed at the first hit."""
    now: bool = False
    """Hits every open watch that matches at once, without waiting for an event (stream-* only)."""

    def __post_init__(self) -> None:
        if self.now and not self.effect.value.startswith("stream-"):
            raise ValueError(f"{self.effect} cannot be injected into a stream without an event")

    def matches_call(self, target: Target, body: Json | None) -> bool:
        """Return whether the fault is for this call."""
        if self.effect in EVENT_EFFECTS:
            return False
        if self.verb and self.verb != target.verb:
            return False
        if self.sub is not None and self.sub != target.sub:
            return False
        if self.resource and self.resource != target.resource:
            return False
        # A create names its object in the body alone.
        name = target.name or _name(body)
        return (not self.name or self.name == name) and (self.when is None or self.when(body or {}))

    def matches_event(self, resource: str, event: Mapping[str, Any]) -> bool:
        """Return whether the fault is for this event of a watch on `resource`."""
        if self.effect not in EVENT_EFFECTS or self.now or (self.resource and self.resource != resource):
            return False
        kind = event.get("type", "")
        # A bookmark is not a change of an object: only a fault for bookmarks matches it.
        matches = kind == self.type if self.type else kind != "BOOKMARK"
        return matches and self._about(event)

    def _about(self, event: Mapping[str, Any]) -> bool:
        obj = event.get("object", {})
        return (not self.name or self.name == _name(obj)) and (self.when is None or self.when(obj))

    def __str__(self) -> str:
        sub = f"/{self.sub}" if self.sub else ""
        words = [self.effect.value, self.verb, f"{self.resource}{sub}", self.type, self.name]
        return " ".join(word for word in words if word)


def _name(obj: Mapping[str, Any] | None) -> str:
    return str((obj or {}).get("metadata", {}).get("name", ""))


def final_status(body: Json) -> bool:
    """Return whether the body, or the object, has a request's final status."""
    return body.get("status", {}).get("phase") in FINAL


class ArmedFault:
    """A fault that waits for what it matches, and its hits. Safe to read from any thread."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.injected = threading.Event()
        """Set at the first hit."""
        self.hits = 0
        self.times: list[float] = []
        """Seconds since the epoch of each hit."""
        self._matches = 0

    def count_match(self, time: float) -> bool:
        """Count a match. Return whether the fault hits it."""
        self._matches += 1
        if self._matches <= self.fault.skip or self.spent:
            return False
        self.hit(time)
        return True

    def hit(self, time: float) -> None:
        """Count a hit."""
        self.hits += 1
        self.times.append(time)
        self.injected.set()

    @property
    def spent(self) -> bool:
        """Whether it has hit as often as it should."""
        return self.fault.times != FOR_EVER and self.hits >= self.fault.times


class FaultRules:
    """The armed faults; of several that match, the one armed first hits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[ArmedFault] = []

    def add(self, fault: Fault) -> ArmedFault:
        """Arm a fault."""
        armed = ArmedFault(fault)
        with self._lock:
            self._armed.append(armed)
        return armed

    def clear(self) -> None:
        """Disarm every fault."""
        with self._lock:
            self._armed.clear()

    def all(self) -> tuple[ArmedFault, ...]:
        """Return every armed fault, in the order of arming."""
        with self._lock:
            return tuple(self._armed)

    def for_call(self, target: Target, body: Json | None, time: float) -> Fault | None:
        """Return the fault that hits this call, if any."""
        return self._first(lambda fault: fault.matches_call(target, body), time)

    def for_event(self, resource: str, event: Mapping[str, Any], time: float) -> Fault | None:
        """Return the fault that hits this event, if any."""
        return self._first(lambda fault: fault.matches_event(resource, event), time)

    def _first(self, matches: Callable[[Fault], bool], time: float) -> Fault | None:
        with self._lock:
            for armed in self._armed:
                if not armed.spent and matches(armed.fault) and armed.count_match(time):
                    self._armed += [ArmedFault(fault) for fault in armed.fault.then]
                    return armed.fault
        return None
