"""The tools for plans, seen by a client."""

import json
from typing import Any

import anyio
import pytest
from mcp import MCPError
from msgspec.structs import replace

from efrit.backend.errors import Forbidden
from efrit.backend.plans import Intent, NewPlan, Outcome, PlanReason
from efrit.mcp.access import Access
from efrit.mcp.schema_models import LISTED
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import ProgressLog, text_of
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend
from tests.unit.mcp.scripted_plans import COMMIT, HISTORY, ScriptedPlans, at_work, begin_calc

CALC = {"intent": "Build a calculator", "plan_id": "calc"}


async def test_the_arguments_reach_the_plan(call: Call, plans: ScriptedPlans) -> None:
    arguments = CALC | {
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
    assert not (await call("efrit_run_plan", arguments, plans=True)).is_error
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


async def test_a_plan_is_reported_whole_and_as_text(call: Call, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    await plans.put("calc", **at_work("Act", "a", "[root] ADAPT: Two tasks"))
    result = await call("efrit_get_plan", {"plan_id": "calc"}, plans=True)
    plan = structured_content(result)
    assert json.loads(text_of(result)) == plan
    where = {"plan_id": "calc", "instance_id": "default", "phase": "Running", "final": False}
    assert where.items() <= plan.items()
    assert plan["intent"] == {"description": "Build a calculator", "acceptance_criteria": [], "constraints": []}
    assert [task["id"] for task in plan["tree"]] == ["root", "a", "b"]
    assert plan["commits"][0]["subject"] == "[root] ADAPT: Two tasks"
    assert plan["observations"] == [{"perspective": "build", "statement": "It builds."}]
    assert "outcome" not in plan


async def test_the_key_of_a_call_makes_running_idempotent(call: Call, plans: ScriptedPlans) -> None:
    for _ in range(2):
        await call("efrit_run_plan", {"intent": "x"}, "k", plans=True)
    assert [creation.key for creation in plans.created] == ["k", "k"]
    assert len(plans.states) == 1


async def test_plans_are_listed(call: Call, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    listed = structured_content(await call("efrit_list_plans", plans=True))
    (plan,) = listed["plans"]
    assert (plan["plan_id"], plan["phase"], plan["intent"]) == ("calc", "Running", "Build a calculator")
    assert "left_out" not in listed


async def test_of_many_plans_the_newest_are_listed(call: Call, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    calc = plans.states["calc"]
    for number in range(LISTED):
        plans.states[f"p{number}"] = replace(calc, name=f"p{number}")
    listed = structured_content(await call("efrit_list_plans", plans=True))
    assert (listed["plans"][0]["plan_id"], len(listed["plans"]), listed["left_out"]) == ("p0", LISTED, 1)
    listed = structured_content(await call("efrit_list_plans", {"limit": 2}, plans=True))
    names = [f"p{LISTED - 2}", f"p{LISTED - 1}"]
    assert ([plan["plan_id"] for plan in listed["plans"]], listed["left_out"]) == (names, LISTED - 1)


async def test_a_wait_reports_each_step_and_ends_with_the_plan(open_client: Open, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    log = ProgressLog()

    async def work() -> None:
        await log.until("Running: It acts.")
        await plans.put("calc", **at_work("Act", "a"))
        await log.until("Act a: Add (0 of 3 tasks done)")
        await plans.put("calc", **at_work("Assess", "a", "[a] ACT: Add"))
        await log.until("Assess a: Add (0 of 3 tasks done)")
        await plans.end("calc", PlanReason.SUCCEEDED, Outcome.SUCCESS)

    async with open_client(plans=True) as client, anyio.create_task_group() as group:
        group.start_soon(work)
        arguments = {"plan_id": "calc", "timeout": 60}
        result = await client.call_tool("efrit_wait_plan", arguments, progress_callback=log)
    assert structured_content(result)["outcome"] == "Success"
    assert log.messages == [
        "Running: It acts.",
        "Act a: Add (0 of 3 tasks done)",
        "[a] ACT: Add",
        "Assess a: Add (0 of 3 tasks done)",
        "Succeeded: It is over. (0 of 3 tasks done)",
    ]


async def test_a_wait_that_is_over_leaves_the_plan(call: Call, plans: ScriptedPlans) -> None:
    await begin_calc(plans)
    answer = structured_content(await call("efrit_wait_plan", {"plan_id": "calc", "timeout": 0.05}, plans=True))
    assert (answer["final"], plans.states["calc"].final) == (False, False)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("amend", {"text": "And divide."}, {"amendments": ["And divide."]}),
        ("change", {"change": "suspend"}, {"suspended": True}),
        ("change", {"change": "resume"}, {"suspended": False}),
        ("change", {"change": "cancel"}, {"final": True, "reason": "Cancelled", "outcome": "Failure"}),
    ],
)
async def test_a_plan_is_amended_suspended_and_ended(
    call: Call, plans: ScriptedPlans, tool: str, arguments: dict[str, str], expected: dict[str, Any]
) -> None:
    await begin_calc(plans)
    await plans.put("calc", suspended=arguments.get("change") == "resume")
    answer = structured_content(await call(f"efrit_{tool}_plan", {"plan_id": "calc", **arguments}, plans=True))
    assert expected.items() <= answer.items()


@pytest.mark.parametrize("packed", [False, True])
async def test_the_log_is_of_the_repository(
    call: Call, plans: ScriptedPlans, backend: ScriptedBackend, packed: bool
) -> None:
    await begin_calc(plans)
    plans.replies("calc", HISTORY, 50, packed=packed)
    log = structured_content(await call("efrit_get_plan_log", {"plan_id": "calc"}, plans=True))
    assert (log["plan_id"], log["complete"], log["note"]) == ("calc", True, "")
    assert log["commits"] == [
        {key: COMMIT[key] for key in ("hash", "subject", "kind", "task", "step", "time", "outcome", "seconds")}
        | {"input_tokens": 700, "output_tokens": 30},
        {"hash": "b" * 40, "subject": "by hand"},
    ]
    (work,) = backend.submitted
    assert (work.instance, work.keep, work.retry) == ("default", 600, True)


async def test_a_commit_that_code_in_the_instance_has_made_up_is_refused_in_words(
    call: Call, plans: ScriptedPlans
) -> None:
    await begin_calc(plans)
    plans.replies("calc", {"commits": [COMMIT, {"hash": 7}]}, 50)
    result = await call("efrit_get_plan_log", {"plan_id": "calc"}, plans=True)
    assert result.is_error
    assert text_of(result) == (
        "Refused: the history of calc cannot be read: hash of a commit: Input should be a valid string."
    )


async def test_who_may_not_ask_an_instance_gets_the_commits_of_the_status(
    call: Call, plans: ScriptedPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin_calc(plans)
    await plans.put("calc", **at_work("Act", "a", "first", "second", "third"))

    async def refuse(*_: object) -> None:
        raise Forbidden("you may not create efritrequests")

    monkeypatch.setattr(plans, "plan_history", refuse)
    arguments = {"plan_id": "calc", "limit": 2}
    log = structured_content(await call("efrit_get_plan_log", arguments, access=Access.READ_ONLY, plans=True))
    assert ([commit["subject"] for commit in log["commits"]], log["complete"]) == (["second", "third"], False)
    assert "may not create efritrequests" in log["note"]


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
    call: Call, plans: ScriptedPlans, tool: str, more: dict[str, str]
) -> None:
    result = await call(tool, {"plan_id": "nobody", **more}, plans=True)
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
