"""Killed before or after every single effect, a plan makes the same commits and the same tree, none of them twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from efrit.plan.engine import Finish
from efrit.plan.tree import ids_of, next_task
from efrit.protocol.plan_enums import TaskState
from tests.unit.plan.answers import answers
from tests.unit.plan.world import Json, World, done, facts, navigator_answer, plan_json, scripted

TASKS = [
    {"name": "model", "description": "the model"},
    {"name": "api", "type": "parent", "description": "the interface"},
    {"name": "read", "parent": "api", "description": "reading"},
    {"name": "write", "parent": "api", "description": "writing"},
]
NEW = {"type": "atomic", "description": "a half"}


def world(**options: Any) -> World:
    """Return a world: a task fails until it is decomposed, one is given up, words cannot be read, an amendment."""
    parts = {"operation": "decompose", "task": "model", "tasks": [NEW, NEW]}
    model = scripted(
        adapt_model=[
            navigator_answer("failed", "too much at once"),
            navigator_answer("failed", "still", parts),
            done(),
        ],
        assess_model=["I would say it is fine.", facts()],
        assess_repair=["still no JSON"],
        adapt_read=[navigator_answer("failed", "no disk")] * 5,
        adapt_write=["not JSON"],
        adapt_repair=[navigator_answer("done", "fine", {"operation": "remove", "task": "nobody"})],
        adapt_refused=[done("fine now")],
        adapt_api=[
            navigator_answer("failed", "without reading", {"operation": "remove", "task": "read"}),
            done("good enough"),
        ],
    )
    made = World(plan_json(tasks=TASKS, assess={"build": ["make", "make test"]}), model, **options)

    def amend(here: World) -> None:
        if len(here.repository.commits) >= 5:
            here.plan["spec"]["amendments"] = ["Lines, too."]

    made.before_turn = amend
    return made


@pytest.fixture(scope="module")
def undisturbed() -> World:
    made = world()
    assert made.run().reason == "Succeeded"
    return made


def test_undisturbed_it_goes_as_the_story_says(undisturbed: World) -> None:
    commits = undisturbed.repository.commit_lines()
    assert commits[:13] == [
        *("begin", "1 act model", "2 adapt model", "3 act model", "4 adapt model", "5 amend"),
        *("6 act model", "7 adapt model", "8 act 7.1", "9 adapt 7.1", "10 act 7.2", "11 adapt 7.2", "12 adapt model"),
    ]
    assert commits[13:23] == [f"{step} {'act' if step % 2 else 'adapt'} read" for step in range(13, 23)]
    assert commits[23:] == ["23 adapt api", "24 act write", "25 adapt write", "26 adapt api", "27 adapt root"]
    tree = undisturbed.repository.tree
    assert tree.state is TaskState.DONE
    assert ids_of(tree) == ["root", "model", "7.1", "7.2", "api", "write"]


def assert_the_same(killed: World, undisturbed: World) -> None:
    assert killed.run() == undisturbed.decisions[-1].action
    assert killed.crashes > 0
    assert killed.repository.commit_lines() == undisturbed.repository.commit_lines()
    assert killed.repository.tree == undisturbed.repository.tree
    assert [commit["usage"] for commit in killed.repository.commits] == [
        commit["usage"] for commit in undisturbed.repository.commits
    ]
    assert sorted(set(killed.created)) == sorted(undisturbed.created)


def test_killed_before_and_after_each_effect_it_ends_the_same(undisturbed: World) -> None:
    killed_at: set[tuple[str, str]] = set()

    def once(_number: int, name: str, when: str) -> bool:
        first = (name, when) not in killed_at
        killed_at.add((name, when))
        return first

    killed = world(crash=once)
    assert_the_same(killed, undisturbed)
    assert killed.crashes == 2 * undisturbed.effects


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [0, 7])
def test_killed_now_and_then_it_ends_the_same(undisturbed: World, nth: int, when: str) -> None:
    assert_the_same(world(crash=lambda number, _, now: number % 10 == nth and now == when), undisturbed)


@pytest.mark.parametrize("at", [1, 2, 6, 14, 28])
def test_with_all_its_requests_deleted_it_goes_on_from_git(at: int) -> None:
    made = world()
    amend = made.before_turn

    def forget(here: World) -> None:
        amend(here)
        if len(here.repository.commits) >= at:
            here.requests.clear()
            here.before_turn = amend

    made.before_turn = forget
    made.run()
    steps = [commit["step"] for commit in made.repository.commits]
    assert steps == list(range(len(steps)))
    assert made.repository.tree.state is TaskState.DONE


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_any_navigator_and_any_crash_end_within_the_steps(data: st.DataObject) -> None:
    replies: dict[str, Any] = {}
    made: World

    def model(what: str, _task: str, request: Json) -> Json | str:
        if request["spec"]["type"] == "eval":
            return {}
        name = request["metadata"]["name"]
        if name not in replies:
            if what.startswith("adapt"):
                fitting = answers(made.repository.tree).map(lambda answer: answer.model_dump_json())
                replies[name] = data.draw(st.one_of(fitting, st.text(max_size=20)))
            else:
                replies[name] = data.draw(st.sampled_from([facts(), "?"])) if what.startswith("assess") else "ok"
        return replies[name]  # type: ignore[no-any-return]

    at = (data.draw(st.integers(1, 60)), data.draw(st.sampled_from(["before", "after"])))
    limits = {"maxSteps": 4}
    made = World(plan_json(tasks=TASKS[:3], limits=limits), model, lambda number, _, when: (number, when) == at)
    end = made.run()
    assert isinstance(end, Finish)
    steps = [commit["step"] for commit in made.repository.commits]
    assert steps == list(range(len(steps)))
    assert sum(commit["kind"] == "adapt" for commit in made.repository.commits) <= 4
    assert end.reason == "BudgetExhausted" or next_task(made.repository.tree) is None
