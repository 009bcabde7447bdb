"""A batch: what one call hands to a bridge, line by line, and what the bridge answers to each line.

Both bodies are lines of JSON. An element is known by the number of its line; answers come in the order in which they
are known. Each element is as idempotent as the call of its own that it stands for, and fails on its own.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from efrit.errors import InvalidRequest, ProtocolError
from efrit.protocol.fields import RequestIdField
from efrit.protocol.model import WireModel
from efrit.protocol.request import Request
from efrit.protocol.view import ErrorDetail, RequestView

MAX_BATCH_ELEMENTS = 64
"""What one batch holds; a bridge's figures say how many it takes, 0 where it takes no batches."""
MAX_BATCH_BYTES = 256 * 1024
"""Bytes of the lines of a batch, ends of lines included."""


class BatchOperation(StrEnum):
    """What is to be done about a request."""

    SUBMIT = "submit"
    ACKNOWLEDGE = "acknowledge"
    CANCEL = "cancel"


class BatchElement(WireModel, frozen=True, kw_only=True):
    """One line of a batch.

    `request` is what is submitted; with a cancel it is what may not have come yet. `running` says whether a cancel is
    meant for a request that runs, too.
    """

    op: BatchOperation
    id: RequestIdField
    request: Request | None = None
    running: bool = True

    def __post_init__(self) -> None:
        """Raise `ValueError` for an operation without its request, or with that of another id."""
        super().__post_init__()
        if self.request is None:
            if self.op is BatchOperation.SUBMIT:
                raise ValueError("a request is missing that is to be submitted")
        elif self.request.id != self.id:
            raise ValueError(f"it is about {self.id} and carries request {self.request.id}")

    def to_line(self) -> bytes:
        """Return its line, the end included."""
        return f"{self.to_json()}\n".encode()

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidRequest


class BatchResult(WireModel, frozen=True, kw_only=True):
    """One line of the answer: to line `index`, counted from 0.

    `error` where the element was refused; else `request` is how it stands, None for one that is acknowledged. An
    answer that is too long for an event is left out of it, as there.
    """

    index: Annotated[int, Meta(ge=0, lt=MAX_BATCH_ELEMENTS)]
    request: RequestView | None = None
    error: ErrorDetail | None = None

    def to_line(self) -> bytes:
        """Return its line, the end included."""
        return f"{self.to_json()}\n".encode()
