"""EfritPlans in the client's words, and a plan to be as a custom resource the API's own model takes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from efrit.api.plan import EfritPlan
from efrit.backend.cluster.plans import plan_manifest
from efrit.backend.errors import Refused
from efrit.backend.plan_states import named_target, plan_digest, plan_name, plan_of, plan_spec
from efrit.backend.plans import Intent, NewPlan, PlanPhase, PlanReason
from efrit.backend.resource_fields import DIGEST

WHOLE = {
    "metadata": {"name": "calc", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-31T09:00:00Z"},
    "spec": {
        "intent": {"description": "Build it.", "acceptanceCriteria": ["It adds."], "constraints": ["No network."]},
        "amendments": ["And divide."],
        "poolRef": {"name": "many"},
        "limits": {"maxSteps": 9, "maxTokens": 1000, "timeoutSeconds": 60},
        "suspend": True,
    },
    "status": {
        "phase": "Running",
        "reason": "Running",
        "conditions": [{"type": "Complete", "status": "False", "reason": "Running", "message": "It acts."}],
        "instanceName": "one",
        "currentTask": "2.1",
        "step": "Act",
        "currentRequest": "calc-3-act",
        "commitCount": 3,
        "tree": [
            {"id": "root", "type": "parent", "description": "Build it.", "state": "pending", "children": 5},
            {
                "id": "2.1",
                "parent": "root",
                "type": "atomic",
                "description": "Add.",
                "failureThreshold": 0.4,
                "state": "pending",
                "attempts": 2,
                "lessons": ["Signs."],
                "hidden": {"done": 3},
            },
        ],
        "commits": [
            {"hash": "abc", "subject": "[2.1] ACT: Add.", "kind": "act", "task": "2.1", "step": 2,
             "time": "2026-01-31T09:01:00Z"},
        ],
        "observations": [{"perspective": "build", "statement": "make test ended with 2", "evidence": "line 7"}],
        "counts": {"tasks": 5, "pending": 2, "done": 3, "steps": 2, "acts": 1, "adapts": 1},
        "cost": {"inputTokens": 700, "outputTokens": 30, "seconds": 12.5},
        "startTime": "2026-01-31T09:00:05Z",
    },
}  # fmt: skip


def test_everything_a_status_says_is_reported() -> None:
    plan = plan_of(WHOLE)
    assert (plan.name, plan.phase, plan.reason, plan.final) == (
        "calc",
        PlanPhase.RUNNING,
        PlanReason.RUNNING,
        False,
    )
    assert (plan.message, plan.instance, plan.pool, plan.request) == ("It acts.", "one", "many", "calc-3-act")
    assert plan.intent == Intent("Build it.", ("It adds.",), ("No network.",))
    assert (plan.amendments, plan.suspended, plan.cancelled) == (("And divide.",), True, False)
    assert (plan.current_task, plan.step, plan.commit_count) == ("2.1", "Act", 3)
    root, task = plan.tree
    assert (root.parent, root.type, root.children, root.hidden) == (None, "parent", 5, None)
    assert (task.parent, task.failure_threshold, task.attempts, task.lessons) == ("root", 0.4, 2, ("Signs.",))
    assert task.hidden is not None
    assert (task.hidden.pending, task.hidden.done, task.hidden.failed) == (0, 3, 0)
    assert plan.commits[0].time == datetime(2026, 1, 31, 9, 1, tzinfo=UTC)
    assert (plan.observations[0].statement, plan.observations[0].evidence) == ("make test ended with 2", "line 7")
    assert (plan.counts.tasks, plan.counts.done, plan.counts.failed) == (5, 3, 0)
    assert (plan.cost.input_tokens, plan.cost.seconds) == (700, 12.5)
    assert (plan.max_steps, plan.max_tokens, plan.timeout_seconds) == (9, 1000, 60)


def test_a_plan_nobody_has_looked_at_is_pending() -> None:
    plan = plan_of(
        {"metadata": {"name": "p"}, "spec": {"intent": {"description": "t"}, "instanceRef": {"name": "a"}}}
    )
    assert (plan.phase, plan.reason, plan.instance) == (PlanPhase.PENDING, PlanReason.PENDING, "a")
    assert "not reconciled it" in plan.message


def test_words_of_a_later_operator_are_shown_as_they_are() -> None:
    plan = plan_of({**WHOLE, "status": {"phase": "Running", "reason": "Unheard"}})
    assert (plan.phase, plan.reason) == (PlanPhase.RUNNING, "Unheard")
    task = {"id": "1", "type": "loop", "state": "blocked", "description": "Build it."}
    conditions = [{"type": "Complete", "message": "It goes on."}]
    status = {"phase": "Resting", "startTime": "2026-01-02T03:04:05Z", "tree": [task], "conditions": conditions}
    plan = plan_of({**WHOLE, "status": status})
    assert (plan.phase, plan.final) == (PlanPhase.RUNNING, False)
    assert plan.message == "It goes on. (phase Resting: this efrit is older than the operator; update it)"
    assert plan.tree[0].description.startswith("Build it. (type loop, state blocked: this efrit is older")


def test_a_plan_that_a_later_operator_has_ended_is_over() -> None:
    status = {"phase": "Archived", "completionTime": "2026-01-02T03:04:05Z", "outcome": "Success"}
    assert plan_of({**WHOLE, "status": status}).phase is PlanPhase.SUCCEEDED
    plan = plan_of({**WHOLE, "status": {**status, "outcome": "Abandoned"}})
    assert (plan.phase, plan.outcome) == (PlanPhase.FAILED, None)
    assert "(outcome Abandoned, phase Archived: this efrit is older than the operator; update it)" in plan.message


def test_a_plan_of_all_options_is_one_the_api_takes() -> None:
    new = NewPlan(
        Intent("Build it.", ("It adds.",), ("No network.",)),
        instance="one",
        git_url="https://example.org/calc.git",
        git_branch="main",
        git_revision="v1",
        git_secret="token",
        build=("make test",),
        integration=("make smoke",),
        quality=("ruff check", "mypy"),
        assess_timeout=30.2,
        act_timeout=900,
        max_steps=50,
        max_tokens=100_000,
        timeout=3600,
    )
    spec = plan_spec(new)
    named = named_target(new, spec)
    assert named is not None
    made = EfritPlan.model_validate(plan_manifest("calc", spec, named, named))
    assert made.spec.assess.to_wire() == {
        "build": ["make test"],
        "integration": ["make smoke"],
        "quality": ["ruff check", "mypy"],
        "timeoutSeconds": 31,
    }
    assert made.spec.environment is not None
    assert made.spec.environment.git is not None
    assert made.spec.environment.git.to_wire() == {
        "url": "https://example.org/calc.git",
        "branch": "main",
        "revision": "v1",
        "secretRef": {"name": "token"},
    }
    assert made.spec.limits.to_wire() == {"maxSteps": 50, "maxTokens": 100_000, "timeoutSeconds": 3600}
    assert made.spec.act is not None
    assert made.spec.act.timeout_seconds == 900


def test_options_go_over_what_a_file_says_and_leave_the_rest() -> None:
    spec = {
        "intent": {"description": "From the file."},
        "limits": {"maxSteps": 3, "maxTokens": 4},
        "assess": {"build": ["make"], "quality": ["lint"]},
        "instanceRef": {"name": "one"},
    }
    new = NewPlan(max_steps=9, build=("make test",), pool="many", spec=spec)
    made = plan_spec(new)
    assert named_target(new, made) == {"poolRef": {"name": "many"}}
    assert made == {
        "intent": {"description": "From the file."},
        "limits": {"maxSteps": 9, "maxTokens": 4},
        "assess": {"build": ["make test"], "quality": ["lint"]},
    }
    assert spec["limits"] == {"maxSteps": 3, "maxTokens": 4}


@pytest.mark.parametrize(
    "new",
    [
        NewPlan(),
        NewPlan(Intent("  ")),
        NewPlan(spec={"limits": {"maxSteps": 1}}),
        NewPlan(Intent("t"), spec={"limits": [1]}),
        NewPlan(Intent("t"), git_branch="main"),
    ],
)
def test_what_is_no_plan_is_refused_in_words(new: NewPlan) -> None:
    with pytest.raises(Refused):
        plan_spec(new)


def test_two_targets_are_refused() -> None:
    with pytest.raises(Refused, match="both an instance and a pool"):
        named_target(NewPlan(instance="one", pool="many"), {})


@pytest.mark.parametrize(
    ("new", "description", "name"),
    [
        (NewPlan(name="calc"), "x", "calc"),
        (NewPlan(), "Build a calculator", "build-a-calculator-abc12"),
        (NewPlan(), "Übersetze das Café-Menü!", "ubersetze-das-cafe-menu-abc12"),
        (NewPlan(), "计算器", "plan-abc12"),
        (NewPlan(), "a" * 100, "a" * 40 + "-abc12"),
        (NewPlan(), "word " * 30, "word-word-word-word-word-word-word-word-abc12"),
    ],
)
def test_a_plan_is_named_by_its_words(new: NewPlan, description: str, name: str) -> None:
    assert plan_name(new, description, "abc12") == name


@pytest.mark.parametrize("name", ["", "Calc", "a_b", "-a", "a-", "a" * 64, "a/b", "a\n"])
def test_what_is_no_directory_and_no_branch_is_no_name(name: str) -> None:
    with pytest.raises(Refused, match="cannot be the name"):
        plan_name(NewPlan(name=name), "x", "abc12")


def test_a_key_always_gives_the_same_name_whatever_the_words_are() -> None:
    first, second = (plan_name(NewPlan(key="nightly"), words, words) for words in ("one", "two"))
    assert first == second
    assert first.startswith("plan-")
    assert len(first) == 25


def test_the_digest_is_of_the_plan_and_who_was_named_not_who_was_chosen() -> None:
    def digest(chosen: dict[str, Any], named: dict[str, Any] | None = None, text: str = "t") -> str:
        made = plan_manifest("p", {"intent": {"description": text}}, named, chosen)
        return str(made["metadata"]["annotations"][DIGEST])

    one, two = {"instanceRef": {"name": "one"}}, {"instanceRef": {"name": "two"}}
    assert digest(one) == digest(two) == plan_digest({"intent": {"description": "t"}}, None)
    assert len({digest(one), digest(one, one), digest(one, None, "u")}) == 3
