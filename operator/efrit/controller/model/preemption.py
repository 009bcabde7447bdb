"""What the choice of a request that is interrupted for another one reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from efrit.controller.model.keys import Key


class FlowShare(NamedTuple):
    """What a flow of a pool has."""

    running: int = 0
    """Its requests that members have, those left out that are being interrupted."""
    weight: int = 1


class Running(NamedTuple):
    """A request that a member of a pool has."""

    key: Key
    priority: int
    flow: str
    placed: datetime
    """Since when its member has it, as far as this process knows."""
    started: datetime | None = None
    """When Emacs began it; None where it has not."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A request that waits for a member of a pool, and the flows of that pool."""

    priority: int
    flow: str
    first_seen: datetime
    """When this process saw it first."""
    flows: Mapping[str, FlowShare] = field(default_factory=dict)
    max_running: int | None = None
    """Requests of a flow that members have at a time; None for no bound."""
