"""What a tenant's burst and used-up quota do to another tenant's requests and instances: nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.kube import until
from tests.support.simulated_bridge import Mode
from tests.support.tenants import Tenants

BURST = 300


def test_a_request_overtakes_the_burst_of_another_namespace(tenants: Tenants) -> None:
    loud, quiet, node = tenants.loud, tenants.quiet, tenants.node
    for tenant in (loud, quiet):
        node.do(lambda tenant=tenant: tenant.bridge.set(Mode.FULL))  # type: ignore[misc]
        tenants.until_ready(tenant, reason="DiskFull")
    with ThreadPoolExecutor(4) as creators:
        list(creators.map(loud.ask, (f"b{number}" for number in range(BURST))))
    quiet.ask("one")
    # Both are known, as is why they wait, and no request has a place in the work queue any more.
    until(lambda: quiet.status("one").get("reason") == "InstanceNotReady" or None, "the request is not seen")
    until(lambda: tenants.operator.metric("efrit_open_requests") > BURST or None, "the burst is not seen")

    # All of them become ready in one step, the other tenant's after them: the order tells, and not the clock.
    def both_answer() -> None:
        for tenant in (loud, quiet):
            tenant.bridge.set(Mode.ANSWERS)

    node.do(both_answer)
    until(lambda: loud.bridge.handed_over or None, "none of the burst is handed over")
    until(lambda: quiet.bridge.handed_over or None, "the request is not handed over")

    assert node.order.index(quiet.bridge.name) < BURST / 2
    until(lambda: not loud.unfinished() or None, lambda: f"{loud.finished()} of {BURST} have ended")
    assert loud.finished() == BURST


def test_a_quota_that_is_used_up_is_named_by_the_condition_and_keeps_nobody_else_waiting(tenants: Tenants) -> None:
    loud, quiet = tenants.loud, tenants.quiet
    loud.use_up_quota()
    for number in range(20):
        manifest = {"metadata": {"name": f"more{number}"}, "spec": {}}
        tenants.kube.create("efritinstances", loud.namespace, manifest)

    for number in range(20):
        refused = tenants.until_ready(loud, f"more{number}", status="False", reason="ChildRefused")
        assert "exceeded quota: few" in refused["message"]
    tenants.node.serve(quiet.namespace, ["two"])
    tenants.until_ready(quiet, "two", status="True")
    for tenant in (quiet, loud):
        assert tenants.answer(tenant)["phase"] == "Succeeded"

    loud.drop_quota()
    until(lambda: tenants.kube.find("statefulsets", loud.namespace, "efrit-more0"), "the quota is still in force")
