"""The bridge's event stream: ids, and the model each event name carries.

After a `reset` come `request` events for everything unacknowledged, without ids, closed by a `stats` event
that has one: a client cut off in between asks again with its old id, or none, and gets the whole of it.
"""

import re
from typing import Annotated, NamedTuple, Self

from msgspec import Meta

from efrit.errors import InvalidEvent
from efrit.protocol.enums import Outcome, RequestReason
from efrit.protocol.fields import RequestIdField
from efrit.protocol.model import WireModel
from efrit.protocol.view import QueueId, RequestView, Stats

_EPOCH = r"[A-Za-z0-9]{1,64}"
_EVENT_ID = re.compile(rf"({_EPOCH})-([0-9]{{1,18}})", re.ASCII)


class EventId(NamedTuple):
    """`<epoch>-<seq>`: `epoch` changes with every start of the bridge, `seq` counts within it."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the event id that `str` wrote as `text`. Raises `InvalidEvent`."""
        # Strict, because a client sends it back in a header.
        match = _EVENT_ID.fullmatch(text)
        if match is None:
            raise InvalidEvent(f"{text[:80]!r} is not an event id (<epoch>-<number>)")
        return cls(match[1], int(match[2]))


class Reset(WireModel, frozen=True, kw_only=True):
    """Forget what you knew of this queue: all of it follows."""

    queue_id: QueueId
    epoch: Annotated[str, Meta(pattern=rf"^{_EPOCH}\Z")]


class LogEnd(WireModel, frozen=True, kw_only=True):
    """The last event of a work log: how the request ended; None where nobody knows any more."""

    id: RequestIdField
    reason: RequestReason | None = None
    outcome: Outcome | None = None


Event = Reset | RequestView | Stats
"""The payload of any event."""

_KINDS: dict[str, type[Reset] | type[RequestView] | type[Stats]] = {
    "reset": Reset,
    "request": RequestView,
    "stats": Stats,
}


def parse_event(name: str, data: str) -> Event | None:
    """Return the payload of the event `name`; None for a name of a later version. Raises `ProtocolError`."""
    kind = _KINDS.get(name)
    return None if kind is None else kind.parse(data)
