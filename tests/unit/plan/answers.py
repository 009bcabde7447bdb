"""Strategies of answers a navigator may give: sensible ones, and any that has the right shape."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from efrit.plan.operations import Answer, Decompose, Insert, NewTask, Operation, Refine, Remove, Retry, Verdict
from efrit.plan.tree import TaskTree
from efrit.protocol.plan_enums import TaskType
from tests.unit.plan.trees import TEXTS, ids


def new_tasks(levels: int = 2) -> st.SearchStrategy[tuple[NewTask, ...]]:
    below = st.just(()) if levels == 0 else st.one_of(st.just(()), new_tasks(levels - 1))
    parents = st.builds(NewTask, type=st.just(TaskType.PARENT), description=TEXTS, tasks=below)
    atoms = st.builds(NewTask, type=st.just(TaskType.ATOMIC), description=TEXTS)
    return st.lists(st.one_of(atoms, parents), min_size=1, max_size=3).map(tuple)


# Made once: a strategy is checked before its first example, which takes longer than the example.
NEW_TASKS = new_tasks()
LESSONS = st.lists(TEXTS, max_size=2).map(tuple)


@functools.cache
def operations(task_ids: tuple[str, ...]) -> st.SearchStrategy[tuple[Operation, ...]]:
    task = st.sampled_from([*task_ids, "nobody"])
    maybe = st.one_of(st.none(), task)
    one = st.one_of(
        st.builds(Retry, operation=st.just("retry"), task=task, lessons=LESSONS),
        st.builds(Decompose, operation=st.just("decompose"), task=task, tasks=NEW_TASKS),
        st.builds(Refine, operation=st.just("refine"), task=task, description=TEXTS),
        st.builds(Remove, operation=st.just("remove"), task=task),
        st.builds(Insert, operation=st.just("insert"), parent=task, before=maybe, after=maybe, tasks=NEW_TASKS),
    )
    return st.lists(one, max_size=3).map(tuple)


@functools.cache
def _answers(task_ids: tuple[str, ...]) -> st.SearchStrategy[Answer]:
    return st.builds(Answer, verdict=st.sampled_from(Verdict), reason=TEXTS, operations=operations(task_ids))


def answers(tree: TaskTree) -> st.SearchStrategy[Answer]:
    return _answers(tuple(ids(tree)))
