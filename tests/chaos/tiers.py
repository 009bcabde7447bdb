"""Where seeded runs take place: on processes of this machine alone, or on the bare cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.support.faults.base_run import FaultRun
from tests.support.faults.generators import light, node
from tests.support.faults.light.cluster import LightCluster
from tests.support.faults.light.run import SETTINGS, LightRun
from tests.support.faults.node.cluster import NodeCluster
from tests.support.faults.node.run import NodeRun
from tests.support.faults.schedule import Schedule


@dataclass(frozen=True)
class Tier:
    """The schedules of a tier, its cluster and its runs.

    longest: seconds after which a run hangs. closing: seconds it may take to put everything away.
    """

    generate: Callable[[int], Schedule]
    cluster: Callable[[], AbstractContextManager[Any]]
    run: Callable[[Any, Schedule], FaultRun]
    longest: float
    closing: float


TIERS = {
    "light": Tier(light.generate, LightCluster, LightRun, longest=1800.0, closing=30.0),
    # The operator sweeps as often as on the light tier, so that both are judged alike.
    "cluster": Tier(node.generate, lambda: NodeCluster(SETTINGS), NodeRun, longest=900.0, closing=300.0),
}
