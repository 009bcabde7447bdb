"""Pools of instances, as a client sees them. Plain immutable values, no I/O; only a cluster has pools."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from efrit.api_group import POOL_LABEL as POOL_LABEL

MAX_NAMES = 10
"""Pools that an error names."""


class PoolCondition(Struct, frozen=True):
    """One condition of a pool: `status` is True, False or Unknown, `message` a sentence for people."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PoolFlow(Struct, frozen=True):
    """Open requests of one flow: `running` are those that members have, `pending` wait for a member."""

    name: str
    running: int = 0
    pending: int = 0


class PoolScale(Struct, frozen=True):
    """The last time that the pool's autoscaler changed the number of members."""

    before: int
    after: int
    reason: str = ""
    time: datetime | None = None


class Pool(Struct, frozen=True):
    """One pool. The counts are of members, but `pending`: requests that no member has.

    `desired` is how many members there are to be, None until the operator has decided. `members` are there and stay,
    `draining` ones get no more requests and go. `updated` have the present template, whose digest is `revision`.
    `autoscaled`: the pool decides by itself how many members there are.
    """

    name: str
    desired: int | None = None
    autoscaled: bool = False
    members: int = 0
    ready: int = 0
    idle: int = 0
    busy: int = 0
    draining: int = 0
    suspended: int = 0
    updated: int = 0
    pending: int = 0
    flows: Sequence[PoolFlow] = ()
    revision: str | None = None
    conditions: Sequence[PoolCondition] = ()
    last_scale: PoolScale | None = None
    created: datetime | None = None
    namespace: str | None = None


class Scaled(Struct, frozen=True):
    """The answer to `scale_pool`: `pool` is to have `desired` members, and has `members` now."""

    message: str
    pool: str
    desired: int
    members: int = 0


class PoolRevision(Struct, frozen=True):
    """A template that a pool has or had: the `current` one has the highest number once the operator has seen it.

    `members` were made from it, None where that may not be seen. `digest` is `Pool.revision` while it is the current
    one; `template` leaves out what has its default.
    """

    number: int
    digest: str
    current: bool = False
    members: int | None = None
    created: datetime | None = None
    template: dict[str, Any] = {}


class Undone(Struct, frozen=True):
    """The answer to `undo_pool`: `pool` has the template of `revision`, and not `changed` where it had it already.

    `fields` of the template are other ones than before, as far as that is known.
    """

    message: str
    pool: str
    revision: int
    changed: bool = False
    fields: Sequence[str] = ()
