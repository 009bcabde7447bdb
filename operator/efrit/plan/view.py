"""The status of a plan: always within bounds, however large the tree is.

Pure. The repository on the workspace has the whole tree and all observations; what is left out here is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from efrit.api.plan import MAX_COMMITS, MAX_OBSERVATIONS, MAX_TREE_NODES
from efrit.plan.cost import uncommitted_tokens
from efrit.plan.cursor import COMMIT, Cursor
from efrit.plan.engine import Decision
from efrit.plan.outline import hidden, nearest, one_line
from efrit.plan.snapshot import Snapshot
from efrit.plan.tree import TaskTree, counts, ids_of, path_to, walk
from efrit.protocol.plan_enums import Perspective
from efrit.protocol.plan_values import Cost, Counts
from efrit.protocol.resource_case import to_resource

MAX_BYTES = 48 * 1024
_TREE_BYTES = 28 * 1024
_COMMIT_BYTES = _OBSERVATION_BYTES = 9 * 1024
# What a node gains when the tasks below it are left out.
_HIDDEN_BYTES = 60
_DEFAULT_BYTES = len('"attempts": 0, "lessons": [], "children": 0, ')
"""Of what a status writes of a task that has none of them."""
_LONGEST_DESCRIPTION = 160
_LONGEST_CURRENT = 1_000
_LONGEST_SUBJECT = 160
_LONGEST_STATEMENT = 300
_LESSONS = 3

_PERSPECTIVES = {perspective.value for perspective in Perspective}
_FIELDS = ("tree", "commits", "observations", "counts", "cost", "commitCount", "currentTask", "step")


def describe(snapshot: Snapshot, decision: Decision) -> dict[str, Any]:
    """Return fields of a PlanStatus in wire form, at most `MAX_BYTES` of JSON; those not known yet as they were."""
    cursor = decision.cursor
    if cursor is None:
        status = snapshot.plan.status.to_wire()
        fields = {name: status[name] for name in _FIELDS if name in status}
    else:
        fields = {
            "tree": nodes(cursor.tree, decision.task),
            "commits": _commits(cursor),
            "observations": _observations(cursor.observations),
            "commitCount": cursor.step + 1,
            "counts": to_resource(_counts(cursor, decision)),
            "cost": to_resource(_cost(snapshot, cursor)),
        }
    activity = {"currentTask": decision.task, "step": decision.phase.value if decision.phase else None}
    return {**fields, **{name: value for name, value in activity.items() if value is not None}}


def nodes(tree: TaskTree, current: str | None) -> list[dict[str, Any]]:
    """Return the tree as flat nodes, depth-first: the path to `current` and what is around it, the rest as counts."""
    parents = {child.id: task.id for task, _ in walk(tree) for child in task.children}
    path = {task.id for task in path_to(tree, current)} if current else set()
    shown: dict[str, dict[str, Any]] = {}
    remaining = _TREE_BYTES
    for task in nearest(tree, current):
        node = _node(task, parents.get(task.id), task.id == current)
        remaining -= _size(node) + _HIDDEN_BYTES + _DEFAULT_BYTES
        # The path itself is short enough at any depth.
        if (remaining < 0 and task.id not in path) or len(shown) == MAX_TREE_NODES:
            break
        shown[task.id] = node
    left_out = hidden(tree, set(shown))
    for task_id, below in left_out.items():
        shown[task_id]["hidden"] = {state.value: number for state, number in below.items()}
    return [shown[task_id] for task_id in ids_of(tree) if task_id in shown]


def _node(task: TaskTree, parent: str | None, is_current: bool) -> dict[str, Any]:
    longest = _LONGEST_CURRENT if is_current else _LONGEST_DESCRIPTION
    node: dict[str, Any] = {"id": task.id}
    if parent is not None:
        node["parent"] = parent
    node |= {
        "type": task.type.value,
        "description": one_line(task.description, longest) or "…",
        "failureThreshold": task.failure_threshold,
        "state": task.state.value,
    }
    if task.attempts:
        node["attempts"] = task.attempts
    if task.children:
        node["children"] = len(task.children)
    if is_current and task.lessons:
        node["lessons"] = [one_line(lesson, _LONGEST_STATEMENT) for lesson in task.lessons[-_LESSONS:]]
    return node


def _commits(cursor: Cursor) -> list[dict[str, Any]]:
    """Return the last commits of the plan itself, newest first."""
    commits: list[dict[str, Any]] = []
    remaining = _COMMIT_BYTES
    for commit in reversed(cursor.commits):
        if commit.kind is None or commit.step is None:
            continue
        fields = COMMIT.dump_python(commit, mode="json", exclude_none=True)
        fields |= {"subject": one_line(commit.subject, _LONGEST_SUBJECT), "hash": commit.hash[:64]}
        remaining -= _size(fields)
        if remaining < 0 or len(commits) == MAX_COMMITS:
            break
        commits.append(fields)
    return commits


def _observations(observations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    remaining = _OBSERVATION_BYTES
    for observation in observations:
        cut = {
            name: one_line(value, _LONGEST_STATEMENT)
            for name in ("perspective", "statement", "evidence")
            if isinstance(value := observation.get(name), str) and value
        }
        if "statement" not in cut or cut.get("perspective") not in _PERSPECTIVES:
            continue
        remaining -= _size(cut)
        if remaining < 0 or len(shown) == MAX_OBSERVATIONS:
            break
        shown.append(cut)
    return shown


def _counts(cursor: Cursor, decision: Decision) -> Counts:
    totals = cursor.totals
    cycles = totals.adapts + (1 if decision.task is not None else 0)
    return Counts(
        **counts(cursor.tree), steps=cycles, acts=totals.acts, adapts=totals.adapts, amendments=cursor.amendments
    )


def _cost(snapshot: Snapshot, cursor: Cursor) -> Cost:
    """Return the cost that the commits record, and that of the requests after the last commit."""
    totals = cursor.totals
    sent, received = uncommitted_tokens(snapshot, cursor)
    return Cost(totals.input_tokens + sent, totals.output_tokens + received, round(totals.seconds, 3))


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
