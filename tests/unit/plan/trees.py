"""Task trees for tests: short ways to spell one, and hypothesis strategies of sound ones."""

from __future__ import annotations

from hypothesis import strategies as st

from efrit.plan.tree import ROOT, TaskTree, walk
from efrit.protocol.plan_enums import TaskState, TaskType

STATES = st.sampled_from(TaskState)
TEXTS = st.text(min_size=1, max_size=30)
# Made once: a strategy is checked before its first example, which takes longer than the example.
KINDS = st.sampled_from(TaskType)
BELOW = st.integers(0, 3)
ATTEMPTS = st.integers(0, 5)
LESSONS = st.lists(TEXTS, max_size=2)
THRESHOLDS = st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def atomic(task_id: str, state: TaskState = TaskState.PENDING, threshold: float = 0.0) -> TaskTree:
    return TaskTree(
        id=task_id,
        type=TaskType.ATOMIC,
        description=f"do {task_id}",
        state=state,
        failure_threshold=threshold,
    )


def parent(
    task_id: str, *children: TaskTree, state: TaskState = TaskState.PENDING, threshold: float = 0.0, text: str = ""
) -> TaskTree:
    return TaskTree(
        id=task_id,
        type=TaskType.PARENT,
        description=text or f"see to {task_id}",
        state=state,
        failure_threshold=threshold,
        children=children,
    )


def done(task_id: str) -> TaskTree:
    return atomic(task_id, TaskState.DONE)


def failed(task_id: str) -> TaskTree:
    return atomic(task_id, TaskState.FAILED, 1.0)


def ids(tree: TaskTree) -> list[str]:
    return [task.id for task, _ in walk(tree)]


def in_state(tree: TaskTree, state: TaskState) -> dict[str, TaskTree]:
    return {task.id: task for task, _ in walk(tree) if task.state is state}


@st.composite
def trees(draw: st.DrawFn, *, root_pending: bool = True, deepest: int = 4) -> TaskTree:
    """Return a sound tree: ids are its own, an atomic task has no children, a done parent only done ones."""
    count = 0

    def task(depth: int, within_done: bool) -> TaskTree:
        nonlocal count
        count += 1
        task_id = f"t{count}" if depth else ROOT
        kind = TaskType.PARENT if depth == 0 else draw(KINDS)
        if within_done:
            state = TaskState.DONE
        elif depth == 0 and root_pending:
            state = TaskState.PENDING
        else:
            state = draw(STATES)
        threshold = 1.0 if state is TaskState.FAILED else draw(THRESHOLDS)
        below = 0 if kind is TaskType.ATOMIC or depth == deepest else draw(BELOW)
        children = tuple(task(depth + 1, state is TaskState.DONE) for _ in range(below))
        return TaskTree(
            id=task_id,
            type=kind,
            description=draw(TEXTS),
            state=state,
            failure_threshold=threshold,
            attempts=draw(ATTEMPTS),
            lessons=tuple(draw(LESSONS)),
            children=children,
        )

    return task(0, False)
