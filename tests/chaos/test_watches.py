"""Each fault of a watch, at each moment of an object's life: the controller reaches the same state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import ProxiedCluster
from tests.chaos.watch_faults import MODES, PHASES, chosen
from tests.support.faults.api_proxy.calls import Json
from tests.support.faults.api_proxy.proxy import ArmedFault, Effect, Fault


@pytest.mark.parametrize(("phase", "mode"), chosen(EVERYTHING))
def test_the_controller_gets_there_whatever_its_watch_reports(cluster: ProxiedCluster, phase: str, mode: str) -> None:
    moment = PHASES[phase]

    def arm(name: str, kind: str, when: Callable[[Json], bool] | None = None) -> ArmedFault:
        event = Fault(Effect.EVENT_DROPPED, resource=moment.resource, name=name, type=kind, when=when)
        return cluster.proxy.arm(MODES[mode].fault(event))

    moment.run(cluster, f"{phase}-{mode}", arm)
    cluster.proxy.heal()
    cluster.check_history()
