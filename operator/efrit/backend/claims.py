"""Exclusive claims on members of pools, as a client sees them, and waiting for one. Only a cluster has them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from efrit.backend.errors import NotReady, WaitTimeout
from efrit.protocol.enums import ClaimPhase

if TYPE_CHECKING:
    from efrit.backend.interface import Backend

MAX_TTL_SECONDS = 30 * 86_400


class NewClaim(Struct, frozen=True):
    """A claim to be. `name` makes it idempotent: an open claim of that name and pool is the same claim.

    `ttl`: for how many seconds from the moment it has a member, None: an hour. `recycle`: the member is deleted in
    the end, or else goes back to the pool as it is.
    """

    pool: str
    name: str | None = None
    holder: str | None = None
    ttl: float | None = None
    recycle: bool = True


class Claim(Struct, frozen=True):
    """One exclusive claim. `instance` is the member that it has; `reason` and `message` say how that is.

    `attach` is the command that opens the member's Emacs in a terminal.
    """

    name: str
    pool: str
    phase: ClaimPhase = ClaimPhase.PENDING
    ready: bool = False
    reason: str = ""
    message: str = ""
    instance: str | None = None
    holder: str | None = None
    recycle: bool = True
    attach: str | None = None
    bound: datetime | None = None
    expires: datetime | None = None
    created: datetime | None = None
    namespace: str | None = None

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.phase.final

    @property
    def settled(self) -> bool:
        """Whether it no longer waits for a member: it has one, or has ended."""
        return self.phase is ClaimPhase.BOUND or self.final


async def bound_claim(
    backend: Backend, name: str, seconds: float | None, on_state: Callable[[Claim], None] = lambda _: None
) -> Claim:
    """Return the claim once it has a member. Raises `WaitTimeout` after `seconds`, `NotReady` if it has ended.

    `on_state` takes each state meanwhile.
    """
    last: Claim | None = None
    try:
        async with asyncio.timeout(seconds):
            states = cast(AsyncGenerator[Claim, None], backend.watch_claim(name))
            async with contextlib.aclosing(states):
                async for claim in states:
                    last = claim
                    on_state(claim)
                    if claim.settled:
                        break
    except TimeoutError:
        why = last.message if last is not None and last.message else "the operator has not reconciled it"
        raise WaitTimeout(
            f"the claim {name} has no member yet: {why}",
            f"it goes on waiting until you end it with `efrit release {name}`",
        ) from None
    if last is None or last.final:
        why = f": {last.message}" if last is not None else ""
        raise NotReady(f"the claim {name} ended before it had a member{why}", "claim again")
    return last
