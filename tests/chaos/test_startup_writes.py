"""What a controller writes before it acts, while it leads and when it stops: lease and identity, under each fault.

Also the deletion of idle instances, all faults in one go: none may be idle for less than ten seconds.
"""

from __future__ import annotations

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import CLAIMLESS, Stage
from tests.chaos.write_faults import AT_STARTUP, OF_WRITES, Write
from tests.support.faults.api_proxy.proxy import Fate, Fault

HELD_SECONDS = 0.7
SOME = (Fate.KILL_BEFORE_SEND, Fate.KILL_AFTER_COMMIT, Fate.LOST_REPLY, Fate.CONFLICT_409, Fate.ERROR_500)
FATES = OF_WRITES if EVERYTHING else SOME
LEASE = {"EFRIT_LEASE_SECONDS": "6"}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("name", AT_STARTUP)
def test_a_controller_comes_to_lead_whatever_befalls_its_first_writes(
    empty_stage: Stage, name: str, fate: Fate
) -> None:
    armed = empty_stage.proxy.arm(AT_STARTUP[name].fault(fate, seconds=HELD_SECONDS))
    empty_stage.launch(**LEASE)
    empty_stage.struck(armed)
    empty_stage.until_leading()
    empty_stage.site.instance("first", ready=False, operatingMode="Suspended", **CLAIMLESS)
    empty_stage.until(
        lambda: empty_stage.site.condition("first", "Suspended").get("status") == "True", "it leads and does nothing"
    )


@pytest.mark.parametrize("fate", FATES)
def test_a_leader_gets_over_a_renewal_that_fails(stage: Stage, fate: Fate) -> None:
    armed = stage.proxy.arm(Write("patch", "leases", "held").fault(fate, seconds=HELD_SECONDS))
    stage.struck(armed)
    stage.until_leading()
    stage.ended(stage.ask(f"renewal-{fate}"))
    stage.examine()


@pytest.mark.parametrize("fate", OF_WRITES if EVERYTHING else SOME[1:4])
def test_a_lease_that_is_not_given_back_is_taken_again(empty_stage: Stage, fate: Fate) -> None:
    empty_stage.launch(**LEASE)
    empty_stage.until_leading()
    armed = empty_stage.proxy.arm(Write("patch", "leases", "given back").fault(fate, seconds=HELD_SECONDS))
    empty_stage.operator.stop()
    assert armed.hits == 1
    empty_stage.proxy.heal()
    successor = empty_stage.site.operator("operator-1", server=empty_stage.proxy.url)
    successor.launch(**LEASE)
    empty_stage.wait(successor.leads, "nobody leads")


def test_idle_instances_are_deleted_whatever_befalls_the_deletion(stage: Stage) -> None:
    names = {f"idle-{fate}": fate for fate in OF_WRITES}
    faults = [
        stage.proxy.arm(Fault(fate, "delete", "efritinstances", name=name, seconds=HELD_SECONDS))
        for name, fate in names.items()
    ]
    for name in names:
        stage.site.instance(
            name, ready=False, operatingMode="Suspended", idle={"deleteAfterSeconds": 10}, **CLAIMLESS
        )
    for each in faults:
        stage.struck(each, 60)

    def left() -> list[str]:
        there = stage.kube.list("efritinstances", stage.namespace)
        return [each["metadata"]["name"] for each in there if each["metadata"]["name"] in names]

    stage.until(lambda: not left(), lambda: f"{left()} stay", 60)
    stage.examine()
