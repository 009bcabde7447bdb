"""What holds for any sound tree and any answer of the right shape."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from efrit.plan.operations import Answer, Insert, NewTask, Refused, Retry, Verdict, apply, failure
from efrit.plan.tree import ROOT, TaskTree, find, next_task, parse_tree, path_to, problems, walk
from efrit.protocol.plan_enums import TaskState, TaskType
from tests.unit.plan.answers import answers
from tests.unit.plan.trees import atomic, ids, in_state, parent, trees

STEP = 9


@st.composite
def cases(draw: st.DrawFn) -> tuple[TaskTree, str, Answer]:
    tree = draw(trees())
    task = next_task(tree)
    assert task is not None
    return tree, task.id, draw(answers(tree))


After = TaskTree | Refused


def an_accepted_answer_leaves_a_sound_tree(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    if isinstance(after, TaskTree):
        assert problems(after) == []
        assert len(ids(after)) == len(set(ids(after)))
        assert parse_tree(after.model_dump_json()) == after


def an_answer_is_carried_out_whole_or_not_at_all(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    if isinstance(after, Refused):
        assert after.sentences
        assert all(sentence.strip() for sentence in after.sentences)
    else:
        assert after != tree


def what_is_done_stays_as_it_is(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    if isinstance(after, TaskTree):
        now = in_state(after, TaskState.DONE)
        for task_id, task in in_state(tree, TaskState.DONE).items():
            assert now[task_id] == task
        assert set(now) - set(in_state(tree, TaskState.DONE)) <= {current}


def the_intent_stays_the_root(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    if isinstance(after, TaskTree):
        assert (after.id, after.description, after.type) == (ROOT, tree.description, tree.type)


def thresholds_only_rise(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    if isinstance(after, TaskTree):
        before = {task.id: task.failure_threshold for task, _ in walk(tree)}
        for task, _ in walk(after):
            assert task.failure_threshold >= before.get(task.id, 0.0)
        task_now = find(after, current)
        if answer.verdict is Verdict.FAILED and task_now is not None:
            assert task_now.failure_threshold > before[current] or before[current] == 1.0


def there_is_something_to_do_or_the_root_is_finished(
    tree: TaskTree, current: str, answer: Answer, after: After
) -> None:
    if isinstance(after, TaskTree):
        task = next_task(after)
        assert (task is None) == (not after.is_pending)
        assert task is None or all(ancestor.is_pending for ancestor in path_to(after, task.id))
        assert not after.is_pending or after.children or not tree.children


def the_same_answer_gives_the_same_tree(tree: TaskTree, current: str, answer: Answer, after: After) -> None:
    assert after == apply(parse_tree(tree.model_dump_json()), current, answer, STEP)


PROPERTIES = (
    an_accepted_answer_leaves_a_sound_tree,
    an_answer_is_carried_out_whole_or_not_at_all,
    what_is_done_stays_as_it_is,
    the_intent_stays_the_root,
    thresholds_only_rise,
    there_is_something_to_do_or_the_root_is_finished,
    the_same_answer_gives_the_same_tree,
)


# One test for all of them: to draw a case takes longer than to look at what an answer makes of it.
@settings(max_examples=2 * settings().max_examples)
@given(cases())
def test_what_holds_of_any_answer_to_any_tree(case: tuple[TaskTree, str, Answer]) -> None:
    tree, current, answer = case
    before = tree.model_dump_json()
    after = apply(tree, current, answer, STEP)
    assert tree.model_dump_json() == before
    for holds in PROPERTIES:
        holds(tree, current, answer, after)


@given(trees(), st.text(max_size=50))
def test_a_plain_failure_is_never_refused(tree: TaskTree, reason: str) -> None:
    task = next_task(tree)
    assert task is not None
    assert isinstance(apply(tree, task.id, failure(reason), STEP), TaskTree)


@given(trees(deepest=3), st.data())
def test_an_id_is_never_given_twice_whatever_the_navigator_does(tree: TaskTree, data: st.DataObject) -> None:
    ever = set(ids(tree))
    for step in range(1, 13):
        task = next_task(tree)
        if task is None:
            return
        after = apply(tree, task.id, data.draw(answers(tree)), step)
        if isinstance(after, Refused):
            after = apply(tree, task.id, failure("refused"), step)
        assert isinstance(after, TaskTree)
        fresh = set(ids(after)) - set(ids(tree))
        assert not fresh & ever
        ever |= fresh
        tree = after


def is_over_after(most: int, tree: TaskTree, navigate: Callable[[TaskTree], Answer]) -> bool:
    for step in range(1, most + 1):
        task = next_task(tree)
        if task is None:
            return True
        after = apply(tree, task.id, navigate(task), step)
        if isinstance(after, Refused):
            after = apply(tree, task.id, failure("refused"), step)
        assert isinstance(after, TaskTree)
        tree = after
    return not tree.is_pending


@given(trees(deepest=3))
def test_a_plan_in_which_everything_fails_ends_by_itself(tree: TaskTree) -> None:
    # Each task fails five times at the most, then its parent is asked.
    assert is_over_after(5 * len(ids(tree)), tree, lambda _: failure("no"))


def test_a_navigator_that_always_tries_again_comes_to_an_end() -> None:
    def stubborn(task: TaskTree) -> Answer:
        again = [child.id for child in task.children if child.state is TaskState.FAILED] or [task.id]
        retries = tuple(Retry(operation="retry", task=task_id) for task_id in again)
        return Answer(verdict=Verdict.FAILED, reason="again", operations=retries)

    assert is_over_after(400, parent(ROOT, parent("a", atomic("b"), atomic("c")), atomic("d")), stubborn)


def test_a_navigator_that_always_adds_is_bounded_by_the_steps_alone() -> None:
    def busy(task: TaskTree) -> Answer:
        more = Insert(operation="insert", parent=ROOT, tasks=(NewTask(type=TaskType.ATOMIC, description="and this"),))
        return Answer(verdict=Verdict.OPEN if task.children else Verdict.DONE, reason="more", operations=(more,))

    assert not is_over_after(50, parent(ROOT, atomic("a")), busy)
