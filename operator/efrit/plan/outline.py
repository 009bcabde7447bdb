"""A tree within bounds: the tasks nearest to the current one first, as lines of text or for the status.

Pure. `view` and `messages` use it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from efrit.plan.tree import TaskTree, path_to, walk
from efrit.protocol.plan_enums import TaskState

# The distance of a task off the path, against that of its neighbour; a done task says least about what comes.
_LEVEL_DISTANCE = 8
_DONE_FACTOR = 4
_LONGEST_LINES = (4_000, 400, 160, 60)


def nearest(tree: TaskTree, current: str | None) -> Iterator[TaskTree]:
    """Yield every task: the path from the root to `current` first, then by distance; a parent before its children."""
    path = {task.id for task in path_to(tree, current)} if current else set()
    # Tasks of one distance come in the order of the tree, and are never compared themselves.
    order = count()
    queue = [(0, next(order), tree)]
    while queue:
        distance_above, _, task = heapq.heappop(queue)
        yield task
        center = next((index for index, child in enumerate(task.children) if child.id in path), None)
        if center is None:
            center = next((index for index, child in enumerate(task.children) if child.is_pending), 0)
        for index, child in enumerate(task.children):
            distance = 0 if child.id in path else _LEVEL_DISTANCE + abs(index - center)
            if child.state is TaskState.DONE and child.id not in path:
                distance *= _DONE_FACTOR
            heapq.heappush(queue, (distance_above + distance, next(order), child))


def hidden(tree: TaskTree, shown: set[str]) -> dict[str, dict[TaskState, int]]:
    """Return, by id of a shown task, the numbers of tasks below it that are not shown, by state.

    `shown` has the parents of all its tasks.
    """
    counts: dict[str, dict[TaskState, int]] = {}

    def visit(task: TaskTree, ancestor: str) -> None:
        if task.id in shown:
            ancestor = task.id
        else:
            by_state = counts.setdefault(ancestor, dict.fromkeys(TaskState, 0))
            by_state[task.state] += 1
        for child in task.children:
            visit(child, ancestor)

    visit(tree, tree.id)
    return counts


def outline(tree: TaskTree, current: str | None, max_bytes: int) -> str:
    """Return the tree as lines of at most `max_bytes`: descriptions are cut first, then distant tasks counted."""
    lengths = {task.id: len(task.description) for task, _ in walk(tree)}
    all_ids = set(lengths)
    for longest in _LONGEST_LINES:
        # Not worth rendering: the descriptions alone are too long.
        if sum(min(length, longest) for length in lengths.values()) > max_bytes:
            continue
        text = _lines(tree, current, all_ids, longest)
        if len(text.encode()) <= max_bytes:
            return text
    shown = _longest_fitting_lines(tree, current, max_bytes)
    while shown:
        text = _lines(tree, current, set(shown), _LONGEST_LINES[-1])
        if len(text.encode()) <= max_bytes:
            return text
        # The counts of what is left out take bytes, too.
        shown = shown[: len(shown) * 9 // 10]
    return ""


def _longest_fitting_lines(tree: TaskTree, current: str | None, max_bytes: int) -> list[str]:
    depths = {task.id: depth for task, depth in walk(tree)}
    fitting = []
    for task in nearest(tree, current):
        max_bytes -= len(_line(task, depths[task.id], current, _LONGEST_LINES[-1]).encode()) + 1
        if max_bytes < 0:
            break
        fitting.append(task.id)
    return fitting


def _line(task: TaskTree, depth: int, current: str | None, longest: int) -> str:
    mark = " <- this task" if task.id == current else ""
    return f"{'  ' * (depth - 1)}- {task.id} {_facts(task)}: {one_line(task.description, longest)}{mark}"


def _lines(tree: TaskTree, current: str | None, shown: set[str], longest: int) -> str:
    left_out = hidden(tree, shown)
    lines = []
    for task, depth in walk(tree):
        if task.id not in shown:
            continue
        lines.append(_line(task, depth, current, longest))
        if below := left_out.get(task.id):
            states = ", ".join(f"{number} {state}" for state, number in below.items() if number)
            lines.append(f"{'  ' * depth}  (left out here: {states})")
    return "\n".join(lines)


def _facts(task: TaskTree) -> str:
    facts = [task.type.value, task.state.value]
    if task.failure_threshold:
        facts.append(f"threshold {task.failure_threshold:g}")
    return f"({', '.join(facts)})"


def one_line(text: str, longest: int) -> str:
    """Return `text` without line breaks and control characters, cut to `longest` characters with an ellipsis."""
    plain = text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(plain.split())
    return flat if len(flat) <= longest else flat[: max(longest - 1, 0)].rstrip() + "…"
