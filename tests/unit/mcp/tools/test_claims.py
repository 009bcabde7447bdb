"""Tools for exclusive claims: a member at once, one that has to be waited for, and the end of a claim."""

import pytest

from efrit.backend.claims import Claim
from efrit.backend.pools import Pool
from efrit.mcp.access import Access
from efrit.protocol.enums import ClaimPhase
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import text_of
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend


@pytest.fixture(autouse=True)
def _crew(backend: ScriptedBackend) -> None:
    backend.crews["crew"] = Pool("crew", 2)


async def test_a_claim_has_the_member_that_it_got(backend: ScriptedBackend, call: Call) -> None:
    backend.free.append("crew-a")
    claim = structured_content(await call("efrit_claim_member", {"pool": "crew", "claim_id": "ada"}, plans=True))
    assert (claim["claim_id"], claim["phase"], claim["instance_id"], claim["ready"]) == (
        "ada",
        "Bound",
        "crew-a",
        True,
    )


async def test_where_none_is_free_the_claim_says_so_and_goes_on_when_it_is_called_again(
    backend: ScriptedBackend, call: Call
) -> None:
    arguments = {"pool": "crew", "claim_id": "ada", "timeout": 0.01}
    waits = structured_content(await call("efrit_claim_member", arguments, plans=True))
    assert (waits["phase"], waits["reason"], waits["message"]) == ("Pending", "Waiting", "None is free.")
    backend.free.append("crew-a")
    claim = structured_content(await call("efrit_claim_member", {**arguments, "timeout": 60}, plans=True))
    assert (claim["phase"], claim["instance_id"], list(backend.held)) == ("Bound", "crew-a", ["ada"])


async def test_without_a_time_to_wait_it_is_returned_as_it_was_made(backend: ScriptedBackend, call: Call) -> None:
    backend.free.append("crew-a")
    made = structured_content(await call("efrit_claim_member", {"pool": "crew", "timeout": 0}, plans=True))
    assert (made["phase"], backend.free) == ("Pending", ["crew-a"])


async def test_claims_are_listed_by_name_and_released(backend: ScriptedBackend, call: Call) -> None:
    for name in ("bob", "ada"):
        backend.held[name] = Claim(name, "crew", ClaimPhase.BOUND, instance=f"crew-{name}")
    listed = structured_content(await call("efrit_list_claims", plans=True))["claims"]
    assert [claim["claim_id"] for claim in listed] == ["ada", "bob"]
    first = structured_content(await call("efrit_list_claims", {"limit": 1}, plans=True))
    assert ([claim["claim_id"] for claim in first["claims"]], first["left_out"]) == (["ada"], 1)
    released = structured_content(await call("efrit_release_claim", {"claim_id": "ada"}, plans=True))
    assert (released["phase"], backend.held["bob"].phase) == ("Released", ClaimPhase.BOUND)


async def test_what_is_not_there_is_an_error_that_names_the_tool_to_use(call: Call) -> None:
    result = await call("efrit_release_claim", {"claim_id": "nobody"}, plans=True)
    assert result.is_error
    assert "efrit_list_claims lists the claims" in text_of(result)
    result = await call("efrit_claim_member", {"pool": "nobody"}, plans=True)
    assert "efrit_list_pools lists the pools" in text_of(result)


@pytest.mark.parametrize("name", ["../secrets/key", "a/b", "A", ""])
async def test_a_name_that_is_none_is_refused_before_anything_is_read(call: Call, name: str) -> None:
    result = await call("efrit_release_claim", {"claim_id": name}, plans=True)
    assert "Wrong arguments: claim_id" in text_of(result)


@pytest.mark.parametrize(
    ("access", "offered"),
    [
        (Access.READ_ONLY, {"efrit_list_claims"}),
        (Access.NOT_DESTRUCTIVE, {"efrit_list_claims", "efrit_claim_member"}),
        (Access.FULL, {"efrit_list_claims", "efrit_claim_member", "efrit_release_claim"}),
    ],
)
async def test_a_server_offers_what_its_access_allows(access: Access, offered: set[str], open_client: Open) -> None:
    async with open_client(access, plans=True) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert {name for name in names if "claim" in name} == offered
