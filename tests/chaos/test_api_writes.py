"""Each write of the API, under each fault: it takes effect all the same, and nothing is lost or run twice."""

from __future__ import annotations

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import CLAIMLESS, Stage
from tests.chaos.write_faults import PLANNED, SCENES, chosen, kind_of
from tests.support.faults.api_proxy.proxy import Fate

HELD_SECONDS = 0.7


@pytest.mark.parametrize(("name", "fate"), chosen(EVERYTHING))
def test_a_write_takes_effect_whatever_befalls_it(stage: Stage, name: str, fate: Fate) -> None:
    scene = SCENES[name]
    scene.play(stage, f"{name}-{fate}", stage.proxy.arm, scene.write.fault(fate, seconds=HELD_SECONDS))
    stage.proxy.heal()
    stage.examine()


@pytest.mark.timeout(300)
def test_every_write_a_controller_makes_has_a_plan(empty_stage: Stage) -> None:
    """A tour through all it does: what shows up here and not in PLANNED is a write nobody thought of."""
    empty_stage.open()
    idle = {"deleteAfterSeconds": 10}
    empty_stage.site.instance("idle", ready=False, operatingMode="Suspended", idle=idle, **CLAIMLESS)
    for name, scene in SCENES.items():
        # Held for no time at all: a fault that does nothing but tell that its write was made.
        scene.play(empty_stage, f"tour-{name}", empty_stage.proxy.arm, scene.write.fault(Fate.DELAYED, seconds=0))
    empty_stage.kube.delete("pods", empty_stage.namespace, "efrit-one-0")
    empty_stage.until(
        lambda: empty_stage.kube.find("efritinstances", empty_stage.namespace, "idle") is None, "it is not deleted"
    )
    empty_stage.examine()
    empty_stage.operator.stop()
    seen = {kind_of(call) for call in empty_stage.proxy.calls if call.target.writes and (call.status or 500) < 300}
    assert seen == PLANNED
