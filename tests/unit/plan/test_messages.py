from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.api.plan import Intent
from efrit.plan import messages
from efrit.plan.messages import ActResult, MessageContext, truncate_middle
from efrit.plan.model_output import Malformed
from efrit.plan.operations import Refused
from efrit.plan.outline import hidden, nearest, outline
from efrit.plan.tree import TaskTree, next_task, path_to, walk
from efrit.protocol.plan_enums import Perspective, TaskState
from efrit.protocol.plan_values import Observation
from tests.unit.plan.trees import atomic, done, failed, ids, parent, trees

INTENT = Intent(
    description="A program that counts words.",
    acceptance_criteria=("make test passes",),
    constraints=("no dependencies",),
)
TREE = parent("root", done("a"), parent("b", atomic("c"), atomic("d")))
ROOM = 60_000


def scene(tree: TaskTree = TREE, task: str | None = None, **changes: Any) -> MessageContext:
    current = path_to(tree, task)[-1] if task else next_task(tree)
    assert current is not None
    fields = {"directory": "/workspace/plans/words/environment", "intent": INTENT, "amendments": ("and lines",)}
    return MessageContext(**{**fields, **changes}, tree=tree, task=current)


def test_the_executor_gets_the_task_and_its_purpose() -> None:
    lesson = "the compiler is called cc"
    tree = parent("root", parent("b", atomic("c").copy_with(lessons=(lesson,))))
    text = messages.act(scene(tree), ROOM)
    for phrase in ("do c", lesson, "b: see to b", "counts words", "make test passes", "no dependencies", "and lines"):
        assert phrase in text
    assert "/workspace/plans/words/environment" in text
    assert "- c (atomic, pending): do c <- this task" in text


def test_the_assessor_gets_what_was_done_and_the_output_of_the_commands() -> None:
    facts = {"build": [{"command": "make", "exitCode": 2, "timedOut": False, "output": "no rule", "seconds": 1}]}
    text = messages.assess(scene(), ActResult("Partial", "I ran out of time.", ("main.c",), "+int main"), facts, ROOM)
    for phrase in ("Partial. I ran out of time.", "main.c", "+int main", "$ make", "exit code 2", "no rule"):
        assert phrase in text
    assert "recommend nothing" in text


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text(), max_size=2))
RESULT = st.dictionaries(st.sampled_from(["command", "exitCode", "timedOut", "output", "seconds"]), ANYTHING)


@given(st.dictionaries(st.text(), ANYTHING | st.lists(RESULT | ANYTHING, max_size=3), max_size=3))
def test_facts_of_any_shape_do_no_harm(facts: dict[str, Any]) -> None:
    assert isinstance(messages.facts_text(facts), str)


def test_the_navigator_gets_the_verdicts() -> None:
    on_atomic = messages.adapt(scene(), (), ROOM)
    assert "open:" not in on_atomic
    assert "open:" in messages.adapt(scene(task="b"), (), ROOM)
    with_failed = messages.adapt(scene(parent("root", failed("x")), "root"), (), ROOM)
    assert "open:" not in with_failed
    assert "was given up" in with_failed


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.6, None), (0.8, "unless you decompose, remove or retry it"), (1.0, "unless you decompose, remove it")],
)
def test_the_navigator_is_warned_when_a_failure_would_be_the_last(threshold: float, expected: str | None) -> None:
    text = messages.adapt(scene(parent("root", atomic("a", threshold=threshold))), (), ROOM)
    assert ("THIS TIME" in text) == (expected is not None)
    assert expected is None or expected in text


def test_the_navigator_sees_the_observations() -> None:
    fact = Observation(perspective=Perspective.QUALITY, statement="two warnings", evidence="main.c:3")
    assert "[quality] two warnings (main.c:3)" in messages.adapt(scene(), (fact,), ROOM)


def test_assessor_and_navigator_get_every_perspective() -> None:
    assessing = messages.assess(scene(), None, {}, ROOM)
    navigating = messages.adapt(scene(), (), ROOM)
    assert all(f"\n- {perspective.value}: " in assessing for perspective in Perspective)
    assert all(word in navigating for word in ("technically", "requirements", "risks", "efficiency"))


def test_what_was_wrong_goes_back_in_sentences() -> None:
    assert "- It is empty." in messages.repair(Malformed(("It is empty.",)))
    assert "- There is no task x." in messages.retry_adapt(Refused(("There is no task x.",)))


def test_what_is_long_is_cut_and_what_is_short_is_kept() -> None:
    work = ActResult("Success", "Done.", ("main.c",), "+x\n" * 100_000)
    text = messages.assess(scene(), work, {"build": [{"command": "make", "output": "o" * 200_000}]}, 20_000)
    assert len(text.encode()) <= 20_000
    for phrase in ("do c", "Done.", "main.c", "make test passes", "left out here"):
        assert phrase in text


@given(trees(), st.text(max_size=3_000), st.integers(8_000, 30_000))
def test_a_message_keeps_within_its_room_and_holds_no_nul(tree: TaskTree, text: str, room: int) -> None:
    here = scene(tree, amendments=(text * 20,))
    fact = Observation(perspective=Perspective.BUILD, statement="x", evidence=text[:2_000])
    for message in (
        messages.act(here, room),
        messages.assess(here, ActResult("Success", text, (text,), text * 10), {}, room),
        messages.adapt(here, (fact,) * 40, room),
    ):
        assert len(message.encode()) <= room
        assert "\0" not in message


def test_a_diff_full_of_nuls_keeps_within_its_room() -> None:
    text = messages.assess(scene(), ActResult("Success", "Done.", ("program",), "\0" * 100_000), {}, 20_000)
    assert len(text.encode()) <= 20_000
    assert "\ufffd" in text
    assert "\0" not in text


@given(st.text(), st.integers(0, 200))
def test_a_cut_text_fits(text: str, room: int) -> None:
    assert len(truncate_middle(text, room).encode()) <= room


@given(trees(root_pending=False), st.data())
def test_the_nearest_tasks_come_first_and_none_before_its_parent(tree: TaskTree, data: st.DataObject) -> None:
    current = data.draw(st.sampled_from(ids(tree)))
    order = [task.id for task in nearest(tree, current)]
    assert sorted(order) == sorted(ids(tree))
    way = [task.id for task in path_to(tree, current)]
    assert order[: len(way)] == way
    for task, _ in walk(tree):
        assert all(order.index(task.id) < order.index(child.id) for child in task.children)


@given(trees(), st.integers(1, 10), st.data())
def test_what_is_hidden_and_what_is_shown_is_everything(tree: TaskTree, most: int, data: st.DataObject) -> None:
    current = data.draw(st.sampled_from(ids(tree)))
    shown = {task.id for task in list(nearest(tree, current))[:most]}
    below = hidden(tree, shown)
    assert set(below) <= shown
    assert len(shown) + sum(sum(states.values()) for states in below.values()) == len(ids(tree))


@given(trees(), st.integers(0, 2_000))
def test_an_outline_keeps_within_its_room(tree: TaskTree, room: int) -> None:
    assert len(outline(tree, None, room).encode()) <= room


def test_an_outline_counts_what_it_has_no_room_for() -> None:
    tree = parent("root", *(atomic(f"t{n}", TaskState.DONE) for n in range(500)), atomic("now"), atomic("then"))
    text = outline(tree, "now", 1_000)
    assert "- now (atomic, pending): do now <- this task" in text
    assert "- then" in text
    assert "done)" in text
