from __future__ import annotations

import json
from typing import Any

import pytest

from efrit.plan.operations import Answer, Refused, apply, failure
from efrit.plan.tree import LONGEST_DESCRIPTION, MAX_TASKS, TaskTree, find, next_task
from efrit.protocol.plan_enums import TaskState
from tests.unit.plan.trees import atomic, done, failed, ids, parent

STEP = 7


def answer(verdict: str, *operations: dict[str, Any], reason: str = "because") -> Answer:
    return Answer.model_validate_json(json.dumps({"verdict": verdict, "reason": reason, "operations": operations}))


def applied(tree: TaskTree, current: str, verdict: str, *operations: dict[str, Any]) -> TaskTree:
    result = apply(tree, current, answer(verdict, *operations), STEP)
    assert isinstance(result, TaskTree), result
    return result


def refused(tree: TaskTree, current: str, verdict: str, *operations: dict[str, Any]) -> str:
    before = tree.model_dump_json()
    result = apply(tree, current, answer(verdict, *operations), STEP)
    assert isinstance(result, Refused), result
    assert tree.model_dump_json() == before
    return " ".join(result.sentences)


def new(description: str, kind: str = "atomic", *tasks: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "description": description, "tasks": list(tasks)}


def task(tree: TaskTree, task_id: str) -> TaskTree:
    task = find(tree, task_id)
    assert task is not None
    return task


PLAN = parent("root", done("a"), parent("b", atomic("c"), atomic("d")), atomic("e"))


def test_done_ends_a_task_and_the_next_one_comes() -> None:
    tree = applied(PLAN, "c", "done")
    assert task(tree, "c").state is TaskState.DONE
    assert task(tree, "c").attempts == 1
    assert next_task(tree) == task(tree, "d")


def test_failed_raises_the_threshold_and_the_reason_is_a_lesson() -> None:
    tree = applied(PLAN, "c", "failed")
    assert task(tree, "c").failure_threshold == 0.2
    assert task(tree, "c").lessons == ("because",)
    assert next_task(tree) == task(tree, "c")


def test_the_fifth_failure_is_for_good_and_the_parent_has_its_turn() -> None:
    tree = PLAN
    for _ in range(5):
        tree = applied(tree, "c", "failed")
    assert task(tree, "c").state is TaskState.FAILED
    assert next_task(tree) == task(tree, "b")


def test_a_retry_is_a_copy_with_lessons_before_its_pending_siblings() -> None:
    tree = parent("root", done("a"), atomic("b"), atomic("c", threshold=0.4))
    tree = applied(tree, "b", "failed", {"operation": "retry", "task": "c", "lessons": ["use the other door"]})
    assert ids(tree) == ["root", "a", "7.1", "b"]
    assert task(tree, "7.1").lessons == ("use the other door",)
    assert task(tree, "7.1").failure_threshold == 0.4


def test_a_retry_in_the_answer_saves_a_task_from_failing_for_good() -> None:
    tree = parent("root", atomic("a", threshold=0.8), atomic("b"))
    tree = applied(tree, "a", "failed", {"operation": "retry", "task": "a", "lessons": ["slowly"]})
    assert next_task(tree) == task(tree, "7.1")
    assert task(tree, "7.1").failure_threshold == 1.0
    assert task(tree, "7.1").attempts == 1


def test_a_last_chance_is_not_followed_by_another() -> None:
    tree = parent("root", atomic("a", threshold=1.0), atomic("b"))
    assert "too often" in refused(tree, "a", "failed", {"operation": "retry", "task": "a"})


def test_a_parent_may_retry_what_failed_for_good_and_pays_for_it() -> None:
    tree = parent("root", parent("a", failed("b"), atomic("c")))
    tree = applied(tree, "a", "failed", {"operation": "retry", "task": "b", "lessons": ["as root"]})
    assert task(tree, "a").failure_threshold == 0.2
    assert next_task(tree) == task(tree, "7.1")


def test_retrying_a_parent_gives_what_failed_below_it_another_chance_and_keeps_what_is_done() -> None:
    broken = parent("b", done("c"), failed("d"), state=TaskState.FAILED, threshold=1.0)
    tree = applied(parent("root", broken), "root", "failed", {"operation": "retry", "task": "b"})
    assert ids(tree) == ["root", "7.1", "c", "d"]
    assert task(tree, "c").state is TaskState.DONE
    assert next_task(tree) == task(tree, "d")


def test_a_decomposed_task_becomes_a_parent_with_ids_given_in_order() -> None:
    tree = applied(
        PLAN,
        "c",
        "failed",
        {"operation": "decompose", "task": "c", "tasks": [new("p", "parent", new("q")), new("r")]},
    )
    assert ids(task(tree, "c")) == ["c", "7.1", "7.2", "7.3"]
    assert task(tree, "7.2").description == "q"
    assert next_task(tree) == task(tree, "7.2")


def test_decomposing_saves_a_task_from_failing_for_good() -> None:
    tree = parent("root", atomic("a", threshold=0.8))
    tree = applied(tree, "a", "failed", {"operation": "decompose", "task": "a", "tasks": [new("half")]})
    assert task(tree, "a").is_pending
    assert next_task(tree) == task(tree, "7.1")


def test_refining_changes_the_words_alone() -> None:
    tree = applied(PLAN, "c", "done", {"operation": "refine", "task": "d", "description": "do it well"})
    assert task(tree, "d").description == "do it well"
    assert ids(tree) == ids(PLAN)


def test_removing_takes_all_below_along() -> None:
    tree = parent("root", parent("a", atomic("b")), atomic("c"))
    assert ids(applied(tree, "b", "failed", {"operation": "remove", "task": "a"})) == ["root", "c"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [({"before": "d"}, ["c", "7.1", "d"]), ({"after": "d"}, ["c", "d", "7.1"]), ({}, ["c", "d", "7.1"])],
)
def test_inserting_puts_tasks_where_it_says(place: dict[str, str], expected: list[str]) -> None:
    tree = applied(PLAN, "c", "done", {"operation": "insert", "parent": "b", "tasks": [new("x")], **place})
    assert [child.id for child in task(tree, "b").children] == expected


def test_an_empty_root_is_planned_without_a_failure() -> None:
    tree = applied(parent("root"), "root", "open", {"operation": "insert", "parent": "root", "tasks": [new("x")]})
    assert tree.failure_threshold == 0
    assert next_task(tree) == task(tree, "7.1")


def test_the_root_that_is_done_ends_the_plan() -> None:
    assert next_task(applied(parent("root", done("a")), "root", "done")) is None


def test_a_parent_is_done_once_what_failed_below_it_is_removed() -> None:
    tree = parent("root", done("a"), failed("b"))
    assert "cannot be done while b" in refused(tree, "root", "done")
    assert applied(tree, "root", "done", {"operation": "remove", "task": "b"}).state is TaskState.DONE


@pytest.mark.parametrize(
    ("verdict", "operation", "message"),
    [
        ("done", {"operation": "retry", "task": "zz"}, "Operation 1 (retry): there is no task 'zz'"),
        ("done", {"operation": "remove", "task": "a"}, "a is done"),
        ("done", {"operation": "refine", "task": "a", "description": "x"}, "a is done"),
        ("done", {"operation": "insert", "parent": "a", "tasks": [new("x")]}, "a is done"),
        ("done", {"operation": "retry", "task": "c"}, "c is done"),
        ("failed", {"operation": "remove", "task": "root"}, "never changes"),
        ("failed", {"operation": "retry", "task": "root"}, "never changes"),
        ("failed", {"operation": "refine", "task": "root", "description": "easier"}, "never changes"),
        ("failed", {"operation": "decompose", "task": "b", "tasks": [new("x")]}, "has children already"),
        ("failed", {"operation": "insert", "parent": "c", "tasks": [new("x")]}, "is atomic"),
        ("failed", {"operation": "insert", "parent": "b", "before": "e", "tasks": [new("x")]}, "not a child of b"),
        ("failed", {"operation": "insert", "parent": "b", "before": "c", "after": "c", "tasks": [new("x")]}, "one"),
        ("failed", {"operation": "insert", "parent": "b", "tasks": [new("x", "atomic", new("y"))]}, "is atomic and"),
        ("open", {"operation": "refine", "task": "d", "description": "x"}, "Only a parent can stay open"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(verdict: str, operation: dict[str, Any], message: str) -> None:
    assert message in refused(PLAN, "c", verdict, operation)


def test_one_bad_operation_refuses_all_and_each_bad_one_is_named() -> None:
    message = refused(
        PLAN,
        "c",
        "done",
        {"operation": "refine", "task": "d", "description": "fine"},
        {"operation": "remove", "task": "x1"},
        {"operation": "remove", "task": "x2"},
    )
    assert "Operation 2" in message
    assert "Operation 3" in message
    assert "Operation 1" not in message


def test_what_holds_done_work_is_not_removed() -> None:
    tree = parent("root", parent("a", done("b"), atomic("c")), atomic("d"))
    assert "b below a is done" in refused(tree, "c", "failed", {"operation": "remove", "task": "a"})


def test_an_emptied_tree_is_refused() -> None:
    tree = parent("root", atomic("a"), atomic("b"))
    both = [{"operation": "remove", "task": "a"}, {"operation": "remove", "task": "b"}]
    assert "Nothing would be left" in refused(tree, "a", "failed", *both)
    instead = {"operation": "insert", "parent": "root", "tasks": [new("x")]}
    assert ids(applied(tree, "a", "failed", *both, instead)) == ["root", "7.1"]


def test_a_parent_stays_open_only_with_work_below_it() -> None:
    assert "nothing below it is left" in refused(parent("root", done("a")), "root", "open")


def test_a_parent_with_a_failed_child_does_not_stay_open_for_nothing() -> None:
    tree = parent("root", failed("a"))
    assert "failed for good" in refused(tree, "root", "open", {"operation": "retry", "task": "a"})


def test_a_tree_does_not_grow_without_bound() -> None:
    wide = parent("root", *(atomic(f"t{n}") for n in range(MAX_TASKS - 1)))
    one_more = {"operation": "insert", "parent": "root", "tasks": [new("x")]}
    assert "2001 tasks" in refused(wide, "t0", "done", one_more)
    deep = atomic("t19")
    for level in range(18, 0, -1):
        deep = parent(f"t{level}", deep)
    too_deep = {"operation": "decompose", "task": "t19", "tasks": [new("x")]}
    assert "21 levels deep" in refused(parent("root", deep), "t19", "failed", too_deep)


def test_an_answer_about_a_task_that_is_not_pending_is_refused() -> None:
    assert "no pending task a" in refused(PLAN, "a", "done")
    assert "no pending task zz" in refused(PLAN, "zz", "done")


@pytest.mark.parametrize("reason", ["", "x" * (LONGEST_DESCRIPTION * 2)])
def test_a_failure_without_an_answer_has_a_reason_of_any_length(reason: str) -> None:
    assert isinstance(apply(PLAN, "c", failure(reason), STEP), TaskTree)
