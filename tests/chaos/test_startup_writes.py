"""What a controller writes before it acts, while it leads and when it stops: lease and identity, under each fault.

Also the deletion of idle instances, all faults in one go: none may be idle for less than ten seconds.
"""

from __future__ import annotations

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import CLAIMLESS, ProxiedCluster
from tests.chaos.write_faults import AT_STARTUP, Write
from tests.support.faults.api_proxy.proxy import Effect, Fault
from tests.support.faults.api_proxy.rules import WRITE_EFFECTS

HELD_SECONDS = 0.7
SOME = (Effect.KILL_BEFORE_SEND, Effect.KILL_AFTER_COMMIT, Effect.LOST_REPLY, Effect.CONFLICT_409, Effect.ERROR_500)
EFFECTS = WRITE_EFFECTS if EVERYTHING else SOME
LEASE = {"EFRIT_LEASE_SECONDS": "15"}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("name", AT_STARTUP)
def test_a_controller_comes_to_lead_whatever_befalls_its_first_writes(
    new_cluster: ProxiedCluster, name: str, effect: Effect
) -> None:
    armed = new_cluster.proxy.arm(AT_STARTUP[name].fault(effect, seconds=HELD_SECONDS))
    new_cluster.launch(**LEASE)
    new_cluster.wait_injected(armed)
    new_cluster.until_leading()
    new_cluster.site.instance("first", ready=False, operatingMode="Suspended", **CLAIMLESS)
    new_cluster.until(
        lambda: new_cluster.site.condition("first", "Suspended").get("status") == "True", "it leads and does nothing"
    )


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_leader_gets_over_a_renewal_that_fails(cluster: ProxiedCluster, effect: Effect) -> None:
    armed = cluster.proxy.arm(Write("patch", "leases", "held").fault(effect, seconds=HELD_SECONDS))
    cluster.wait_injected(armed)
    cluster.until_leading()
    cluster.wait_final(cluster.submit(f"renewal-{effect}"))
    cluster.check_history()


@pytest.mark.parametrize("effect", WRITE_EFFECTS if EVERYTHING else SOME[1:4])
def test_a_lease_that_is_not_given_back_is_taken_again(new_cluster: ProxiedCluster, effect: Effect) -> None:
    new_cluster.launch(**LEASE)
    new_cluster.until_leading()
    armed = new_cluster.proxy.arm(Write("patch", "leases", "given back").fault(effect, seconds=HELD_SECONDS))
    new_cluster.operator.stop()
    assert armed.hits == 1
    new_cluster.proxy.heal()
    successor = new_cluster.site.operator("operator-1", server=new_cluster.proxy.url)
    successor.launch(**LEASE)
    new_cluster.wait(successor.leads, "nobody leads")


def test_idle_instances_are_deleted_whatever_befalls_the_deletion(cluster: ProxiedCluster) -> None:
    names = {f"idle-{effect}": effect for effect in WRITE_EFFECTS}
    faults = [
        cluster.proxy.arm(Fault(effect, "delete", "efritinstances", name=name, seconds=HELD_SECONDS))
        for name, effect in names.items()
    ]
    for name in names:
        cluster.site.instance(
            name, ready=False, operatingMode="Suspended", idle={"deleteAfterSeconds": 10}, **CLAIMLESS
        )
    for fault in faults:
        cluster.wait_injected(fault)

    def remaining_names() -> list[str]:
        there = cluster.kube.list("efritinstances", cluster.namespace)
        return [obj["metadata"]["name"] for obj in there if obj["metadata"]["name"] in names]

    cluster.until(lambda: not remaining_names(), lambda: f"{remaining_names()} stay")
    cluster.check_history()
