from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidTree
from efrit.plan.tree import (
    DEEPEST,
    MAX_TASKS,
    TaskTree,
    counts,
    find,
    next_task,
    parse_tree,
    path_to,
    raised_threshold,
    replace_task,
    walk,
)
from efrit.protocol.plan_enums import TaskState
from tests.unit.plan.trees import atomic, done, failed, ids, parent, trees


def next_id(tree: TaskTree) -> str | None:
    task = next_task(tree)
    return task.id if task else None


@given(trees(root_pending=False))
def test_what_was_written_is_read_again(tree: TaskTree) -> None:
    assert parse_tree(tree.model_dump_json()) == tree


def test_the_format_of_a_first_draft_is_read() -> None:
    tree = parse_tree(
        json.dumps(
            {
                "id": "6f2b",
                "type": "parent",
                "description": "Build a REST API for user management",
                "failure_threshold": 0.0,
                "children": [
                    {"id": "77ac", "type": "atomic", "description": "Create the model", "failure_threshold": 0.3}
                ],
            }
        )
    )
    assert next_id(tree) == "77ac"
    assert tree.children[0].failure_threshold == 0.3
    assert tree.children[0].state is TaskState.PENDING


@given(st.one_of(st.text(), st.binary()))
def test_any_text_is_a_tree_or_a_sentence(text: str | bytes) -> None:
    with pytest.raises(InvalidTree, match="cannot be read"):
        parse_tree(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": "removed"}, "state"),
        ({"type": "leaf"}, "type"),
        ({"failure_threshold": "0.2"}, "failure_threshold"),
        ({"failure_threshold": 1.2}, "failure_threshold"),
        ({"decision": "go on"}, "decision"),
        ({"id": "../etc"}, "id"),
        ({"id": "a\n"}, "id"),
        ({"description": ""}, "description"),
        ({"children": [{"id": "root", "type": "atomic", "description": "x"}]}, "Two tasks have the id root"),
        ({"type": "atomic", "children": [{"id": "b", "type": "atomic", "description": "x"}]}, "is atomic and has"),
        ({"state": "done", "children": [{"id": "b", "type": "atomic", "description": "x"}]}, "is done, but"),
    ],
)
def test_a_tree_that_is_none_is_refused_with_what_is_wrong(change: dict[str, object], message: str) -> None:
    tree = {"id": "root", "type": "parent", "description": "all of it", **change}
    with pytest.raises(InvalidTree, match=message):
        parse_tree(json.dumps(tree))


def test_a_tree_of_too_many_tasks_is_refused() -> None:
    tree = parent("root", *(atomic(f"t{n}") for n in range(MAX_TASKS)))
    with pytest.raises(InvalidTree, match="2001 tasks"):
        parse_tree(tree.model_dump_json())


@pytest.mark.parametrize("depth", [DEEPEST + 1, 40, 5_000])
def test_a_tree_that_is_too_deep_is_refused(depth: int) -> None:
    text = '{"id":"x","type":"atomic","description":"x"}'
    for level in range(depth - 1):
        text = f'{{"id":"p{level}","type":"parent","description":"x","children":[{text}]}}'
    with pytest.raises(InvalidTree):
        parse_tree(text)


def test_the_first_pending_atomic_task_is_next() -> None:
    assert next_id(parent("root", done("a"), parent("b", done("c"), atomic("d")), atomic("e"))) == "d"


def test_a_parent_without_children_has_its_turn() -> None:
    assert next_id(parent("root", done("a"), parent("b"), atomic("c"))) == "b"
    assert next_id(parent("root")) == "root"


def test_a_parent_has_its_turn_once_nothing_below_it_is_pending() -> None:
    assert next_id(parent("root", parent("a", done("b")), atomic("c"))) == "a"
    assert next_id(parent("root", done("a"))) == "root"


def test_a_child_that_failed_for_good_has_its_parent_before_its_siblings() -> None:
    assert next_id(parent("root", parent("a", failed("b"), atomic("c")), atomic("d"))) == "a"
    # Also one that comes later: what is before it may not be worth doing any more.
    assert next_id(parent("root", parent("a", atomic("c"), failed("b")))) == "a"


def test_the_plan_is_over_with_its_root() -> None:
    assert next_id(parent("root", done("a"), state=TaskState.DONE)) is None
    assert next_id(parent("root", atomic("a"), state=TaskState.FAILED)) is None


@given(trees())
def test_what_is_next_is_pending_and_there(tree: TaskTree) -> None:
    task = next_task(tree)
    assert task is not None
    assert task.is_pending
    assert find(tree, task.id) is task
    assert all(ancestor.is_pending for ancestor in path_to(tree, task.id))


@given(trees(), st.data())
def test_replacing_a_task_leaves_all_others_as_they_are(tree: TaskTree, data: st.DataObject) -> None:
    task_id = data.draw(st.sampled_from(ids(tree)))
    changed = replace_task(tree, task_id, lambda task: (task.copy_with(attempts=task.attempts + 1),))
    before, after = dict(pairs(tree)), dict(pairs(changed))
    assert after.pop(task_id) == before.pop(task_id) + 1
    assert after == before


def pairs(tree: TaskTree) -> list[tuple[str, int]]:
    return [(task.id, task.attempts) for task, _ in walk(tree)]


def test_five_failures_are_for_good() -> None:
    steps = [0.0]
    for _ in range(6):
        steps.append(raised_threshold(steps[-1]))
    assert steps == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0]


def test_tasks_are_counted_by_state() -> None:
    tree = parent("root", done("a"), failed("b"), atomic("c"))
    assert counts(tree) == {"tasks": 4, "pending": 2, "done": 1, "failed": 1}
