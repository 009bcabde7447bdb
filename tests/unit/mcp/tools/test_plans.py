"""The tools for plans, seen by a client."""

import json
from typing import cast

import anyio
import pytest
from mcp import MCPError
from mcp.types import RequestParamsMeta

from efrit.client.errors import Forbidden
from efrit.client.plans import Intent, NewPlan, Outcome, PlanReason
from efrit.mcp.access import Access
from efrit.mcp.tools.call import KEY_META
from tests.support.timeout import TIMEOUT
from tests.unit.mcp.clients import text_of
from tests.unit.mcp.conftest import Open
from tests.unit.mcp.scripted import ScriptedBackend
from tests.unit.mcp.scripted_plans import COMMIT, HISTORY, ScriptedPlans, at_work, begin_calc

CALC = {"intent": "Build a calculator", "plan_id": "calc"}


@pytest.fixture
def told() -> list[str]:
    return []


async def test_the_arguments_reach_the_plan(open_client: Open, plans: ScriptedPlans) -> None:
    given = CALC | {
        "acceptance_criteria": ["It adds."],
        "constraints": ["No network."],
        "instance_id": "*",
        "pool": "many",
        "build": ["make test"],
        "integration": ["make smoke"],
        "quality": ["mypy"],
        "git": {"url": "https://example.org/a.git", "branch": "main", "revision": "v1", "secret": "token"},
        "max_steps": 9,
        "max_tokens": 99,
        "timeout": 7200,
        "act_timeout": 60,
        "idempotency_key": "k",
        "tasks": [
            {"name": "parts", "description": "All", "type": "parent"},
            {"name": "a", "description": "A", "parent": "parts"},
        ],
    }
    async with open_client(plans=True) as client:
        result = await client.call_tool("efrit_run_plan", given)
    assert not result.is_error
    assert plans.created == [
        NewPlan(
            Intent("Build a calculator", ("It adds.",), ("No network.",)),
            name="calc",
            key="k",
            pool="many",
            git_url="https://example.org/a.git",
            git_branch="main",
            git_revision="v1",
            git_secret="token",
            build=("make test",),
            integration=("make smoke",),
            quality=("mypy",),
            act_timeout=60,
            max_steps=9,
            max_tokens=99,
            timeout=7200,
            spec={
                "tasks": [
                    {"name": "parts", "description": "All", "type": "parent"},
                    {"name": "a", "description": "A", "parent": "parts", "type": "atomic"},
                ]
            },
        )
    ]


async def test_a_plan_is_told_whole_and_as_text(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    await plans.put("calc", **at_work("Act", "a", "[root] ADAPT: Two tasks"))
    async with open_client(plans=True) as client:
        result = await client.call_tool("efrit_get_plan", {"plan_id": "calc"})
    found = result.structured_content
    assert found is not None
    assert json.loads(text_of(result)) == found
    assert (found["plan_id"], found["instance_id"], found["phase"], found["final"]) == (
        "calc",
        "default",
        "Running",
        False,
    )
    assert found["intent"] == {"description": "Build a calculator", "acceptance_criteria": [], "constraints": []}
    assert [task["id"] for task in found["tree"]] == ["root", "a", "b"]
    assert found["commits"][0]["subject"] == "[root] ADAPT: Two tasks"
    assert found["observations"] == [{"perspective": "build", "statement": "It builds."}]
    assert "outcome" not in found


async def test_the_key_of_a_call_makes_running_idempotent(open_client: Open, plans: ScriptedPlans) -> None:
    async with open_client(plans=True) as client:
        for _ in range(2):
            await client.call_tool("efrit_run_plan", {"intent": "x"}, meta=cast(RequestParamsMeta, {KEY_META: "k"}))
    assert [each.key for each in plans.created] == ["k", "k"]
    assert len(plans.states) == 1


async def test_plans_are_listed(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    async with open_client(plans=True) as client:
        result = await client.call_tool("efrit_list_plans")
    assert result.structured_content is not None
    (found,) = result.structured_content["plans"]
    assert (found["plan_id"], found["phase"], found["intent"]) == ("calc", "Running", "Build a calculator")


async def test_a_wait_tells_each_step_and_ends_with_the_plan(
    open_client: Open, plans: ScriptedPlans, told: list[str]
) -> None:
    await begin_calc(plans)

    heard, hears = anyio.create_memory_object_stream[str](20)

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        await heard.send(told[-1])

    async def until_told(text: str) -> None:
        with anyio.fail_after(TIMEOUT):
            async for said in hears:
                if said == text:
                    return

    async with open_client(plans=True) as client, anyio.create_task_group() as group:

        async def wait() -> None:
            arguments = {"plan_id": "calc", "timeout": 60}
            result = await client.call_tool("efrit_wait_plan", arguments, progress_callback=progress)
            assert result.structured_content is not None
            told.append(f"ended {result.structured_content['outcome']}")

        group.start_soon(wait)
        await until_told("Running: It acts.")
        await plans.put("calc", **at_work("Act", "a"))
        await until_told("Act a: Add (0 of 3 tasks done)")
        await plans.put("calc", **at_work("Assess", "a", "[a] ACT: Add"))
        await until_told("Assess a: Add (0 of 3 tasks done)")
        await plans.end("calc", PlanReason.SUCCEEDED, Outcome.SUCCESS)
    heard.close()
    hears.close()
    assert told == [
        "Running: It acts.",
        "Act a: Add (0 of 3 tasks done)",
        "[a] ACT: Add",
        "Assess a: Add (0 of 3 tasks done)",
        "Succeeded: It is over. (0 of 3 tasks done)",
        "ended Success",
    ]


async def test_a_wait_that_is_over_leaves_the_plan(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    async with open_client(plans=True) as client:
        result = await client.call_tool("efrit_wait_plan", {"plan_id": "calc", "timeout": 0.05})
    assert result.structured_content is not None
    assert not result.structured_content["final"]
    assert not plans.states["calc"].final


async def test_a_plan_is_amended_suspended_and_ended(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    async with open_client(plans=True) as client:

        async def call(tool: str, **given: str) -> dict[str, object]:
            result = await client.call_tool(tool, {"plan_id": "calc", **given})
            assert result.structured_content is not None
            content: dict[str, object] = result.structured_content
            return content

        assert (await call("efrit_amend_plan", text="And divide."))["amendments"] == ["And divide."]
        assert (await call("efrit_change_plan", change="suspend"))["suspended"] is True
        assert (await call("efrit_change_plan", change="resume"))["suspended"] is False
        ended = await call("efrit_change_plan", change="cancel")
        assert (ended["final"], ended["reason"], ended["outcome"]) == (True, "Cancelled", "Failure")


@pytest.mark.parametrize("packed", [False, True])
async def test_the_log_is_of_the_repository(
    open_client: Open, plans: ScriptedPlans, backend: ScriptedBackend, packed: bool
) -> None:
    await begin_calc(plans)
    plans.tells("calc", HISTORY, 50, packed=packed)
    async with open_client(plans=True) as client:
        result = await client.call_tool("efrit_get_plan_log", {"plan_id": "calc"})
    assert result.structured_content is not None
    found = result.structured_content
    assert (found["plan_id"], found["complete"], found["note"]) == ("calc", True, "")
    assert found["commits"] == [
        {key: COMMIT[key] for key in ("hash", "subject", "kind", "task", "step", "time", "outcome", "seconds")}
        | {"input_tokens": 700, "output_tokens": 30},
        {"hash": "b" * 40, "subject": "by hand"},
    ]
    (work,) = backend.submitted
    assert (work.instance, work.keep, work.retry) == ("default", 600, True)


async def test_who_may_not_ask_an_instance_gets_the_commits_of_the_status(
    open_client: Open, plans: ScriptedPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin_calc(plans)
    await plans.put("calc", **at_work("Act", "a", "first", "second", "third"))

    async def refuse(*_: object) -> None:
        raise Forbidden("you may not create efritrequests")

    monkeypatch.setattr(plans, "plan_history", refuse)
    async with open_client(Access.READ_ONLY, plans=True) as client:
        result = await client.call_tool("efrit_get_plan_log", {"plan_id": "calc", "limit": 2})
    assert result.structured_content is not None
    assert [each["subject"] for each in result.structured_content["commits"]] == ["second", "third"]
    assert result.structured_content["complete"] is False
    assert "may not create efritrequests" in result.structured_content["note"]


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("efrit_get_plan", {}),
        ("efrit_wait_plan", {}),
        ("efrit_amend_plan", {"text": "t"}),
        ("efrit_change_plan", {"change": "cancel"}),
        ("efrit_get_plan_log", {}),
    ],
)
async def test_a_plan_that_is_not_there_is_an_error_that_says_what_to_do(
    open_client: Open, plans: ScriptedPlans, tool: str, more: dict[str, str]
) -> None:
    async with open_client(plans=True) as client:
        result = await client.call_tool(tool, {"plan_id": "nobody", **more})
    assert result.is_error
    assert text_of(result) == "PlanNotFound: there is no plan nobody. efrit_list_plans lists the plans."


async def test_without_plans_there_is_no_tool_no_template_and_no_word_of_them(
    open_client: Open, backend: ScriptedBackend
) -> None:
    async with open_client() as client:
        assert not [tool for tool in (await client.list_tools()).tools if "plan" in tool.name]
        assert "plan" not in str((await client.list_resource_templates()).resource_templates)
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("efrit_run_plan", CALC)
        assert "efrit_run_plan" not in (client.instructions or "")
