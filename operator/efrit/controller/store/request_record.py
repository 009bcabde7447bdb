"""What the store keeps of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from efrit.api import EfritRequest
from efrit.controller.model.keys import Key
from efrit.controller.model.snapshots import ActionFailure, Handover
from efrit.controller.store.packed_request import PackedRequest
from efrit.controller.store.records import Record
from efrit.protocol.view import RequestView

NO_LABELS: Mapping[str, str] = {}
"""Those of a request that names no pool: one object for tens of thousands."""


class Placement(NamedTuple):
    """The instance that a request counts for, and since when, as far as this process knows."""

    instance: Key
    since: datetime


@dataclass(slots=True)
class RequestRecord(Record):
    """What is known of one request."""

    packed: PackedRequest
    handover: Handover | None = None
    gone: bool = False
    progress_written: datetime | None = None
    session_instance: str | None = None
    failure: ActionFailure | None = None
    submitting: bool = False
    """Whether a call that hands it over is under way."""
    recorded_queues: tuple[str, ...] = ()
    """The ephemeral queues that this process has written into its status, or has tried to, the last ones."""
    may_have_arrived: bool = False
    """Whether this process has sent it to a bridge, which did not refuse it."""
    parked: bool = False
    """Whether its hand-over waits for its bridge since it was last decided about: it comes back by itself."""
    first_seen: float = 0.0
    """When it was first seen, on the monotonic clock."""
    listed_at_start: bool = False
    """Whether it was seen before the first list of its namespace was complete.

    Otherwise it was created after this process took the lease: no other can have handed it over.
    """
    assumed: Key | None = None
    """The instance it is being bound to, until the API server has said so."""
    placement: Placement | None = None
    """On which member of a pool it counts while it is open; kept until it counts elsewhere."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    """What its flow in a pool follows from; empty where it names no pool."""
    flow: str | None = None
    """The flow that it counts for while a member of the pool has it."""
    paid: bool = False
    """Whether its flow has paid for it."""
    admitted: bool = False
    """Whether it has been decided that it may wait for its pool, or is turned away."""
    turned_away: bool = False
    """Whether as many of its flow waited when it came as the pool lets wait."""
    status_refused: bool = False
    """Whether the API server has refused its last status: nothing is interrupted for it."""
    binding_failures: int = 0
    """How often in a row the API server did not answer when it was to be bound."""
    retries_binding: bool = False
    """Whether that happened since it was last decided about: the work queue comes back to it after a pause."""

    @property
    def request(self) -> EfritRequest:
        """The object without its content, made anew once it is packed: what is asked often has its own field."""
        return self.packed.unpack()

    @property
    def uid(self) -> str:
        """UID of the object."""
        return self.packed.uid

    @property
    def run_id(self) -> str:
        """Id of its work on the queue of an instance."""
        return self.packed.run_id

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return self.packed.version

    @property
    def target(self) -> Key | None:
        """The instance it is bound to."""
        return self.packed.target

    @property
    def open(self) -> bool:
        """Whether it exists and has no final status."""
        return not self.gone and not self.packed.final

    def may_be_on(self, instance: Key) -> bool:
        """Return whether the request may be on `instance`: no other instance's bridge knows about it."""
        target = self.packed.target
        if target is None:
            return self.assumed == instance or self.packed.key[0] == instance[0]
        return target == instance


def is_outdated(view: RequestView, recorded: RequestView) -> bool:
    """Return whether `view` was overtaken: the stream may be faster than the reply to a call."""
    if recorded.state.final and recorded.response is not None and view.response is None:
        return True
    return not view.state.final and (recorded.state.final or view.attempt < recorded.attempt)
