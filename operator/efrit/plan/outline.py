"""A tree within bounds: what is nearest to the current task first, as lines of text or for the status.

Pure. `view` and `messages` build on it; nothing here knows what the lines are for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count

from efrit.api.plan import TaskState
from efrit.plan.tree import Task, path_to, walk

# What a task off the way costs against its neighbour; one that is done tells least of what comes.
_A_LEVEL = 8
_DONE = 4
_LONGEST_LINES = (4_000, 400, 160, 60)


def nearest(tree: Task, current: str | None) -> Iterator[Task]:
    """Every task, the way from the root to `current` first, then what is around it; never one before its parent."""
    way = {task.id for task in path_to(tree, current)} if current else set()
    turns = count()
    waiting = [(0, next(turns), tree)]
    while waiting:
        cost, _, task = heapq.heappop(waiting)
        yield task
        here = next((at for at, child in enumerate(task.children) if child.id in way), None)
        if here is None:
            here = next((at for at, child in enumerate(task.children) if child.is_pending), 0)
        for at, child in enumerate(task.children):
            away = 0 if child.id in way else _A_LEVEL + abs(at - here)
            if child.state is TaskState.DONE and child.id not in way:
                away *= _DONE
            heapq.heappush(waiting, (cost + away, next(turns), child))


def hidden(tree: Task, shown: set[str]) -> dict[str, dict[TaskState, int]]:
    """By id of a shown task, how many tasks below it are not shown, by state; `shown` has every parent of its."""
    found: dict[str, dict[TaskState, int]] = {}

    def look(task: Task, above: str) -> None:
        if task.id in shown:
            above = task.id
        else:
            of = found.setdefault(above, dict.fromkeys(TaskState, 0))
            of[task.state] += 1
        for child in task.children:
            look(child, above)

    look(tree, tree.id)
    return found


def outline(tree: Task, current: str | None, room: int) -> str:
    """The tree as indented lines of at most `room` bytes: descriptions are cut first, then what is far is counted."""
    lengths = {task.id: len(task.description) for task, _ in walk(tree)}
    everything = set(lengths)
    for longest in _LONGEST_LINES:
        # Not worth rendering: the descriptions alone are too long.
        if sum(min(length, longest) for length in lengths.values()) > room:
            continue
        text = _lines(tree, current, everything, longest)
        if len(text.encode()) <= room:
            return text
    shown = _first_that_fit(tree, current, room)
    while shown:
        text = _lines(tree, current, set(shown), _LONGEST_LINES[-1])
        if len(text.encode()) <= room:
            return text
        # What is left out is counted, and that takes room, too.
        shown = shown[: len(shown) * 9 // 10]
    return ""


def _first_that_fit(tree: Task, current: str | None, room: int) -> list[str]:
    depths = {task.id: depth for task, depth in walk(tree)}
    fitting = []
    for task in nearest(tree, current):
        room -= len(_line(task, depths[task.id], current, _LONGEST_LINES[-1]).encode()) + 1
        if room < 0:
            break
        fitting.append(task.id)
    return fitting


def _line(task: Task, depth: int, current: str | None, longest: int) -> str:
    mark = " <- this task" if task.id == current else ""
    return f"{'  ' * (depth - 1)}- {task.id} {_facts(task)}: {one_line(task.description, longest)}{mark}"


def _lines(tree: Task, current: str | None, shown: set[str], longest: int) -> str:
    left_out = hidden(tree, shown)
    lines = []
    for task, depth in walk(tree):
        if task.id not in shown:
            continue
        lines.append(_line(task, depth, current, longest))
        if below := left_out.get(task.id):
            told = ", ".join(f"{number} {state}" for state, number in below.items() if number)
            lines.append(f"{'  ' * depth}  (left out here: {told})")
    return "\n".join(lines)


def _facts(task: Task) -> str:
    told = [task.type.value, task.state.value]
    if task.failure_threshold:
        told.append(f"threshold {task.failure_threshold:g}")
    return f"({', '.join(told)})"


def one_line(text: str, longest: int) -> str:
    """`text` without line breaks and control characters, cut to `longest` characters with an ellipsis."""
    plain = text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(plain.split())
    return flat if len(flat) <= longest else flat[: max(longest - 1, 0)].rstrip() + "…"
