"""Counts of answers over the life of the volume, kept in a small file so that a restart keeps them."""

from typing import Self

from efrit.errors import ProtocolError
from efrit.protocol import Reason, Response
from efrit.protocol.model import WireModel
from efrit.queue.durable import Disk, replace
from efrit.queue.layout import TOTALS, Area


class Totals(WireModel):
    """`as_of_ns` is the time the newest counted answer was written: what is older was counted before."""

    processed: int = 0
    succeeded: int = 0
    interrupted: int = 0
    seconds: float = 0.0
    as_of_ns: int = 0

    @property
    def failed(self) -> int:
        """Every answer that is not a success."""
        return self.processed - self.succeeded

    @property
    def average_seconds(self) -> float:
        """Mean execution time; 0 before the first answer."""
        return self.seconds / self.processed if self.processed else 0.0

    def counting(self, response: Response, written_ns: int) -> Self:
        """These totals with one more answer."""
        return self.model_copy(
            update={
                "processed": self.processed + 1,
                "succeeded": self.succeeded + (response.reason is Reason.SUCCEEDED),
                "interrupted": self.interrupted + (response.reason is Reason.INTERRUPTED),
                "seconds": self.seconds + response.execution_time,
                "as_of_ns": max(self.as_of_ns, written_ns),
            }
        )


def load_totals(disk: Disk) -> Totals:
    """The stored totals; zeros if there are none to be read: they are figures, not promises."""
    data = disk.read(Area.ROOT, TOTALS, limit=4096)
    try:
        return Totals.parse(data) if data else Totals()
    except ProtocolError:
        return Totals()


def save_totals(disk: Disk, totals: Totals) -> None:
    """Stores them, unsynced: losing the last seconds of counting is no harm."""
    replace(disk, TOTALS, totals.to_json().encode(), sync=False)
