"""Exclusive claims at a real API server and a real operator, through the program and the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.client import ClaimNotFound, Conflict, PoolNotFound, Refused, WaitTimeout, connect
from tests.cluster.control_plane import ControlPlane
from tests.support.efrit_program import Program
from tests.support.kube import Kube, until
from tests.support.site import EPHEMERAL
from tests.support.timeout import TIMEOUT


@pytest.fixture(scope="module", autouse=True)
def crew(in_a_cluster: Program, kube: Kube) -> Iterator[None]:
    """Make a pool of one member, which is made again when it is claimed."""
    namespace, spec = in_a_cluster.where[1], {"replicas": 1, "template": {"spec": EPHEMERAL}}
    kube.create("efritpools", namespace, {"metadata": {"name": "crew"}, "spec": spec})
    yield
    # Other files share the namespace, and nothing collects what a pool owns.
    kube.patch("efritpools", namespace, "crew", {"spec": {"replicas": 0}})

    def is_empty() -> bool:
        instances = kube.list("efritinstances", namespace)
        return not any(instance["metadata"]["name"].startswith("crew-") for instance in instances)

    until(is_empty, "the pool has members", TIMEOUT)
    kube.delete("efritpools", namespace, "crew")


def test_a_member_is_claimed_used_shown_and_released(in_a_cluster: Program, kube: Kube) -> None:
    claimed = in_a_cluster.run(
        "claim", "crew", "--name", "bob", "--ttl", "8h", "--holder", "Bob", "--for", f"{TIMEOUT:.0f}s"
    )
    assert claimed.code == 0, claimed
    member = in_a_cluster.run("claims", "bob", "-o", "json").json["instance"]
    assert claimed.out.splitlines()[0].startswith(f"bob has {member} until ")
    assert f"attach {member}" in claimed.out
    assert in_a_cluster.ok("eval", "-i", member, "(+ 1 2)") == "3\n"
    row = next(line.split() for line in in_a_cluster.ok("claims").splitlines() if line.startswith("bob"))
    assert row[:6] == ["bob", "crew", "Bound", member, "yes", "Bob"]
    assert in_a_cluster.ok("claim", "crew", "--name", "bob", "-o", "name") == "bob\n"

    assert in_a_cluster.ok("release", "bob") == f"bob is released; {member} is deleted\n"
    namespace = in_a_cluster.where[1]
    until(
        lambda: kube.get("efritclaims", namespace, "bob")["status"]["phase"] == "Released",
        "it is not released",
        TIMEOUT,
    )
    assert member not in [instance["metadata"]["name"] for instance in kube.list("efritinstances", namespace)]
    assert in_a_cluster.ok("release", "bob") == "bob has ended already (Released)\n"
    taken = in_a_cluster.run("claim", "crew", "--name", "bob")
    assert (taken.code, "has ended (Released)" in taken.err) == (2, True), taken


def test_a_claim_on_a_pool_without_members_waits_and_says_why(in_a_cluster: Program, kube: Kube) -> None:
    def says_why() -> bool:
        waits = in_a_cluster.run("claim", "nobody", "--name", "late", "--for", "1s")
        assert (waits.code, waits.out) == (9, "")
        assert "release late" in waits.err
        return "EfritPool nobody has spec.replicas 0: waiting until it has members" in waits.err

    until(says_why, "it does not say why it waits")
    assert kube.get("efritclaims", in_a_cluster.where[1], "late")["status"]["phase"] == "Pending"
    assert in_a_cluster.ok("release", "late") == "late is released; it had no member\n"


def test_what_is_not_there_is_named(in_a_cluster: Program) -> None:
    for words, why in (
        (("claim", "crwe"), "no pool 'crwe'"),
        (("release", "x"), "no claim 'x'"),
        (("claims", "x"), "no claim"),
    ):
        missing = in_a_cluster.run(*words)
        assert (missing.code, why in missing.err) == (8, True), missing


def test_a_program_in_python_claims_and_releases(plane: ControlPlane, in_a_cluster: Program) -> None:
    with connect(kubeconfig=plane.kubeconfig, namespace=in_a_cluster.where[1]) as client:
        claim = client.claim_member("crew", name="py", ttl=600, wait=TIMEOUT)
        assert claim.instance is not None
        assert client.eval("(* 6 7)", instance=claim.instance).result == "42"
        assert client.claim_member("crew", name="py").instance == claim.instance
        assert client.claim("py").attach == claim.attach
        with pytest.raises(WaitTimeout, match="has no member yet"):
            client.claim_member("nobody", name="slow", wait=0.5)
        assert client.claim_member("nobody", name="slow", wait=0).instance is None
        with pytest.raises(Conflict, match="is of the pool crew"):
            client.claim_member("nobody", name="py")
        with pytest.raises(PoolNotFound):
            client.claim_member("crwe")
        for name in ("py", "slow"):
            client.release_claim(name)
        assert {claim.name for claim in client.claims()} >= {"py", "slow"}
        with pytest.raises(ClaimNotFound):
            client.release_claim("none")


def test_a_laptop_says_that_only_a_cluster_has_them(on_this_machine: Program, tmp_path: Path) -> None:
    for words in (("claim", "crew"), ("claims",), ("release", "x")):
        refused = on_this_machine.run(*words)
        assert (refused.code, "only a cluster has pools to claim a member of" in refused.err) == (2, True), refused
    with connect(backend="local") as client, pytest.raises(Refused, match="only a cluster"):
        client.claim_member("crew")
