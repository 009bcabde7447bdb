"""Exclusive claims on real parts: a holder gets a member of its own, and the pool goes on without it."""

from __future__ import annotations

from typing import Any

from efrit import resources
from tests.support.kube import Json, until
from tests.support.site import Site
from tests.support.timeout import TIMEOUT


def _claim(site: Site, name: str, **spec: Any) -> None:
    manifest = {"metadata": {"name": name}, "spec": {"poolRef": {"name": "crew"}, "holder": "ada", **spec}}
    site.kube.create("efritclaims", site.namespace, manifest, fieldValidation="Strict")


def _status(site: Site, name: str) -> Json:
    status: Json = site.kube.get("efritclaims", site.namespace, name).get("status", {})
    return status


def _until(site: Site, name: str, phase: str, reason: str) -> Json:
    def reached() -> Json | None:
        status = _status(site, name)
        ready: Json = next(iter(status.get("conditions", ())), {})
        return status if (status.get("phase"), ready.get("reason")) == (phase, reason) else None

    return until(reached, lambda: f"{name} is not {phase}, {reason}: {_status(site, name)}\n{site.logs()}", TIMEOUT)


def _owners(site: Site) -> dict[str, str]:
    """Return by name of each instance the kind and name of its owner."""
    result = {}
    for instance in site.kube.list("efritinstances", site.namespace):
        (owner,) = instance["metadata"]["ownerReferences"]
        result[instance["metadata"]["name"]] = f"{owner['kind']} {owner['name']}"
    return result


def _until_refilled(site: Site) -> None:
    """Wait until there are members of the pool alone, and one takes requests: the pool's status may say so before."""
    until(
        lambda: set(_owners(site).values()) == {"EfritPool crew"} or None,
        lambda: f"others are there: {_owners(site)}",
        TIMEOUT,
    )
    site.until_pool(ready=1, idle=1)


def _change(site: Site, name: str, **spec: Any) -> None:
    site.kube.patch("efritclaims", site.namespace, name, {"spec": spec})


def test_two_claims_get_two_members_the_pool_refills_and_only_the_holder_reaches_its_own(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=2)
    site.until_pool(ready=2, idle=2)
    warm = set(_owners(site))
    _claim(site, "one")
    _claim(site, "two", holder="bob")
    one, two = _until(site, "one", "Bound", "Bound"), _until(site, "two", "Bound", "Bound")

    assert {one["instanceName"], two["instanceName"]} == warm
    member = one["instanceName"]
    assert one["attach"] == (
        f"kubectl exec -it -n {site.namespace} efrit-{member}-0 -c emacs -- emacsclient -t -s efrit"
    )
    instance = site.kube.get("efritinstances", site.namespace, member)
    assert instance["metadata"]["uid"] == one["instanceUID"]
    assert instance["metadata"]["labels"]["efrit.dev/claim"] == "one"
    assert _owners(site)[member] == "EfritClaim one"

    site.until_pool(ready=2, replicas=2)
    for number in range(4):
        spec = {"type": "eval", "content": "(+ 1 2)", "poolRef": {"name": "crew"}}
        site.kube.create("efritrequests", site.namespace, {"metadata": {"name": f"p{number}"}, "spec": spec})
    assert {site.answer(f"p{number}")["instanceName"] for number in range(4)}.isdisjoint(warm)
    assert site.answer(site.ask("(+ 1 2)", to=member))["result"] == "3"
    assert _owners(site)[member] == "EfritClaim one"


def test_a_claim_waits_for_its_pool_and_for_a_member_and_counts_as_load_of_one_that_scales(site: Site) -> None:
    site.operator().start()
    _claim(site, "early")
    _until(site, "early", "Pending", "PoolMissing")
    site.pool(autoscaling={"maxReplicas": 2})
    _until(site, "early", "Bound", "Bound")


def test_a_claim_that_expires_recycles_its_member_and_is_deleted_after_its_time(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=1)
    site.until_pool(ready=1, idle=1)
    _claim(site, "short", ttlSeconds=1, ttlSecondsAfterFinished=1)
    until(
        lambda: site.kube.find("efritclaims", site.namespace, "short") is None,
        lambda: f"it outlives its time: {_status(site, 'short')}\n{site.logs()}",
        TIMEOUT,
    )
    _until_refilled(site)


def test_a_member_that_is_released_goes_back_as_it_is_and_the_next_claim_gets_it(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=1)
    site.until_pool(ready=1, idle=1)
    _claim(site, "one", release="Return")
    member = _until(site, "one", "Bound", "Bound")["instanceName"]
    assert site.answer(site.ask("(setq left-behind 7)", to=member))["result"] == "7"
    # Without a member that is made meanwhile.
    site.change_pool(replicas=0)
    site.until_pool(desiredReplicas=0)
    until(lambda: set(_owners(site)) == {member} or None, lambda: f"others are there: {_owners(site)}", TIMEOUT)
    site.change_pool(replicas=1)
    _change(site, "one", released=True)
    assert _until(site, "one", "Released", "Released")["instanceName"] == member
    _claim(site, "two")
    _until(site, "two", "Bound", "Bound")
    until(lambda: "EfritPool crew" in _owners(site).values() or None, "the pool makes no other member", TIMEOUT)


def test_a_claim_whose_member_somebody_deletes_fails_and_gets_no_other(site: Site) -> None:
    site.operator().start()
    site.pool(replicas=1)
    site.until_pool(ready=1, idle=1)
    _claim(site, "one")
    member = _until(site, "one", "Bound", "Bound")["instanceName"]
    site.kube.delete("efritinstances", site.namespace, member)
    assert _until(site, "one", "Failed", "MemberLost")["instanceName"] == member
    _until_refilled(site)


def test_whoever_leads_next_goes_on_with_what_a_claim_has(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.pool(replicas=2)
    site.until_pool(ready=2, idle=2)
    _claim(site, "bound")
    member = _until(site, "bound", "Bound", "Bound")["instanceName"]
    operator.kill()
    # As a controller leaves it that dies between its two writes.
    free = next(name for name, owner in _owners(site).items() if owner == "EfritPool crew")
    _claim(site, "between")
    claim = site.kube.get("efritclaims", site.namespace, "between")["metadata"]
    owner = resources.EXCLUSIVE_CLAIMS.reference("between", claim["uid"], controller=True)
    site.kube.patch("efritinstances", site.namespace, free, {"metadata": {"ownerReferences": [owner]}})
    operator.start()
    assert _until(site, "between", "Bound", "Bound")["instanceName"] == free
    assert _status(site, "bound")["instanceName"] == member
    _change(site, "bound", released=True)
    _until(site, "bound", "Released", "Released")
    until(lambda: member not in _owners(site) or None, "the member of a released claim is still there", TIMEOUT)
    assert _owners(site)[free] == "EfritClaim between"
