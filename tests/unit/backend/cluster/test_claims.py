"""Exclusive claims of a cluster in the client's words, and what is refused before one is made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from efrit.backend.claims import NewClaim
from efrit.backend.cluster.api import Api
from efrit.backend.cluster.claims import claim_member, claim_of, get_claim, list_claims, manifest, release_claim
from efrit.backend.errors import ClaimNotFound, Conflict, Forbidden, NotFound, PoolNotFound, Refused
from efrit.backend.local.backend import LocalBackend
from efrit.protocol.enums import ClaimPhase
from efrit.resources import EXCLUSIVE_CLAIMS, POOLS, Resource

Json = dict[str, Any]
READY = {"type": "Ready", "status": "True", "reason": "Bound", "message": "EfritInstance crew-a is this claim's."}
STATUS = {
    "phase": "Bound",
    "instanceName": "crew-a",
    "boundTime": "2026-01-31T09:30:00Z",
    "expirationTime": "2026-01-31T10:30:00Z",
    "attach": "kubectl exec",
    "conditions": [READY],
}


def claim(name: str = "ada", pool: str = "crew", status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"poolRef": {"name": pool}, **spec}, "status": status or {}}


def test_a_phase_of_a_later_operator_is_shown_as_it_is() -> None:
    held = claim_of(claim(status={**STATUS, "phase": "Renewed"}))
    assert (held.phase, held.settled) == (ClaimPhase.BOUND, True)
    assert held.message.endswith("(phase Renewed: this efrit is older than the operator; update it)")
    assert claim_of(claim(status={"phase": "Parked"})).phase is ClaimPhase.PENDING


class Server:
    """An API server with some pools and claims; pools cannot be read where `forbidden` says so."""

    def __init__(self, *claims: Json, pools: tuple[str, ...] = ("crew",), forbidden: bool = False) -> None:
        self.claims = {claim["metadata"]["name"]: claim for claim in claims}
        self.pools = pools
        self.forbidden = forbidden
        self.paths: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        self.paths.append(resource.path(namespace, name))
        if resource == POOLS and self.forbidden:
            raise Forbidden("forbidden")
        if resource == POOLS and name in self.pools:
            return {"metadata": {"name": name}}
        if resource == EXCLUSIVE_CLAIMS and name in self.claims:
            return self.claims[name]
        raise NotFound("not found")

    async def create(self, body: Json, namespace: str) -> Json:
        name = body["metadata"]["name"]
        if name in self.claims:
            raise Conflict("exists")
        self.claims[name] = body
        return body

    async def patch(self, resource: Resource, namespace: str, name: str, body: Json) -> Json:
        self.claims[name]["spec"] |= body["spec"]
        return self.claims[name]

    @property
    def api(self) -> Api:
        return cast(Api, self)


def test_a_claim_has_what_its_spec_and_status_say() -> None:
    ada = claim_of(claim(status=STATUS, holder="Ada", release="Return"))
    assert (ada.name, ada.pool, ada.phase, ada.instance, ada.ready) == (
        "ada",
        "crew",
        ClaimPhase.BOUND,
        "crew-a",
        True,
    )
    assert (ada.holder, ada.recycle, ada.attach, ada.reason) == ("Ada", False, "kubectl exec", "Bound")
    assert ada.expires == datetime(2026, 1, 31, 10, 30, tzinfo=UTC)
    assert (ada.settled, ada.final) == (True, False)


def test_one_that_no_operator_has_seen_is_pending() -> None:
    ada = claim_of(claim())
    assert (ada.phase, ada.ready, ada.settled, ada.recycle) == (ClaimPhase.PENDING, False, False, True)


def test_what_is_not_said_is_left_to_the_definition() -> None:
    assert manifest(NewClaim("crew"), "ada")["spec"] == {"poolRef": {"name": "crew"}}
    spec = manifest(NewClaim("crew", holder="Ada", ttl=0.5, recycle=False), "ada")["spec"]
    assert spec == {"poolRef": {"name": "crew"}, "holder": "Ada", "ttlSeconds": 1, "release": "Return"}


async def test_a_claim_on_a_pool_that_is_not_there_is_refused_and_nothing_is_made() -> None:
    server = Server()
    with pytest.raises(PoolNotFound, match="no pool 'crwe'"):
        await claim_member(server.api, "team", NewClaim("crwe"))
    assert server.claims == {}


async def test_who_may_not_see_pools_may_claim() -> None:
    made = await claim_member(Server(forbidden=True).api, "team", NewClaim("crew"))
    assert made.name.startswith("crew-")


async def test_an_open_claim_of_the_name_and_pool_is_the_same_claim() -> None:
    server = Server(claim(status=STATUS))
    assert (await claim_member(server.api, "team", NewClaim("crew", "ada"))).instance == "crew-a"


@pytest.mark.parametrize(
    ("existing", "why"),
    [(claim(pool="big"), "is of the pool big"), (claim(status={"phase": "Expired"}), r"has ended \(Expired\)")],
)
async def test_another_claim_of_the_name_is_a_conflict(existing: Json, why: str) -> None:
    with pytest.raises(Conflict, match=why):
        await claim_member(Server(existing).api, "team", NewClaim("crew", "ada"))


@pytest.mark.parametrize("name", ["../pods", "A", "a/b", "", "-"])
async def test_what_cannot_be_a_name_never_becomes_a_part_of_a_url(name: str) -> None:
    server = Server()
    with pytest.raises(Refused, match="cannot be the name of a claim"):
        await claim_member(server.api, "team", NewClaim("crew", name))
    for function in (get_claim, release_claim):
        with pytest.raises(ClaimNotFound, match="no claim"):
            await function(server.api, "team", name)
    assert server.paths == []


async def test_a_claim_is_released_and_one_that_has_ended_is_left_alone() -> None:
    server = Server(claim(), claim("old", status={"phase": "Expired"}))
    await release_claim(server.api, "team", "ada")
    assert server.claims["ada"]["spec"]["released"] is True
    assert (await release_claim(server.api, "team", "old")).phase is ClaimPhase.EXPIRED
    assert "released" not in server.claims["old"]["spec"]


async def test_a_cluster_that_does_not_know_the_kind_has_none() -> None:
    class Old:
        async def pages(self, resource: Resource, namespace: str) -> Any:
            raise NotFound("the server could not find the requested resource")
            yield

    assert await list_claims(cast(Api, Old()), "team") == []


async def test_a_laptop_has_none_and_says_what_to_do() -> None:
    backend = LocalBackend.__new__(LocalBackend)
    for call in (
        backend.claims,
        lambda: backend.claim("a"),
        lambda: backend.claim_member(NewClaim("crew")),
        lambda: backend.release_claim("a"),
    ):
        with pytest.raises(Refused, match="only a cluster has pools to claim a member of") as error:
            await call()
        assert "efrit start NAME" in error.value.advice
    with pytest.raises(Refused):
        backend.watch_claim("a")
