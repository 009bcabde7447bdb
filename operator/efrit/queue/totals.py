"""Counts of answers over the life of the volume, kept in a small file so that a restart keeps them."""

from typing import Annotated, Self

from msgspec import Meta
from msgspec.structs import replace as with_changes

from efrit.errors import ProtocolError
from efrit.protocol import RequestReason, Response
from efrit.protocol.model import WireModel
from efrit.queue.durable import Disk, replace
from efrit.queue.layout import TOTALS, Area

# Well below what the wire allows: there is always room to count one more.
_Figure = Annotated[int, Meta(ge=0, le=2**50)]


class Totals(WireModel, frozen=True, kw_only=True):
    """`as_of_ns` is the time the newest counted answer was written: what is older was counted before."""

    processed: _Figure = 0
    succeeded: _Figure = 0
    interrupted: _Figure = 0
    seconds: Annotated[float, Meta(ge=0, le=1e11)] = 0.0
    as_of_ns: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` for figures that do not add up."""
        super().__post_init__()
        if self.succeeded + self.interrupted > self.processed:
            raise ValueError("more answers of a kind than answers")

    @property
    def failed(self) -> int:
        """Every answer that is not a success."""
        return self.processed - self.succeeded

    @property
    def average_seconds(self) -> float:
        """Mean execution time; 0 before the first answer."""
        return self.seconds / self.processed if self.processed else 0.0

    def with_response(self, response: Response, written_ns: int) -> Self:
        """Return these totals with one more response."""
        return with_changes(
            self,
            processed=self.processed + 1,
            succeeded=self.succeeded + (response.reason is RequestReason.SUCCEEDED),
            interrupted=self.interrupted + (response.reason is RequestReason.INTERRUPTED),
            seconds=self.seconds + response.execution_time,
            as_of_ns=max(self.as_of_ns, written_ns),
        )


def load_totals(disk: Disk) -> Totals:
    """Return the stored totals; zeros if none can be read: they are figures, not promises."""
    data = disk.read(Area.ROOT, TOTALS, limit=4096)
    try:
        return Totals.parse(data) if data else Totals()
    except ProtocolError:
        return Totals()


def save_totals(disk: Disk, totals: Totals) -> None:
    """Store the totals without a sync: losing the last seconds of counting does no harm."""
    replace(disk, TOTALS, totals.to_json().encode(), sync=False)
