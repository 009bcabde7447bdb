"""Whole plans, decision by decision: a plan that is under way while the operator is upgraded goes on as it began.

The names and contents of its requests are compared with the files in `golden/`, made by an earlier version. When a
change of them is meant, `python -m tests.unit.plan.test_engine_golden` writes the files anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from efrit.plan.engine import Create, Decision, Finish, Wait
from efrit.plan.view import describe
from tests.support.command_line import parser
from tests.unit.plan import test_engine_crashes
from tests.unit.plan.world import Answers, World, done, navigator_answer, plan_json, scripted

FILES = Path(__file__).with_name("golden")
TASKS = [{"name": name, "description": f"do {name}"} for name in ("a", "b")]
DISK = {"error": {"code": "efrit-plan-disk", "message": "No space left on device."}}
AWAY = {"reason": "ModelError", "error": {"code": "connect", "message": "Nobody answers."}}
TIMED_OUT = {"reason": "TimedOut", "error": {"code": "TimedOut", "message": "It took too long."}}
CLONE = {"git": {"url": "https://git.example/words.git", "branch": "main", "revision": "v1"}}


def every_turn_of_events() -> World:
    """Return a plan with decomposition, a task given up, unreadable and refused answers, and an amendment."""
    return test_engine_crashes.world()


def failures_on_the_way() -> World:
    """Return a plan whose disk is full, whose model is away and whose commands time out, each for a while."""
    model = scripted(
        begin=[dict(DISK)],
        commit_act=[dict(DISK), dict(DISK)],
        facts=[dict(TIMED_OUT), dict(DISK), dict(DISK), dict(DISK)],
        act_a=[dict(AWAY), {"reason": "Partial", "result": "half of it"}, {"reason": "Interrupted"}],
        assess_b=[dict(AWAY)],
        adapt_b=[dict(AWAY)],
    )
    spec: dict[str, Any] = {
        "environment": CLONE,
        "act": {"timeoutSeconds": 99, "budget": {"maxTokens": 5_000, "maxToolCalls": 3}},
        "limits": {"maxTokens": 9_000, "timeoutSeconds": 3_600},
        "assess": {"build": ["make"], "quality": ["lint", "style"], "timeoutSeconds": 70},
    }
    return World(plan_json(tasks=TASKS, **spec), model)


def long_enough_for_looks() -> World:
    """Return a plan whose repository is read again now and then, and whose old requests are deleted."""
    return World(plan_json(tasks=[{"name": f"t{n}", "description": "x"} for n in range(12)]), scripted())


def a_step_made_by_somebody_else() -> World:
    """Return a plan whose repository has a step that none of its requests made."""
    world = World(plan_json(tasks=TASKS), scripted())

    def amend(world: World) -> None:
        if world.created and world.created[-1].endswith("1-commit-act") and len(world.repository.commits) == 1:
            uid = world.plan["metadata"]["uid"]
            world.repository.call("amend", {"uid": uid, "step": 1, "number": 1, "text": "by hand"})

    world.before_turn = amend
    return world


def suspended_then_cancelled() -> World:
    """Return a plan that is suspended for five decisions and cancelled while its second act runs."""
    world = World(plan_json(tasks=TASKS), scripted())

    def interfere(world: World) -> None:
        world.plan["spec"]["suspend"] = 5 <= len(world.decisions) < 10
        if world.created and world.created[-1].endswith("3-act"):
            world.plan["spec"]["cancel"] = True

    world.before_turn = interfere
    return world


def out_of_steps() -> World:
    """Return a plan that uses up its steps."""
    return World(
        plan_json(tasks=TASKS, limits={"maxSteps": 2}), scripted(adapt_a=[navigator_answer("failed", "no")] * 9)
    )


def given_up() -> World:
    """Return a plan that fails with its root."""
    failing: Answers = {f"adapt_{task}": [navigator_answer("failed", "no")] * 5 for task in ("a", "root")}
    return World(plan_json(tasks=TASKS), scripted(adapt_b=[done("well")], **failing))


def workspace_changed() -> World:
    """Return a plan whose first commit is refused for good."""
    changed = {"error": {"code": "efrit-plan-changed", "message": "Changed by hand."}}
    return World(plan_json(tasks=TASKS), scripted(commit_act=[changed]))


SCENARIOS: tuple[Callable[[], World], ...] = (
    every_turn_of_events,
    failures_on_the_way,
    long_enough_for_looks,
    a_step_made_by_somebody_else,
    suspended_then_cancelled,
    out_of_steps,
    given_up,
    workspace_changed,
)


def sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def line_of(decision: Decision) -> str:
    match decision.action:
        case Create(name, part, step, spec):
            action = f"create {name} {part} {step} {spec['type']} {sha256(spec)}"
        case Wait(until):
            action = "wait" if until is None else f"wait until {until:%H:%M:%S}"
        case Finish(outcome, reason, _):
            action = f"finish {outcome} {reason}"
    more = [f"{name} {' '.join(value)}" for name in ("cancel", "superseded") if (value := getattr(decision, name))]
    return " | ".join([action, f"{decision.phase} {decision.task}", decision.message, *more])


def trace(world: World) -> str:
    """Return the decisions, the commits and the last status of a plan, a line each."""
    world.run()
    commits = [f"commit {commit['hash'][-4:]} {commit['subject']}" for commit in world.repository.commits]
    status = describe(world.snapshot(), world.decisions[-1])
    lines = [*map(line_of, world.decisions), *commits, f"tree {sha256(world.repository.tree.model_dump_json())}"]
    return "".join(f"{line}\n" for line in [*lines, f"status {json.dumps(status, sort_keys=True)}"])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.__name__))
def test_a_plan_makes_the_requests_it_made_before(scenario: Callable[[], World]) -> None:
    assert trace(scenario()).splitlines() == (FILES / f"{scenario.__name__}.txt").read_text().splitlines()


if __name__ == "__main__":
    parser(__doc__).parse_args()
    for scenario in SCENARIOS:
        (FILES / f"{scenario.__name__}.txt").write_text(trace(scenario()))
