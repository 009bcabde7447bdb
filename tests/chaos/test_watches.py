"""Each kind of trouble with a watch, at each moment of an object's life: the controller gets there all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import Stage
from tests.chaos.watch_faults import MODES, PHASES, chosen
from tests.support.faults.api_proxy.calls import Json
from tests.support.faults.api_proxy.proxy import Armed, Fate, Fault


@pytest.mark.parametrize(("phase", "mode"), chosen(EVERYTHING))
def test_the_controller_gets_there_whatever_its_watch_tells(stage: Stage, phase: str, mode: str) -> None:
    moment = PHASES[phase]

    def arm(name: str, kind: str, when: Callable[[Json], bool] | None = None) -> Armed:
        event = Fault(Fate.EVENT_DROPPED, resource=moment.resource, name=name, type=kind, when=when)
        return stage.proxy.arm(MODES[mode].fault(event))

    moment.play(stage, f"{phase}-{mode}", arm)
    stage.proxy.heal()
    stage.examine()
