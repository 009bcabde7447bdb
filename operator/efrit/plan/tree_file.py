"""The spec of a plan from a tree of tasks as nested JSON: id, type, description, failure_threshold, children. Pure.

The root is the intent; what is below it becomes `spec.tasks`. An id that is not a name of a task gets one made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from efrit.errors import InvalidTree

KEYS = frozenset({"id", "type", "description", "failure_threshold", "children"})
DEEPEST = 100
MAX_THRESHOLD = 0.9
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def is_tree(document: Mapping[str, Any]) -> bool:
    """Return whether the document is a task tree, and not a plan or its spec."""
    return {"type", "description"} <= document.keys() and not {"kind", "spec", "intent", "tasks"} & document.keys()


def spec_of_tree(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a plan that begins with this tree. Raises `InvalidTree`."""
    _check(document, "the root")
    if document.get("failure_threshold"):
        raise InvalidTree("the root begins at failure_threshold 0: leave it out there, it counts for tasks.")
    tasks = list(_tasks(document, None, set(), 1))
    if document["type"] == "atomic":
        tasks = [{"name": "task", "type": "atomic", "description": document["description"]}]
    return {"intent": {"description": document["description"]}, "tasks": tasks}


def _tasks(parent: Mapping[str, Any], name: str | None, used: set[str], depth: int) -> Iterator[dict[str, Any]]:
    for number, child in enumerate(parent.get("children", ()), 1):
        where = f"child {number} of {name or 'the root'}"
        _check(child, where)
        if depth > DEEPEST:
            raise InvalidTree(f"{where} is deeper than {DEEPEST} tasks: make the tree flatter.")
        own = _name(str(child.get("id", "")), used)
        threshold = child.get("failure_threshold", 0)
        yield {
            "name": own,
            **({"parent": name} if name else {}),
            "type": child["type"],
            "description": child["description"],
            **({"failureThreshold": threshold} if threshold else {}),
        }
        yield from _tasks(child, own, used, depth + 1)


def _check(task: object, where: str) -> None:
    if not isinstance(task, Mapping):
        raise InvalidTree(f"{where} is not an object.")
    if unknown := sorted(task.keys() - KEYS):
        raise InvalidTree(f"{where} has the unknown key {unknown[0]}: the keys are {', '.join(sorted(KEYS))}.")
    if task.get("type") not in ("atomic", "parent"):
        raise InvalidTree(f"{where} has no type: give it atomic or parent.")
    if not isinstance(task.get("description"), str) or not task["description"]:
        raise InvalidTree(f"{where} has no description.")
    threshold, children = task.get("failure_threshold", 0), task.get("children", [])
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= MAX_THRESHOLD:
        raise InvalidTree(f"the failure_threshold of {where} must be a number from 0 to {MAX_THRESHOLD}.")
    if not isinstance(children, list) or (children and task["type"] == "atomic"):
        raise InvalidTree(f"{where} has children: only a parent has, as a list.")


def _name(requested: str, used: set[str]) -> str:
    name = requested.lower()
    if not name[:1].isalpha():
        name = f"t-{name}"
    if not _NAME.fullmatch(name) or name == "root" or name in used:
        name = next(candidate for n in range(1, len(used) + 2) if (candidate := f"task-{n}") not in used)
    used.add(name)
    return name
