"""What a status shows of a plan: always within bounds, however large the tree is.

Pure. The whole tree and all observations are in the repository on the workspace; what is left out here is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from efrit.api.plan import MAX_COMMITS, MAX_OBSERVATIONS, MAX_TREE_NODES, Perspective
from efrit.plan.asking import Asking
from efrit.plan.engine import Decision, Known
from efrit.plan.outline import hidden, nearest, one_line
from efrit.plan.position import Position
from efrit.plan.tree import Task, counts, ids_of, path_to, walk
from efrit.plan.visit import spent_apart

MOST_BYTES = 48 * 1024
_TREE_BYTES = 28 * 1024
_COMMIT_BYTES = _OBSERVATION_BYTES = 9 * 1024
# What a node gains when the tasks below it are left out.
_HIDDEN_BYTES = 60
_LONGEST_DESCRIPTION = 160
_LONGEST_CURRENT = 1_000
_LONGEST_SUBJECT = 160
_LONGEST_STATEMENT = 300
_LESSONS = 3

_PERSPECTIVES = {each.value for each in Perspective}
_FIELDS = ("tree", "commits", "observations", "counts", "cost", "commitCount", "currentTask", "step")


def describe(known: Known, decision: Decision, now: datetime) -> dict[str, Any]:
    """Fields of a PlanStatus in their wire form, at most `MOST_BYTES` of JSON; those not known yet as they were."""
    position = decision.position
    if position is None:
        before = known.plan.status.to_wire()
        fields = {name: before[name] for name in _FIELDS if name in before}
    else:
        fields = {
            "tree": nodes(position.tree, decision.task),
            "commits": _commits(position),
            "observations": _observations(position.observations),
            "commitCount": position.step + 1,
            "counts": _counts(position, decision),
            "cost": _cost(Asking(known, now), position),
        }
    doing = {"currentTask": decision.task, "step": decision.phase.value if decision.phase else None}
    return {**fields, **{name: value for name, value in doing.items() if value is not None}}


def nodes(tree: Task, current: str | None) -> list[dict[str, Any]]:
    """The tree as flat nodes, depth-first: the way to `current` and what is around it, the rest as counts."""
    parents = {child.id: task.id for task, _ in walk(tree) for child in task.children}
    way = {task.id for task in path_to(tree, current)} if current else set()
    shown: dict[str, dict[str, Any]] = {}
    room = _TREE_BYTES
    for task in nearest(tree, current):
        node = _node(task, parents.get(task.id), task.id == current)
        room -= _size(node) + _HIDDEN_BYTES
        # The way itself is short enough at any depth.
        if (room < 0 and task.id not in way) or len(shown) == MAX_TREE_NODES:
            break
        shown[task.id] = node
    left_out = hidden(tree, set(shown))
    for task_id, below in left_out.items():
        shown[task_id]["hidden"] = {state.value: number for state, number in below.items()}
    return [shown[task_id] for task_id in ids_of(tree) if task_id in shown]


def _node(task: Task, parent: str | None, is_current: bool) -> dict[str, Any]:
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
        node["lessons"] = [one_line(each, _LONGEST_STATEMENT) for each in task.lessons[-_LESSONS:]]
    return node


def _commits(position: Position) -> list[dict[str, Any]]:
    """The last commits of the plan itself, newest first."""
    told: list[dict[str, Any]] = []
    room = _COMMIT_BYTES
    for commit in reversed(position.commits):
        if commit.kind is None or commit.step is None:
            continue
        fields = commit.model_dump(mode="json", by_alias=True, exclude_none=True)
        fields |= {"subject": one_line(commit.subject, _LONGEST_SUBJECT), "hash": commit.hash[:64]}
        room -= _size(fields)
        if room < 0 or len(told) == MAX_COMMITS:
            break
        told.append(fields)
    return told


def _observations(observations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    room = _OBSERVATION_BYTES
    for each in observations:
        cut = {
            name: one_line(value, _LONGEST_STATEMENT)
            for name in ("perspective", "statement", "evidence")
            if isinstance(value := each.get(name), str) and value
        }
        if "statement" not in cut or cut.get("perspective") not in _PERSPECTIVES:
            continue
        room -= _size(cut)
        if room < 0 or len(told) == MAX_OBSERVATIONS:
            break
        told.append(cut)
    return told


def _counts(position: Position, decision: Decision) -> dict[str, int]:
    totals = position.totals
    begun = totals.adapts + (1 if decision.task is not None else 0)
    return {
        **counts(position.tree),
        "steps": begun,
        "acts": totals.acts,
        "adapts": totals.adapts,
        "amendments": position.amendments,
    }


def _cost(asking: Asking, position: Position) -> dict[str, Any]:
    """What the commits tell of, and what is not committed yet."""
    totals = position.totals
    sent, received = spent_apart(asking, position)
    return {
        "inputTokens": totals.input_tokens + sent,
        "outputTokens": totals.output_tokens + received,
        "seconds": round(totals.seconds, 3),
    }


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
