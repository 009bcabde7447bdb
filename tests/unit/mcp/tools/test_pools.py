"""Tools for pools: what they return, what a pool that scales itself answers, and former templates."""

import json
from datetime import UTC, datetime

import pytest
from mcp import MCPError
from msgspec.structs import replace

from efrit.backend.pools import Pool, PoolCondition, PoolFlow, PoolRevision, PoolScale
from efrit.mcp.access import Access
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import text_of
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend

CREW = Pool(
    "crew",
    3,
    members=2,
    ready=2,
    idle=1,
    busy=1,
    pending=4,
    flows=(PoolFlow("blue", 1, 4),),
    conditions=(PoolCondition("Backlogged", "True", "WaitingForMember", "4 requests wait."),),
    last_scale=PoolScale(2, 3, "4 requests wait", datetime(2026, 1, 2, tzinfo=UTC)),
)


async def test_pools_are_listed_by_name(backend: ScriptedBackend, call: Call) -> None:
    backend.crews |= {"crew": CREW, "big": Pool("big", 10)}
    listed = structured_content(await call("efrit_list_pools", plans=True))["pools"]
    assert [pool["pool"] for pool in listed] == ["big", "crew"]
    first = structured_content(await call("efrit_list_pools", {"limit": 1}, plans=True))
    assert ([pool["pool"] for pool in first["pools"]], first["left_out"]) == (["big"], 1)
    assert (listed[1]["desired"], listed[1]["ready"], listed[1]["pending"]) == (3, 2, 4)


async def test_a_pool_has_its_conditions_flows_and_last_scale(backend: ScriptedBackend, call: Call) -> None:
    backend.crews["crew"] = CREW
    pool = structured_content(await call("efrit_get_pool", {"pool": "crew"}, plans=True))
    assert pool["flows"] == [{"name": "blue", "running": 1, "pending": 4}]
    assert pool["conditions"][0]["message"] == "4 requests wait."
    assert (pool["last_scale"]["before"], pool["last_scale"]["after"]) == (2, 3)


async def test_a_pool_that_is_not_there_is_an_error_that_names_the_tool_to_use(call: Call) -> None:
    result = await call("efrit_get_pool", {"pool": "nobody"}, plans=True)
    assert result.is_error
    assert "efrit_list_pools lists the pools" in text_of(result)


async def test_a_pool_is_scaled(backend: ScriptedBackend, call: Call) -> None:
    backend.crews["crew"] = CREW
    scaled = structured_content(await call("efrit_scale_pool", {"pool": "crew", "replicas": 5}, plans=True))
    assert (scaled["desired"], scaled["members"], backend.crews["crew"].desired) == (5, 2, 5)


async def test_a_pool_that_scales_itself_refuses_with_the_reason(backend: ScriptedBackend, call: Call) -> None:
    backend.crews["crew"] = Pool("crew", 3, autoscaled=True)
    result = await call("efrit_scale_pool", {"pool": "crew", "replicas": 5}, plans=True)
    assert result.is_error
    assert "either spec.replicas or spec.autoscaling" in text_of(result)


@pytest.fixture
def crew(backend: ScriptedBackend) -> ScriptedBackend:
    """Return a backend with a pool whose second template is broken."""
    backend.crews["crew"] = replace(CREW, revision="bbbb")
    backend.templates = [
        PoolRevision(1, "aaaa", members=2, template={"spec": {"image": "good"}}),
        PoolRevision(2, "bbbb", current=True, template={"spec": {"image": "broken"}}),
    ]
    return backend


@pytest.mark.usefixtures("crew")
async def test_the_templates_of_a_pool_are_listed_and_one_is_returned_where_it_is_asked_for(call: Call) -> None:
    history = structured_content(await call("efrit_get_pool_history", {"pool": "crew"}, plans=True))
    assert history == {
        "pool": "crew",
        "revisions": [
            {"revision": 1, "digest": "aaaa", "current": False, "members": 2},
            {"revision": 2, "digest": "bbbb", "current": True},
        ],
    }
    one = structured_content(await call("efrit_get_pool_history", {"pool": "crew", "revision": 1}, plans=True))
    assert one["template"] == {"spec": {"image": "good"}}


@pytest.mark.usefixtures("crew")
async def test_a_revision_that_is_not_kept_is_an_error_that_names_those_that_are(call: Call) -> None:
    result = await call("efrit_get_pool_history", {"pool": "crew", "revision": 7}, plans=True)
    assert result.is_error
    assert "crew has no revision 7. Revisions that are kept: 1, 2." in text_of(result)


async def test_a_former_template_is_restored_and_the_call_repeated_changes_nothing(
    crew: ScriptedBackend, call: Call
) -> None:
    undo = {"pool": "crew", "revision": 1}
    undone = structured_content(await call("efrit_undo_pool", undo, plans=True))
    assert (undone["changed"], undone["fields"], crew.crews["crew"].revision) == (True, ["spec.image"], "aaaa")
    # A revision without a number would be the one before, which is the broken one by now.
    without_number = await call("efrit_undo_pool", {"pool": "crew"}, plans=True)
    assert "Wrong arguments: revision" in text_of(without_number)
    current = structured_content(await call("efrit_undo_pool", undo | {"revision": 2}, plans=True))
    assert (current["changed"], crew.crews["crew"].revision) == (False, "aaaa")


@pytest.mark.usefixtures("crew")
async def test_a_template_that_is_not_kept_is_not_restored(call: Call) -> None:
    result = await call("efrit_undo_pool", {"pool": "crew", "revision": 7}, plans=True)
    assert result.is_error
    assert "crew has no revision 7" in text_of(result)


@pytest.mark.parametrize("name", ["../secrets/key", "a/b", ""])
async def test_a_name_that_is_none_is_refused_before_anything_is_read(call: Call, name: str) -> None:
    result = await call("efrit_scale_pool", {"pool": name, "replicas": 5}, plans=True)
    assert "Wrong arguments: pool" in text_of(result)


async def test_the_pools_are_resources_with_completion(backend: ScriptedBackend, open_client: Open) -> None:
    backend.crews["crew"] = CREW
    async with open_client(plans=True) as client:
        all_of_them = (await client.read_resource("efrit://pools")).contents[0]
        one = (await client.read_resource("efrit://pools/crew")).contents[0]
        assert json.loads(str(getattr(all_of_them, "text", "")))["pools"][0]["pool"] == "crew"
        assert json.loads(str(getattr(one, "text", "")))["flows"][0]["pending"] == 4
        with pytest.raises(MCPError, match="no resource efrit://pools/nobody"):
            await client.read_resource("efrit://pools/nobody")


async def test_a_server_that_changes_nothing_shows_pools_and_changes_none(open_client: Open) -> None:
    async with open_client(Access.READ_ONLY, plans=True) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"efrit_list_pools", "efrit_get_pool", "efrit_get_pool_history"} <= names
    assert not names & {"efrit_scale_pool", "efrit_undo_pool"}
