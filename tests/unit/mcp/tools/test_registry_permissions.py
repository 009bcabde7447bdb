"""What a caller over HTTP needs for each tool: the permissions of its definition suffice, and each is required."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from efrit.backend.claims import Claim
from efrit.backend.errors import Forbidden
from efrit.backend.interface import Handle, RequestType, Work
from efrit.backend.plans import Outcome, PlanReason
from efrit.backend.pools import Pool, PoolRevision
from efrit.mcp.access_review import Caller, Permission
from efrit.mcp.authorized_backend import AuthorizedBackend
from efrit.mcp.server import make_server
from efrit.mcp.tools.registry import CLUSTER_TOOLS, TOOLS
from efrit.mcp.tools.tool import Tool
from efrit.protocol.enums import ClaimPhase
from tests.unit.mcp.clients import text_of
from tests.unit.mcp.scripted import ScriptedBackend, evaluated
from tests.unit.mcp.scripted_plans import ScriptedPlans, begin_calc

REGISTERED = {tool.name: tool for tool in (*TOOLS, *CLUSTER_TOOLS)}
EXAMPLES = {
    "change": "suspend",
    "claim_id": "ada",
    "content": "1",
    "instance_id": "default",
    "intent": "Build a calculator",
    "plan_id": "calc",
    "pool": "crew",
    "replicas": 5,
    "revision": 1,
    "text": "And divide.",
    "type": "eval",
}
"""A value for each argument that a tool requires, but for request_id."""


class Reviewer:
    """Allows a set of permissions, each `verb resource`."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed

    async def authenticate(self, token: str) -> Caller | None:
        return Caller(token)

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        return f"{permission.verb} {permission.resource}" in self.allowed


@pytest.fixture
async def request_id(backend: ScriptedBackend, plans: ScriptedPlans) -> str:
    """Make a final request, beside a final plan; return its id."""
    await begin_calc(plans)
    await plans.end("calc", PlanReason.SUCCEEDED, Outcome.SUCCESS)
    backend.answers["1"] = evaluated("1")
    backend.crews["crew"] = Pool("crew", 2, revision="bbbb")
    backend.templates = [PoolRevision(1, "aaaa"), PoolRevision(2, "bbbb", current=True)]
    backend.held["ada"] = Claim("ada", "crew", ClaimPhase.BOUND, instance="crew-a")
    return (await backend.submit(Work(RequestType.EVAL, "1", key="first"))).id


async def call(
    tool: Tool[Any], backend: ScriptedBackend, request_id: str, permissions: frozenset[str]
) -> CallToolResult:
    async def unrestricted() -> ScriptedBackend:
        return backend

    @asynccontextmanager
    async def backend_of(_: object) -> AsyncIterator[AuthorizedBackend]:
        yield AuthorizedBackend(Reviewer(permissions), Caller("ann"), "team", unrestricted)

    schema = tool.input_schema()
    examples: dict[str, Any] = EXAMPLES | {"request_id": request_id}
    missing = [name for name in schema.get("required", ()) if name not in examples]
    assert not missing, f"{tool.name} requires arguments that EXAMPLES of {__name__} lacks: {missing}"
    async with Client(make_server(backend_of, plans=True)) as client:
        return await client.call_tool(
            tool.name, {name: examples[name] for name in schema["properties"] if name in examples}
        )


@pytest.mark.parametrize("name", REGISTERED)
async def test_with_the_permissions_of_its_definition_a_tool_can_be_called(
    name: str, backend: ScriptedBackend, request_id: str
) -> None:
    result = await call(REGISTERED[name], backend, request_id, REGISTERED[name].permissions)
    assert not result.is_error, text_of(result)


@pytest.mark.parametrize(
    ("name", "permission"),
    [(name, permission) for name, tool in REGISTERED.items() for permission in sorted(tool.permissions)],
)
async def test_without_one_of_them_it_is_refused_and_nothing_is_done(
    name: str, permission: str, backend: ScriptedBackend, plans: ScriptedPlans, request_id: str
) -> None:
    tool = REGISTERED[name]
    instances, plan_states, pools = dict(backend.running), dict(plans.states), dict(backend.crews)
    claims = dict(backend.held)
    result = await call(tool, backend, request_id, tool.permissions - {permission})
    assert result.is_error
    assert f"ann may not {permission.split()[0]}" in text_of(result)
    assert (backend.running, plans.states, backend.crews) == (instances, plan_states, pools)
    assert backend.held == claims
    # Watching is authorized after the work was submitted: reading how it goes on is another permission.
    submitted = 2 if (name, permission) == ("efrit_execute", "watch efritrequests") else 1
    assert len(backend.submitted) == submitted


@pytest.mark.parametrize("missing", ["get secrets", "create pods/exec"])
async def test_a_result_that_has_become_long_since_it_was_looked_at_needs_its_permissions_too(
    missing: str, backend: ScriptedBackend, request_id: str
) -> None:
    async def unrestricted() -> ScriptedBackend:
        return backend

    allowed = frozenset({"get efritrequests", "get secrets", "create pods/exec"})
    authorized = AuthorizedBackend(Reviewer(allowed - {missing}), Caller("ann"), "team", unrestricted)
    assert await authorized.result(Handle(request_id)) == "1"
    # The state still says that it is whole.
    backend.whole[request_id] = "secret"
    assert not (await authorized.get(Handle(request_id))).truncated
    with pytest.raises(Forbidden, match=missing):
        await authorized.result(Handle(request_id))


@pytest.mark.parametrize("missing", ["get efritpools", "list efritpools"])
async def test_work_for_a_pool_needs_to_see_the_pools(missing: str, backend: ScriptedBackend) -> None:
    async def unrestricted() -> ScriptedBackend:
        return backend

    needed = {"create efritrequests", "get efritrequests", "list efritrequests", "list efritinstances"}
    pools = {"get efritpools", "list efritpools"}
    work = Work(RequestType.EVAL, "1", pool="crew", key="pooled")
    refused = AuthorizedBackend(Reviewer(frozenset(needed | pools - {missing})), Caller("ann"), "team", unrestricted)
    with pytest.raises(Forbidden, match=missing):
        await refused.submit(work)
    assert not backend.submitted
    allowed = AuthorizedBackend(Reviewer(frozenset(needed | pools)), Caller("ann"), "team", unrestricted)
    await allowed.submit(work)
    assert [submitted.pool for submitted in backend.submitted] == ["crew"]
