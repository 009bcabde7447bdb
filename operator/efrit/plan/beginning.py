"""The tree a plan begins with, from its spec. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from efrit.api.plan import PlannedTask, PlanSpec, TaskType
from efrit.errors import InvalidTree
from efrit.plan.tree import LONGEST_DESCRIPTION, ROOT, Task, problems, walk


def first_tree(spec: PlanSpec) -> Task:
    """The intent as the root, below it `spec.tasks` in their order. Raises `InvalidTree`."""
    intent = spec.intent.description
    if len(intent) > LONGEST_DESCRIPTION:
        intent = intent[: LONGEST_DESCRIPTION - 1] + "…"
    below: dict[str, list[PlannedTask]] = {}
    for each in spec.tasks:
        below.setdefault(each.parent or ROOT, []).append(each)
    root = Task(id=ROOT, type=TaskType.PARENT, description=intent, children=_made(below, ROOT, ()))
    placed = {task.id for task, _ in walk(root)}
    if lost := [each.name for each in spec.tasks if each.name not in placed]:
        raise InvalidTree(f"spec.tasks: {lost[0]} is below itself, or below a task that is not there.")
    if wrong := problems(root):
        raise InvalidTree(f"spec.tasks: {' '.join(wrong)}")
    return root


def _made(below: dict[str, list[PlannedTask]], parent: str, above: Sequence[str]) -> tuple[Task, ...]:
    return tuple(
        Task(
            id=each.name,
            type=each.type,
            description=each.description,
            children=_made(below, each.name, (*above, parent)),
        )
        for each in below.get(parent, ())
        if each.name not in above
    )
