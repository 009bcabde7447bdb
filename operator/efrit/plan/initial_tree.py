"""The tree a plan begins with, from its spec. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from efrit.api.plan import PlannedTask, PlanSpec
from efrit.errors import InvalidTree
from efrit.plan.tree import LONGEST_DESCRIPTION, ROOT, TaskTree, problems, walk
from efrit.protocol.plan_enums import TaskType


def initial_tree(spec: PlanSpec) -> TaskTree:
    """Return the intent as the root, with `spec.tasks` below it in their order. Raises `InvalidTree`."""
    intent = spec.intent.description
    if len(intent) > LONGEST_DESCRIPTION:
        intent = intent[: LONGEST_DESCRIPTION - 1] + "…"
    children: dict[str, list[PlannedTask]] = {}
    for planned in spec.tasks:
        children.setdefault(planned.parent or ROOT, []).append(planned)
    root = TaskTree(id=ROOT, type=TaskType.PARENT, description=intent, children=_tasks_below(ROOT, children, ()))
    placed = {task.id for task, _ in walk(root)}
    if unplaced := [planned.name for planned in spec.tasks if planned.name not in placed]:
        raise InvalidTree(f"spec.tasks: {unplaced[0]} is below itself, or its parent does not exist.")
    if sentences := problems(root):
        raise InvalidTree(f"spec.tasks: {' '.join(sentences)}")
    return root


def _tasks_below(
    parent: str, children: dict[str, list[PlannedTask]], ancestors: Sequence[str]
) -> tuple[TaskTree, ...]:
    return tuple(
        TaskTree(
            id=planned.name,
            type=planned.type,
            description=planned.description,
            failure_threshold=planned.failure_threshold or 0.0,
            children=_tasks_below(planned.name, children, (*ancestors, parent)),
        )
        for planned in children.get(parent, ())
        if planned.name not in ancestors
    )
