"""A procedure is replayed from the requests that are recorded, and stops at the first question that is open."""

from __future__ import annotations

from datetime import timedelta

import pytest

from efrit.api import Outcome
from efrit.api.reasons import PlanReason
from efrit.plan.replay import Create, Finish, PlanError, Procedure, Sleep, Wait, ask, budget_exhausted, replay
from efrit.plan.snapshot import Part
from tests.unit.plan.world import World, plan_json, scripted

TASKS = [{"name": "a", "description": "do it"}]
SPEC = {"type": "chat", "content": "Well?"}


def world_at(created: str) -> World:
    """Return a plan whose last request is this part of a step, and still open."""
    world = World(plan_json(tasks=TASKS), scripted())
    while not world.created or not world.created[-1].endswith(f"-{created}"):
        assert world.turn() is None
    return world


def two_questions() -> Procedure[Finish]:
    first = yield from ask(2, Part.ASSESS, lambda: SPEC)
    second = yield from ask(2, Part.ADAPT, lambda: {**SPEC, "content": first.status.result})
    return Finish(Outcome.SUCCESS, PlanReason.SUCCEEDED, second.status.result or "")


def test_the_first_question_without_a_request_is_created_and_one_under_way_is_waited_for() -> None:
    world = world_at("1-act")
    created = replay(two_questions(), world.snapshot(), world.now)
    assert isinstance(created.action, Create)
    assert (created.action.attempt, created.action.step, created.part) == ("assess", 2, Part.ASSESS)
    world = world_at("2-assess")
    waiting = replay(two_questions(), world.snapshot(), world.now)
    assert waiting.action == Wait()
    assert waiting.request is not None
    assert waiting.request.metadata.name == world.created[-1]


def test_a_recorded_answer_is_what_the_question_returns() -> None:
    world = world_at("2-adapt")
    assess = world.requests[world.name_of("2-assess")]["status"]["result"]
    del world.requests[world.name_of("2-adapt")]
    created = replay(two_questions(), world.snapshot(), world.now).action
    assert isinstance(created, Create)
    assert created.spec == {**SPEC, "content": assess, "retryPolicy": "IfInterrupted"}


def test_the_spec_of_a_request_that_is_there_is_not_made_again() -> None:
    def procedure() -> Procedure[Finish]:
        yield from ask(2, Part.ASSESS, pytest.fail)
        return budget_exhausted("questions")

    world = world_at("2-adapt")
    assert replay(procedure(), world.snapshot(), world.now).action == budget_exhausted("questions")


def test_a_pause_counts_from_the_end_of_the_request() -> None:
    world = world_at("2-adapt")
    assess = world.snapshot().requests[world.name_of("2-assess")]
    ended = assess.status.completion_time
    assert ended is not None

    def procedure() -> Procedure[Finish]:
        yield Sleep(assess, timedelta(hours=1), Part.ADAPT)
        return budget_exhausted("patience")

    until = ended + timedelta(hours=1)
    assert replay(procedure(), world.snapshot(), until - timedelta(seconds=1)).action == Wait(until)
    assert replay(procedure(), world.snapshot(), until).action == budget_exhausted("patience")


def test_an_error_of_the_plan_is_its_end() -> None:
    def procedure() -> Procedure[Finish]:
        yield from ask(2, Part.ASSESS, lambda: SPEC)
        raise PlanError(PlanReason.WORKSPACE_FAILED, "No disk.")

    world = world_at("2-adapt")
    stop = replay(procedure(), world.snapshot(), world.now)
    assert stop.action == Finish(Outcome.FAILURE, PlanReason.WORKSPACE_FAILED, "No disk.")


def test_a_procedure_that_asks_without_end_is_stopped() -> None:
    def procedure() -> Procedure[Finish]:
        while True:
            yield from ask(2, Part.ASSESS, lambda: SPEC)

    world = world_at("2-adapt")
    with pytest.raises(AssertionError, match="without end"):
        replay(procedure(), world.snapshot(), world.now)


@pytest.mark.parametrize(
    ("part", "spec", "message"),
    [
        ("1-act", {"type": "chat"}, "has the type chat, but the plan needs command here"),
        ("2-assess", {"type": "eval"}, "has the type eval, but the plan needs chat here"),
        (
            "1-commit-act",
            {"content": '(efrit-plan-look "{}")'},
            "the plan needs a call of efrit-plan-commit-act here",
        ),
    ],
)
@pytest.mark.parametrize("is_final", [False, True])
def test_a_request_that_is_no_answer_to_the_question_ends_the_plan(
    part: str, spec: dict[str, str], message: str, is_final: bool
) -> None:
    world = world_at(part)
    if is_final:
        world.turn()
    request = world.requests[world.name_of(part)]
    request["spec"] |= spec
    world.forget_models()
    end = world.run()
    assert (end.outcome, end.reason) == ("Failure", "Rejected")
    assert f"Request {request['metadata']['name']} " in end.message
    assert message in end.message
    assert "Create a new plan." in end.message
