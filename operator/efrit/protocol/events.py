"""The bridge's event stream: ids, and the model each event name carries.

After a `reset` come `request` events for everything unacknowledged, without ids, closed by a `stats` event
that has one: a client cut off in between asks again with its old id, or none, and gets the whole of it.
"""

from typing import NamedTuple, Self

from efrit.errors import InvalidEvent
from efrit.protocol.model import WireModel
from efrit.protocol.view import RequestView, Stats


class EventId(NamedTuple):
    """`<epoch>-<seq>`: `epoch` changes with every start of the bridge, `seq` counts within it."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`. Raises `InvalidEvent`."""
        epoch, dash, seq = text.rpartition("-")
        if not (dash and epoch and seq.isascii() and seq.isdigit() and len(seq) <= 18):
            raise InvalidEvent(f"{text[:80]!r} is not an event id (<epoch>-<number>)")
        return cls(epoch, int(seq))


class Reset(WireModel):
    """Forget what you knew of this queue: all of it follows."""

    queue_id: str
    epoch: str


Event = Reset | RequestView | Stats
"""The payload of any event."""

_KINDS: dict[str, type[Reset] | type[RequestView] | type[Stats]] = {
    "reset": Reset,
    "request": RequestView,
    "stats": Stats,
}


def parse_event(name: str, data: str) -> Event | None:
    """The payload of the event `name`; None for a name of a later version. Raises `ProtocolError`."""
    kind = _KINDS.get(name)
    return None if kind is None else kind.parse(data)
