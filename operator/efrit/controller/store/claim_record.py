"""What the store keeps of one exclusive claim."""

from __future__ import annotations

from dataclasses import dataclass

from efrit.api import EfritClaim
from efrit.controller.model.claims import StatusRefusal
from efrit.controller.model.keys import Key
from efrit.controller.model.snapshots import Refusal
from efrit.controller.store.records import ObjectRecord


@dataclass(slots=True)
class ClaimRecord(ObjectRecord[EfritClaim]):
    """What is known of one exclusive claim."""

    read_final: bool = False
    """Whether a decision has read that it has ended: until then nobody knows when it is to be deleted."""
    status_refusal: StatusRefusal | None = None
    """The API server refused its last statuses."""
    taking: Key | None = None
    """The member that it is becoming the owner of, until it is known whether it has."""
    refusal: Refusal | None = None
    """The API server did not make it the owner of a member."""
