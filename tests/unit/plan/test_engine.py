"""One rule of the engine each."""

from __future__ import annotations

import random
from typing import Any

import pytest

from efrit.api import EfritPlan
from efrit.plan.cycle import LONGEST_RESULT
from efrit.plan.engine import Create, Wait
from efrit.plan.lisp_calls import arguments_of, unpacked
from efrit.plan.status import status_of
from efrit.plan.view import describe
from tests.unit.plan.world import Answers, Json, Model, World, done, navigator_answer, plan_json, scripted

ONE = [{"name": "a", "description": "do it"}]
LOST = {"code": "efrit-plan-disk", "message": "No space left on device."}
MIXED = "".join(random.Random(18).choices('"\\\nßa', k=200_000))  # noqa: S311 - no secret
AWAY = {"reason": "ModelError", "error": {"code": "connect", "message": "Nobody answers."}}


def world(model: Model | None = None, tasks: list[Json] = ONE, **spec: Any) -> World:
    return World(plan_json(tasks=tasks, **spec), model or scripted())


def parts(here: World) -> list[str]:
    return [name.split("-", 2)[2] for name in here.created]


def content(here: World, part: str) -> str:
    return str(here.requests[here.name_of(part)]["spec"]["content"])


def until(here: World, created: str) -> None:
    while not here.created or not here.created[-1].endswith(created):
        assert here.turn() is None


def test_a_cycle_is_act_assess_adapt_with_a_commit_after_each_change() -> None:
    here = world(assess={"build": ["make"]})
    assert here.run().reason == "Succeeded"
    cycle = ["1-act", "1-commit-act", "2-facts", "2-assess", "2-adapt", "2-commit-adapt"]
    assert parts(here) == ["0-begin", *cycle, "3-facts", "3-assess", "3-adapt", "3-commit-adapt"]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        ({"result": 'Wrote "a".\nIt works.'}, 'Wrote "a".\nIt works.'),
        ({"result": "bell \a"}, "bell \ufffd"),
        ({"result": "half", **AWAY}, "It ended ModelError: Nobody answers.\nhalf"),
    ],
)
def test_what_the_executor_said_is_committed_with_the_act(act: Json, text: str) -> None:
    here = world(scripted(act_a=[act]))
    here.run()
    result = unpacked(arguments_of(content(here, "1-commit-act"))["result"])
    outcome = "Failure" if "error" in act else "Success"
    assert result == {"task": "a", "outcome": outcome, "text": text}


@pytest.mark.parametrize("result", ['"\\' * 100_000, "\n" * 100_000, "ß🙂" * 100_000, "\0" * 100_000, MIXED])
@pytest.mark.parametrize("room", [16_384, 65_536, 262_144])
def test_what_is_kept_of_what_the_executor_said_is_bounded_and_fits_a_request(result: str, room: int) -> None:
    here = world(scripted(act_a=[{"result": result}]))
    here.max_content_bytes = room
    assert here.run().reason == "Succeeded"
    sent = content(here, "1-commit-act")
    text = unpacked(arguments_of(sent)["result"])["text"]
    assert len(text.encode()) <= min(LONGEST_RESULT, room // 8)
    assert "bytes and more are left out here" in text
    assert len(sent.encode()) < room


def test_every_request_may_run_again_and_none_is_deleted_by_itself() -> None:
    here = world()
    here.run()
    for request in here.requests.values():
        assert request["spec"]["retryPolicy"] == "IfInterrupted"
        assert "ttlSecondsAfterFinished" not in request["spec"]


def test_an_empty_intent_is_planned_first() -> None:
    plan = {"operation": "insert", "parent": "root", "tasks": [{"type": "atomic", "description": "all of it"}]}
    here = world(scripted(adapt_root=[navigator_answer("open", "this is what it takes", plan), done()]), tasks=[])
    assert here.run().reason == "Succeeded"
    assert here.repository.commit_lines() == ["begin", "1 adapt root", "2 act 1.1", "3 adapt 1.1", "4 adapt root"]


def test_a_plan_of_another_uid_has_other_names() -> None:
    first, second = world(), world()
    second.plan["metadata"]["uid"] = "another"
    first.turn(), second.turn()
    assert first.created != second.created


def test_suspended_it_asks_for_nothing_more() -> None:
    here = world()
    until(here, "1-act")
    here.plan["spec"]["suspend"] = True
    for _ in range(5):
        assert here.turn() is None
    assert here.created[-1].endswith("1-act")
    assert "suspended" in here.decisions[-1].message
    here.plan["spec"]["suspend"] = False
    assert here.run().reason == "Succeeded"


def test_cancelled_it_stops_what_is_open_and_ends() -> None:
    here = world()
    until(here, "1-act")
    here.plan["spec"]["cancel"] = True
    end = here.run()
    assert (end.outcome, end.reason) == ("Failure", "Cancelled")
    assert any(decision.cancel == (here.created[-1],) for decision in here.decisions)
    assert here.created[-1].endswith("1-act")


def test_cancelled_with_something_done_it_ends_partial() -> None:
    here = world()
    until(here, "3-assess")
    here.plan["spec"]["cancel"] = True
    assert here.run().outcome == "Partial"


@pytest.mark.parametrize(
    ("answers", "part"), [({}, "1-commit-act"), ({"commit_act": [{"error": LOST}]}, "1-commit-act-2")]
)
def test_a_commit_that_was_asked_for_is_never_cancelled_nor_its_second_attempt(answers: Answers, part: str) -> None:
    here = world(scripted(**answers))
    until(here, part)
    here.plan["spec"]["cancel"] = True
    assert here.run().reason == "Cancelled"
    assert here.repository.commit_lines() == ["begin", "1 act a"]
    assert all(decision.cancel == () for decision in here.decisions)


def test_the_steps_are_bounded() -> None:
    here = world(scripted(adapt_a=[navigator_answer("failed", "no")] * 9), limits={"maxSteps": 2})
    end = here.run()
    assert (end.outcome, end.reason) == ("Partial", "BudgetExhausted")
    assert "maxSteps" in end.message
    assert here.repository.commit_lines()[-1] == "4 adapt a"


def test_the_tokens_are_bounded_and_what_was_acted_is_committed() -> None:
    here = world(limits={"maxTokens": 15})
    end = here.run()
    assert (end.outcome, end.reason) == ("Partial", "BudgetExhausted")
    assert here.repository.commit_lines() == ["begin", "1 act a"]


@pytest.mark.parametrize(
    ("act", "most", "budget"),
    [
        ({"budget": {"maxTokens": 5_000, "maxToolCalls": 3}}, None, {"maxTokens": 1_000, "maxToolCalls": 3}),
        ({}, 300, {"maxTokens": 300}),
    ],
)
def test_an_act_is_given_no_more_tokens_than_are_left_and_than_its_instance_allows_a_session(
    act: Json, most: int | None, budget: Json
) -> None:
    here = world(limits={"maxTokens": 1_000}, act=act)
    here.max_session_tokens = most
    until(here, "1-act")
    assert here.requests[here.created[-1]]["spec"]["budget"] == budget


def test_no_request_of_a_plan_asks_for_more_time_than_its_instance_allows() -> None:
    here = world(assess={"build": ["make"], "timeoutSeconds": 600})
    here.max_timeout_seconds = 60
    assert here.run().outcome == "Success"
    times = [
        request["spec"]["timeoutSeconds"] for request in here.requests.values() if request["spec"]["type"] == "eval"
    ]
    assert set(times) == {60}
    assert '\\"timeout\\":60' in here.requests[here.created[0]]["spec"]["content"]


def test_the_time_is_bounded_and_what_is_open_then_is_stopped() -> None:
    here = world(limits={"timeoutSeconds": 3})
    end = here.run()
    assert (end.outcome, end.reason) == ("Partial", "BudgetExhausted")
    waits = [decision.action for decision in here.decisions if isinstance(decision.action, Wait)]
    assert any(wait.until is not None for wait in waits)


def test_an_amendment_comes_before_the_next_cycle_and_is_reported() -> None:
    here = world(amendments=["Lines, too."])
    assert here.run().reason == "Succeeded"
    assert here.repository.commit_lines()[:3] == ["begin", "1 amend", "2 act a"]
    assert "Lines, too." in here.requests[here.created[2]]["spec"]["content"]


def test_the_intent_is_not_done_while_an_amendment_waits() -> None:
    here = world(scripted(adapt_refused=[navigator_answer("failed", "lines are missing")]))

    def amend(_: World) -> None:
        if here.created and here.created[-1].endswith("3-adapt"):
            here.plan["spec"]["amendments"] = ["Lines, too."]

    here.before_turn = amend
    assert here.run().reason == "Succeeded"
    assert here.repository.commit_lines()[3:] == ["3 adapt root", "4 amend", "5 adapt root"]


@pytest.mark.parametrize("part", ["act", "assess", "adapt"])
def test_a_model_that_is_away_costs_a_chance_and_is_left_alone_for_a_while(part: str) -> None:
    answers: Answers = {f"{part}_a": [dict(AWAY)]}
    here = world(scripted(**answers))
    assert here.run().reason == "Succeeded"
    assert here.repository.commit_lines().count("2 adapt a") == 1
    failed = here.repository.commits[2]
    assert "Nobody answers" in str(failed["observations"])
    assert any(isinstance(decision.action, Wait) and decision.action.until for decision in here.decisions)


@pytest.mark.parametrize("part", ["assess", "adapt"])
def test_what_cannot_be_read_twice_is_a_failure_of_the_cycle(part: str) -> None:
    answers: Answers = {f"{part}_a": ["Well."], f"{part}_repair": ["Well, well."]}
    here = world(scripted(**answers))
    assert here.run().reason == "Succeeded"
    assert parts(here).count(f"2-{part}-repair") == 1
    assert "no JSON object" in here.repository.commits[2]["subject"]
    assert here.requests[here.name_of(f"2-{part}-repair")]["spec"]["session"]["id"].endswith(f"2-{part}")


def test_a_refused_answer_goes_back_with_the_reason() -> None:
    wrong = navigator_answer("done", "x", {"operation": "remove", "task": "nobody"})
    here = world(scripted(adapt_a=[wrong], adapt_refused=[done("well then")]))
    assert here.run().reason == "Succeeded"
    assert "no task 'nobody'" in here.requests[here.name_of("2-adapt-refused")]["spec"]["content"]
    assert here.repository.commits[2]["subject"] == "[a] ADAPT: well then"


def test_without_a_model_the_plan_is_rejected() -> None:
    end = world(scripted(act_a=[{"reason": "ModelNotConfigured"}])).run()
    assert end.reason == "Rejected"
    assert "spec.model, or EFRIT_MODEL_NAME on a laptop" in end.message


def test_a_commit_is_tried_again_when_the_disk_was_full() -> None:
    here = world(scripted(commit_act=[{"error": LOST}, {"error": LOST}]))
    assert here.run().reason == "Succeeded"
    assert [part for part in parts(here) if part.startswith("1-commit")] == [
        "1-commit-act",
        "1-commit-act-2",
        "1-commit-act-3",
    ]


def test_a_clone_whose_credentials_were_not_there_is_tried_again_with_those_that_are_mounted_then() -> None:
    missing = {"code": "efrit-plan-no-credentials", "message": "The credentials of the clone cannot be read."}
    here = world(
        scripted(begin=[{"error": missing}, {"error": LOST}]), environment={"git": {"url": "https://x.org/a"}}
    )
    here.credentials = "/keys"
    until(here, "0-begin")
    here.credentials = "/elsewhere"
    until(here, "0-begin-2")
    here.credentials = None

    assert here.run().reason == "Succeeded"

    first, second, third = (arguments_of(content(here, part)) for part in ("0-begin", "0-begin-2", "0-begin-3"))
    assert [arguments["environment"].pop("credentialsFile") for arguments in (first, second, third)] == [
        "/keys",
        "/elsewhere",
        "/keys",
    ]
    assert first == second == third


def test_a_workspace_that_fails_for_good_ends_the_plan_in_words() -> None:
    here = world(scripted(commit_act=[{"error": {"code": "efrit-plan-changed", "message": "Changed by hand."}}]))
    end = here.run()
    assert (end.outcome, end.reason) == ("Failure", "WorkspaceFailed")
    assert "Changed by hand." in end.message


def test_a_step_that_somebody_else_made_is_found_out_by_a_look() -> None:
    here = world()
    until(here, "1-commit-act")
    here.repository.call("amend", {"uid": here.plan["metadata"]["uid"], "step": 1, "number": 1, "text": "by hand"})
    assert here.run().reason == "Succeeded"
    assert here.repository.commit_lines()[1:3] == ["1 amend", "2 act a"]
    assert "1-look" in parts(here)


def test_a_workspace_put_back_to_an_older_day_ends_the_plan() -> None:
    here = world()
    until(here, "3-assess")
    del here.repository.commits[2:]
    end = here.run()
    assert end.reason == "WorkspaceFailed"


def test_a_tree_that_a_request_cannot_hold_ends_the_plan_with_what_to_change() -> None:
    here = world()
    until(here, "2-adapt")
    here.turn()
    here.max_content_bytes = 300
    end = here.run()
    assert end.reason == "Rejected"
    assert "at most 300" in end.message
    assert "several plans, or raise spec.limits.maxRequestBytes" in end.message


def test_tasks_that_lie_below_themselves_are_rejected() -> None:
    knot = [
        {"name": "a", "type": "parent", "parent": "b", "description": "x"},
        {"name": "b", "type": "parent", "parent": "a", "description": "y"},
    ]
    assert world(tasks=knot).run().reason == "Rejected"


def test_the_plan_fails_with_its_root() -> None:
    here = world(
        scripted(
            adapt_a=[navigator_answer("failed", "no")] * 5,
            adapt_root=[navigator_answer("failed", "without it, no")] * 5,
        )
    )
    end = here.run()
    assert (end.outcome, end.reason) == ("Failure", "TaskFailed")
    assert "without it, no" in end.message


def test_the_repository_is_asked_anew_now_and_then_and_old_requests_go() -> None:
    tasks = [{"name": f"t{n}", "description": "x"} for n in range(30)]
    here = world(tasks=tasks)
    assert here.run().reason == "Succeeded"
    assert sum(name.endswith("look") for name in here.created) == 3
    assert len(here.requests) < len(here.created) / 2
    assert all(isinstance(decision.action, Create | Wait) for decision in here.decisions[:-1])


def test_a_plan_whose_requests_were_deleted_asks_for_its_repository_once_more() -> None:
    tasks = [{"name": f"t{n}", "description": "x"} for n in range(30)]
    here = world(tasks=tasks)
    until(here, "15-act")
    here.turn()
    here.requests.clear()
    here.forget_models()
    assert here.run().reason == "Succeeded"
    assert sum(name.endswith("0-begin") for name in here.created) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"totals": {"inputTokens": -1}},
        {"totals": {"inputTokens": 2**63}},
        {"totals": {"seconds": float("nan")}},
        {"totals": {"seconds": float("inf")}},
        {"totals": {"seconds": -1.0}},
        {"totals": {"acts": -1}},
        {"step": 2**63},
        {"amendments": 2**63},
        {"commits": [{"hash": "a", "kind": "act", "step": -1}]},
        {"commits": [{"hash": "a", "kind": "act", "step": 1, "task": "t" * 129}]},
    ],
    ids=str,
)
def test_whatever_the_repository_says_of_itself_a_status_can_be_made_of_it(changed: Json) -> None:
    here = world()
    look = here.repository._look
    here.repository._look = lambda arguments: look(arguments) | changed  # type: ignore[method-assign]
    end = here.run()
    assert (end.reason, "0-begin" in end.message) == ("WorkspaceFailed", True)
    plan = EfritPlan.model_validate(here.plan)
    for decision in here.decisions:
        status_of(plan, decision, describe(here.snapshot(), decision), "alpha", here.now)


def test_a_clone_is_asked_for_with_the_place_of_its_credentials() -> None:
    here = world(environment={"git": {"url": "https://git.example/words.git", "branch": "main"}})
    here.turn()
    assert "git.example" in here.requests[here.created[0]]["spec"]["content"]
