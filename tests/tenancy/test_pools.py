"""What a tenant's pools and claims do to the pool and the instances of another: nothing."""

from __future__ import annotations

import os

import pytest

from efrit import resources
from tests.cluster.control_plane import ControlPlane
from tests.support.crowd import objects
from tests.support.crowd.cgroup import memory_of
from tests.support.kube import Json, until
from tests.support.site import EPHEMERAL
from tests.support.tenants import POOL, Tenant, Tenants
from tests.tenancy.test_memory import allowance

FLOWS = 1000
"""Of a pool that are counted each for itself."""
PENDING = FLOWS + 100
SERVED = 100
CLAIMS = 1000
FLOWS_REPORTED = 10
TEMPLATE_BYTES = 100_000
LABEL = {"fairness": {"flowLabel": "flow"}}


def pool_status(tenants: Tenants, tenant: Tenant) -> Json:
    status: Json = tenants.kube.get("efritpools", tenant.namespace, POOL).get("status", {})
    return status


def until_pool(tenants: Tenants, tenant: Tenant, **expected: object) -> None:
    def reached() -> bool | None:
        return expected.items() <= pool_status(tenants, tenant).items() or None

    until(reached, lambda: f"not {expected}: {pool_status(tenants, tenant)}\n{tenants.operator.diagnostics()}")


def test_requests_that_wait_in_more_flows_than_are_counted_keep_no_other_pool_waiting(
    tenants: Tenants, plane: ControlPlane
) -> None:
    loud, quiet = tenants.loud, tenants.quiet
    tenants.pool(loud, 0, **LABEL)
    tenants.pool(quiet)
    flows = (objects.of_pool(f"w{n}", loud.namespace, POOL, flow=f"flow-{n}") for n in range(PENDING))
    assert objects.store(plane.ports.etcd, flows) == PENDING
    until_pool(tenants, loud, pending=PENDING)

    assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    assert tenants.answer(quiet)["phase"] == "Succeeded"
    assert tenants.answer(loud)["phase"] == "Succeeded"

    # All flows beyond those that are counted are one, and a status names ten.
    flows = pool_status(tenants, loud)["flows"]
    assert len(flows) == FLOWS_REPORTED
    assert flows[0] == {"name": "(others)", "running": 0, "pending": PENDING - FLOWS}
    if os.geteuid() == 0:
        assert memory_of(tenants.operator.process.pid).peak < allowance(open_requests=PENDING, instances=3)

    # Nor does it while they are answered.
    tenants.kube.patch("efritpools", loud.namespace, POOL, {"spec": {"replicas": 1}})
    (name,) = until(lambda: tenants.members(loud, 1), "there is no member")
    bridge = tenants.node.play(loud.namespace, name)
    assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    until(lambda: len(bridge.handed_over) >= SERVED or None, lambda: f"{len(bridge.handed_over)} are handed over")
    assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    handed_over = list(bridge.handed_over)
    assert len(set(handed_over)) == len(handed_over)


def test_a_thousand_claims_and_a_pool_that_changes_all_the_time_keep_no_other_pool_waiting(
    tenants: Tenants, plane: ControlPlane
) -> None:
    loud, quiet = tenants.loud, tenants.quiet
    tenants.pool(loud, 0)
    tenants.pool(quiet)
    # Before it is known, claims wait for another reason.
    until_pool(tenants, loud, observedGeneration=1)
    claims = (objects.claim(f"c{n}", loud.namespace, POOL) for n in range(CLAIMS))
    assert objects.store(plane.ports.etcd, claims) == CLAIMS
    until(lambda: not _not_waiting(tenants, loud) or None, "not all claims say why they wait")
    before = _versions(tenants, loud)
    assert len(before) == CLAIMS

    for number in range(1, 31):
        fairness = {"flowLabel": f"flow{number}", "weights": {f"f{number}": number}}
        change = {"fairness": fairness, "placement": {"maxLoadPerInstance": number}}
        tenants.kube.patch("efritpools", loud.namespace, POOL, {"spec": change})
        if number % 10 == 0:
            assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    generation = tenants.kube.get("efritpools", loud.namespace, POOL)["metadata"]["generation"]
    until_pool(tenants, loud, observedGeneration=generation)

    # A claim that waits for the same reason is not written again, however often the pool changes.
    assert _versions(tenants, loud) == before
    tenants.kube.create("efritclaims", quiet.namespace, _claim("mine"))
    until(
        lambda: _phase(tenants.kube.get("efritclaims", quiet.namespace, "mine")) == "Bound" or None,
        "the claim of the other tenant is not bound",
    )
    if os.geteuid() == 0:
        # Of a claim the controller keeps no more than of an open request.
        assert memory_of(tenants.operator.process.pid).peak < allowance(open_requests=CLAIMS, instances=4)


def _claim(name: str, pool: str = POOL) -> Json:
    return {"metadata": {"name": name}, "spec": {"poolRef": {"name": pool}}}


def _waiting(tenants: Tenants, tenant: Tenant) -> int:
    claims = tenants.kube.list("efritclaims", tenant.namespace)
    return sum(_phase(claim) == "Pending" for claim in claims)


def _not_waiting(tenants: Tenants, tenant: Tenant) -> list[Json]:
    """Return one of the claims that are not known to wait, if there is any: the list of all would be polled."""
    return tenants.kube.list("efritclaims", tenant.namespace, fieldSelector="status.phase!=Pending", limit="1")


def _versions(tenants: Tenants, tenant: Tenant) -> dict[str, str]:
    claims = tenants.kube.list("efritclaims", tenant.namespace)
    return {claim["metadata"]["name"]: claim["metadata"]["resourceVersion"] for claim in claims}


def _phase(claim: Json) -> str:
    return str(claim.get("status", {}).get("phase", ""))


def test_a_template_of_a_hundred_kilobytes_keeps_no_other_pool_waiting(tenants: Tenants) -> None:
    loud, quiet = tenants.loud, tenants.quiet
    large = {**EPHEMERAL, "podTemplate": {"affinity": objects.affinity(TEMPLATE_BYTES, random=True)}}
    tenants.pool(loud, 1, template={"spec": large})
    tenants.pool(quiet)
    for number in range(5):
        # Each is another template: a member more, as many at a time as the pool may have.
        labels = {"metadata": {"labels": {"number": str(number)}}}
        tenants.kube.patch("efritpools", loud.namespace, POOL, {"spec": {"template": labels}})
        assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    members = tenants.kube.list("efritinstances", loud.namespace)
    assert sum(one["metadata"]["name"].startswith(f"{POOL}-") for one in members) <= 2
    if os.geteuid() == 0:
        assert memory_of(tenants.operator.process.pid).peak < allowance(open_requests=5, instances=6)


@pytest.mark.parametrize("by", ["a request", "a claim", "a member that names the owner", "a label"])
def test_what_names_the_pool_of_another_tenant_does_not_reach_it(tenants: Tenants, by: str) -> None:
    loud, quiet = tenants.loud, tenants.quiet
    (bridge,) = tenants.pool(quiet)
    owner = tenants.kube.get("efritpools", quiet.namespace, POOL)["metadata"]["uid"]
    match by:
        case "a request":
            loud.ask("foreign", POOL)
            until(lambda: loud.status("foreign").get("reason") or None, "it says nothing")
            assert not loud.status("foreign").get("instanceName")
        case "a claim":
            tenants.kube.create("efritclaims", loud.namespace, _claim("foreign"))
            until(lambda: _waiting(tenants, loud) or None, "it says nothing")
            claim = tenants.kube.get("efritclaims", loud.namespace, "foreign")
            assert claim["status"]["conditions"][0]["reason"] == "PoolMissing"
        case _:
            reference = resources.POOLS.reference(POOL, owner)
            owners = [{**reference, "controller": True}] if by.startswith("a member") else []
            labels = {"efrit.dev/pool": POOL}
            manifest: Json = {"metadata": {"name": "thief", "labels": labels, "ownerReferences": owners}}
            tenants.kube.create("efritinstances", loud.namespace, {**manifest, "spec": {}})
            thief = tenants.node.play(loud.namespace, "thief")
            tenants.until_ready(loud, "thief", status="True")

    for _ in range(3):
        assert tenants.answer(quiet, pool=POOL)["phase"] == "Succeeded"
    assert len(bridge.handed_over) == 3
    until_pool(tenants, quiet, replicas=1)
    if by in ("a label", "a member that names the owner"):
        assert thief.handed_over == []
