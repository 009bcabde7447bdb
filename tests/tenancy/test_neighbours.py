"""What a tenant's hung disk, full disk, flood of events and lies do to another tenant: nothing."""

from __future__ import annotations

import pytest

from efrit.controller.act.bulkhead import MAX_CALLS
from efrit.controller.act.handover_batch import MAX_BATCHES
from efrit.controller.act.stream_rate import BURST
from tests.support.kube import until
from tests.support.simulated_bridge import FLOOD, Mode
from tests.support.tenants import Tenants

WAITING = 130


@pytest.mark.parametrize(("batches", "most"), [(True, MAX_BATCHES), (False, MAX_CALLS)])
def test_a_hung_disk_holds_few_calls_and_another_tenant_is_answered(
    tenants: Tenants, batches: bool, most: int
) -> None:
    loud, quiet, node = tenants.loud, tenants.quiet, tenants.node
    loud.bridge.takes_batches = batches
    node.do(lambda: loud.bridge.set(Mode.HANGS))
    for number in range(WAITING):
        loud.ask(f"w{number}")
    # The most, not those now: a call that hangs is given up after a while.
    until(lambda: loud.bridge.most_in_flight >= most or None, "the bridge was not called")

    for _ in range(5):
        assert tenants.answer(quiet)["phase"] == "Succeeded"

    assert loud.bridge.handed_over == []
    condition = tenants.until_ready(loud, reason="BridgeUnresponsive")
    assert condition["status"] == "False"

    def warned() -> bool | None:
        events = tenants.kube.list("events", loud.namespace)
        return [event["type"] for event in events if event["reason"] == "BridgeUnresponsive"] == ["Warning"] or None

    until(warned, "no event tells of it")
    assert tenants.answer(quiet)["phase"] == "Succeeded"
    assert tenants.operator.fetch("/healthz").status_code == 200

    node.do(lambda: loud.bridge.set(Mode.ANSWERS))
    tenants.until_ready(loud, reason="Ready")
    until(lambda: not loud.unfinished() or None, lambda: f"{loud.finished()} of {WAITING} have ended")
    assert loud.finished() == WAITING
    # One more for the probe of a bridge that nobody waits for.
    assert loud.bridge.most_in_flight <= most + 1
    assert len(loud.bridge.handed_over) == len(set(loud.bridge.handed_over)) == WAITING


def test_a_full_disk_keeps_its_own_requests_waiting_alone(tenants: Tenants) -> None:
    loud, quiet, node = tenants.loud, tenants.quiet, tenants.node
    node.do(lambda: loud.bridge.set(Mode.FULL))
    for number in range(50):
        loud.ask(f"w{number}")

    for _ in range(5):
        assert tenants.answer(quiet)["phase"] == "Succeeded"

    node.do(lambda: loud.bridge.set(Mode.ANSWERS))
    until(lambda: not loud.unfinished() or None, lambda: f"{loud.finished()} of 50 have ended")
    assert loud.finished() == 50


def test_a_bridge_that_floods_events_takes_neither_the_lease_nor_the_answers_of_another(tenants: Tenants) -> None:
    loud, quiet, node, home = tenants.loud, tenants.quiet, tenants.node, tenants.site.namespace
    (before,) = tenants.kube.list("leases", home)
    node.do(lambda: loud.bridge.set(flooding=True))
    until(lambda: loud.bridge.processed * FLOOD > BURST // 2048 or None, "the stream is not read beyond its burst")

    for _ in range(10):
        assert tenants.answer(quiet)["phase"] == "Succeeded"

    def renewed() -> bool | None:
        (lease,) = tenants.kube.list("leases", home)
        assert lease["spec"]["holderIdentity"] == before["spec"]["holderIdentity"]
        assert lease["spec"].get("leaseTransitions") == before["spec"].get("leaseTransitions")
        return lease["spec"]["renewTime"] != before["spec"]["renewTime"] or None

    until(renewed, "the lease is not renewed")
    until(tenants.operator.leads, "it does not lead any more")


def test_a_bridge_that_floods_each_new_connection_keeps_nobody_waiting(tenants: Tenants) -> None:
    loud, quiet, node = tenants.loud, tenants.quiet, tenants.node
    loud.bridge.ends_streams = True
    node.do(lambda: loud.bridge.set(flooding=True))
    before = loud.bridge.connections
    until(lambda: loud.bridge.connections > before + 3 or None, "it is not connected to again")

    for _ in range(5):
        assert tenants.answer(quiet)["phase"] == "Succeeded"

    until(tenants.operator.leads, "it does not lead any more")
