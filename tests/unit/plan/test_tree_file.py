"""plan/tree_file.py: a nested tree of tasks becomes the spec of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.api import EfritPlan
from efrit.errors import InvalidTree
from efrit.plan.initial_tree import initial_tree
from efrit.plan.tree import walk
from efrit.plan.tree_file import is_tree, spec_of_tree

TREE: dict[str, Any] = {
    "id": "5b1e4c58-2f3c-4b0e-9d0a-000000000001",
    "type": "parent",
    "description": "Build a REST API for user management",
    "failure_threshold": 0.0,
    "children": [
        {
            "id": "5b1e4c58-2f3c-4b0e-9d0a-000000000002",
            "type": "atomic",
            "description": "Create user model with email and name fields",
            "failure_threshold": 0.3,
        },
        {
            "id": "crud",
            "type": "parent",
            "description": "Implement CRUD endpoints",
            "failure_threshold": 0.0,
            "children": [{"id": "crud", "type": "atomic", "description": "Create users"}],
        },
    ],
}


def test_the_tree_of_the_original_design_becomes_tasks() -> None:
    spec = spec_of_tree(TREE)
    plan = EfritPlan.model_validate({"metadata": {"name": "p"}, "spec": {"instanceRef": {"name": "i"}, **spec}})
    tree = initial_tree(plan.spec)
    assert is_tree(TREE)
    assert [(task.id, task.type.value, task.failure_threshold, depth) for task, depth in walk(tree)] == [
        ("root", "parent", 0.0, 1),
        ("t-5b1e4c58-2f3c-4b0e-9d0a-000000000002", "atomic", 0.3, 2),
        ("crud", "parent", 0.0, 2),
        ("task-1", "atomic", 0.0, 3),
    ]
    assert tree.description == "Build a REST API for user management"


def test_ids_that_are_all_alike_become_names_of_their_own() -> None:
    """As the original design writes its example: with one placeholder for all ids."""
    children = [
        {**child, "id": "uuid-generated", **({"children": []} if "children" in child else {})}
        for child in TREE["children"]
    ]
    spec = spec_of_tree({**TREE, "id": "uuid-generated", "children": children})
    assert [task["name"] for task in spec["tasks"]] == ["uuid-generated", "task-1"]
    assert spec["tasks"][0]["failureThreshold"] == 0.3


def test_a_tree_of_one_task_is_a_plan_of_one_task() -> None:
    assert spec_of_tree({"type": "atomic", "description": "Do it"}) == {
        "intent": {"description": "Do it"},
        "tasks": [{"name": "task", "type": "atomic", "description": "Do it"}],
    }


@pytest.mark.parametrize("document", [{"intent": {"description": "x"}}, {"kind": "EfritPlan", "spec": {}}, {}])
def test_a_plan_is_no_tree(document: dict[str, Any]) -> None:
    assert not is_tree(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failure_threshold": 0.2}, "the root begins at failure_threshold 0"),
        ({"children": [{"type": "atomic", "description": "x", "failure_threshold": 1.0}]}, "child 1 of the root"),
        ({"children": [{"type": "atomic", "description": "x", "children": [{}]}]}, "only a parent has"),
        ({"children": [{"type": "some", "description": "x"}]}, "atomic or parent"),
        ({"children": [{"type": "atomic"}]}, "no description"),
        ({"children": ["x"]}, "not an object"),
        ({"attempts": 3}, "unknown key attempts"),
    ],
)
def test_what_is_no_tree_is_reported_with_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTree, match=message):
        spec_of_tree({**TREE, **change})


def test_a_tree_that_is_too_deep_is_refused() -> None:
    tree: dict[str, Any] = {"type": "atomic", "description": "x"}
    for _ in range(200):
        tree = {"type": "parent", "description": "x", "children": [tree]}
    with pytest.raises(InvalidTree, match="deeper than 100"):
        spec_of_tree(tree)
