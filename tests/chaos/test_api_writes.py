"""Each write of the API, under each fault: it takes effect all the same, and no request is lost or run twice."""

from __future__ import annotations

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import CLAIMLESS, ProxiedCluster
from tests.chaos.write_faults import ASKED, PLANNED, SCENARIOS, chosen, kind_of
from tests.support.faults.api_proxy.proxy import Effect

HELD_SECONDS = 0.7


@pytest.mark.parametrize(("name", "effect"), chosen(EVERYTHING))
def test_a_write_takes_effect_whatever_befalls_it(cluster: ProxiedCluster, name: str, effect: Effect) -> None:
    scenario = SCENARIOS[name]
    scenario.run(cluster, f"{name}-{effect}", cluster.proxy.arm, scenario.write.fault(effect, seconds=HELD_SECONDS))
    cluster.proxy.heal()
    cluster.check_history()


def test_every_write_a_controller_makes_has_a_scenario(new_cluster: ProxiedCluster) -> None:
    """Tour through all it does: what shows up here and not in PLANNED is a write without a scenario."""
    new_cluster.open()
    idle = {"deleteAfterSeconds": 10}
    new_cluster.site.instance("idle", ready=False, operatingMode="Suspended", idle=idle, **CLAIMLESS)
    for name, scenario in SCENARIOS.items():
        if scenario.write.facet == ASKED:
            continue
        # Held for no time at all: a fault that does nothing but record that its write was made.
        scenario.run(
            new_cluster, f"tour-{name}", new_cluster.proxy.arm, scenario.write.fault(Effect.DELAYED, seconds=0)
        )
    new_cluster.kube.delete("pods", new_cluster.namespace, "efrit-one-0")
    new_cluster.until(
        lambda: new_cluster.kube.find("efritinstances", new_cluster.namespace, "idle") is None, "it is not deleted"
    )
    new_cluster.check_history()
    new_cluster.operator.stop()
    kinds = {kind_of(call) for call in new_cluster.proxy.calls if call.target.writes and (call.status or 500) < 300}
    # What only asks succeeds where a controller has forgotten that a child is there, as the cases above make it do.
    assert {kind for kind in kinds if kind.facet != ASKED} == {kind for kind in PLANNED if kind.facet != ASKED}
