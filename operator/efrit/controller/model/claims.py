"""What a decision about an exclusive claim reads."""

from __future__ import annotations

from dataclasses import dataclass

from efrit.api import EfritClaim, EfritPool
from efrit.controller.model.snapshots import InstanceSnapshot, Refusal

STATUS_ATTEMPTS = 12
"""How often the status of a claim may be refused in a row: with the work queue's pauses, for nearly two minutes."""
FORBIDDEN_SECONDS = 600.0
"""For how long it has to be forbidden before that: a right of the operator's that was taken away may come back."""


@dataclass(frozen=True, slots=True)
class StatusRefusal:
    """Why the API server refused the last statuses of an exclusive claim, and how many.

    forbidden_since: from when on it has been forbidden, on the monotonic clock; None where what it says is refused.
    """

    sentence: str
    count: int
    forbidden_since: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether it was refused often enough: the claim is given up, as nobody would ever learn of its member."""
        return self.count >= STATUS_ATTEMPTS  # gate: claim-status-refused


@dataclass(frozen=True, slots=True)
class ClaimSnapshot:
    """Everything that a decision about an exclusive claim reads."""

    claim: EfritClaim
    pool: EfritPool | None = None
    """Without its template; None where there is none of the name."""
    revision: str = ""
    """Digest of the pool's template."""
    member: InstanceSnapshot | None = None
    """The instance that the claim owns, of several the first by name."""
    taking: InstanceSnapshot | None = None
    """The member that it is to own, where it is not known yet whether the API server has taken that."""
    candidates: tuple[InstanceSnapshot, ...] = ()
    """Members of the pool without work, ready or not; at most so many."""
    ahead: int = 0
    """Claims that wait for a member of the pool and come first."""
    listed: bool = False
    """Whether all open requests and plans of the namespace are known."""
    refusal: Refusal | None = None
    """The API server did not make it the owner of a member."""
    reduced_status: bool = False
    """Whether a status of the usual size does not fit into the object."""
    status_refusal: StatusRefusal | None = None
    """The API server refuses what the claim is to say."""
    instance_seen: bool = False
    """Whether there is an instance of the name in the claim's status, of whatever owner."""
