"""Publishes Kubernetes Events: a repeated one raises the count of the one that exists, and no object gets many.

After client-go's EventCorrelator (tools/record/events_cache.go): the same event of an object is counted, and a token
bucket for each object drops what is more than a burst. All of it is in memory and bounded: a new process begins anew.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from efrit.api.meta import rfc3339, rfc3339_micro
from efrit.api_group import GROUP
from efrit.controller.act.kube import Kube
from efrit.controller.model.actions import Record
from efrit.errors import ApiError, ApiNamespaceTerminating, ApiNotFound
from efrit.resources import EVENTS, resource_named

log = logging.getLogger(__name__)

BURST = 25
SECONDS_FOR_ONE_MORE = 300.0
MAX_EVENTS = 4096
MAX_OBJECTS = 4096
MAX_MESSAGE_CHARS = 1024
RANDOM_CHARS = 16
MAX_BEGINNING_CHARS = 253 - 1 - RANDOM_CHARS
"""How much of the name of its object an event may have in its own, of which the API server takes 253 characters."""

EventKey = tuple[str, str, str, str]
"""UID of the object, type, reason, message."""


@dataclass(slots=True)
class _Published:
    name: str
    count: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: datetime


class EventRecorder:
    """The events of this process; `name` is its own, as they report it."""

    def __init__(self, kube: Kube, clock: Callable[[], datetime], name: str) -> None:
        self._kube = kube
        self._clock = clock
        self._name = name
        self._published: OrderedDict[EventKey, _Published] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @property
    def remembered(self) -> tuple[int, int]:
        """How many events and how many objects are remembered."""
        return len(self._published), len(self._buckets)

    async def record(self, action: Record) -> None:
        """Publish an event; one that cannot be published is worth a log line, not a retry."""
        if not self._take_token(action.uid):
            log.debug("event %s for %s/%s dropped: the object has too many", action.reason, *action.key)
            return
        try:
            await self._publish(action)
        except ApiNamespaceTerminating as error:
            log.debug("event %s for %s/%s not published: %s", action.reason, *action.key, error)
        except ApiError as error:
            log.warning("event %s for %s/%s not published: %s", action.reason, *action.key, error)

    async def _publish(self, action: Record) -> None:
        key = (action.uid, action.type, action.reason, action.message[:MAX_MESSAGE_CHARS])
        published = self._published.get(key)
        if published is not None:
            published.count += 1
            self._published.move_to_end(key)
            body = {"count": published.count, "lastTimestamp": rfc3339(self._clock())}
            try:
                await self._kube.patch(EVENTS, action.key[0], published.name, body)
            except ApiNotFound:
                # Events are deleted after an hour.
                self._published.pop(key, None)
            else:
                return
        manifest = self._manifest(action)
        await self._kube.create(manifest)
        self._published[key] = _Published(manifest["metadata"]["name"], 1)
        while len(self._published) > MAX_EVENTS:
            self._published.popitem(last=False)

    def _take_token(self, uid: str) -> bool:
        """Return whether an object may have one more event: a burst, and then one in five minutes."""
        now = self._clock()
        bucket = self._buckets.pop(uid, None) or _Bucket(BURST, now)
        self._buckets[uid] = bucket
        while len(self._buckets) > MAX_OBJECTS:
            self._buckets.popitem(last=False)
        # The clock may have been set back.
        passed = max(0.0, (now - bucket.filled).total_seconds())
        bucket.tokens, bucket.filled = min(BURST, bucket.tokens + passed / SECONDS_FOR_ONE_MORE), now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _manifest(self, action: Record) -> dict[str, Any]:
        namespace, name = action.key
        now = self._clock()
        return EVENTS.manifest(
            {"name": _event_name(name), "namespace": namespace},
            involvedObject=resource_named(action.kind).reference(name, action.uid, namespace=namespace),
            type=action.type,
            reason=action.reason,
            message=action.message[:MAX_MESSAGE_CHARS],
            source={"component": "efrit-operator"},
            reportingComponent=f"{GROUP}/operator",
            reportingInstance=self._name,
            action=action.reason,
            firstTimestamp=rfc3339(now),
            lastTimestamp=rfc3339(now),
            eventTime=rfc3339_micro(now),
            count=1,
        )


def _event_name(name: str) -> str:
    """Return a new name for an event of an object; each part between dots ends with a letter or a digit."""
    return f"{name[:MAX_BEGINNING_CHARS].rstrip('.-')}.{uuid.uuid4().hex[:RANDOM_CHARS]}"  # gate: event-name
