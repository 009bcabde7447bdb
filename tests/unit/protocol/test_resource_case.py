"""What is defined here as an object of a resource, and back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from pydantic import TypeAdapter

from efrit.protocol import Budget, RetryPolicy, Usage
from efrit.protocol.plan_enums import Perspective, TaskState, TaskType
from efrit.protocol.plan_values import HiddenTasks, Observation, Task
from efrit.protocol.resource_case import IN_SECONDS, from_resource, resource_names, resource_word, to_resource
from efrit.struct_field import StructField

Pause = Annotated[int, Meta(ge=1, extra=IN_SECONDS)]


class Wait(Struct, frozen=True):
    """A part."""

    least: Pause | None = None
    most: Annotated[Pause | None, Meta(description="In seconds.", extra=IN_SECONDS)] = None


class Step(Struct, frozen=True):
    """What has parts."""

    tool_calls: Annotated[int, Meta(extra={"shown": "last"})] = 0
    wait: Wait | None = None
    more_waits: tuple[Wait, ...] = ()
    extra: dict[str, Any] = {}


def test_names_are_in_camel_case_with_the_unit_that_a_type_or_a_part_of_it_says() -> None:
    assert resource_names(Wait) == {"least": "leastSeconds", "most": "mostSeconds"}
    assert resource_names(Step) == {"tool_calls": "toolCalls", "wait": "wait", "more_waits": "moreWaits"}


def test_words_are_in_the_case_of_a_resource() -> None:
    class Word(StrEnum):
        RUNNING = "in_progress"

    assert (resource_word(Word.RUNNING), resource_word(RetryPolicy.IF_INTERRUPTED)) == ("InProgress", "IfInterrupted")


@pytest.mark.parametrize(
    "value",
    [
        Step(2, Wait(least=1), (Wait(), Wait(most=3))),
        Usage(input_tokens=1, model_errors={"429": 2}),
        Budget(max_tokens=5, iteration_timeout=2),
        Observation(Perspective.BUILD, "It builds."),
        Task(id="a", type=TaskType.PARENT, description="x", state=TaskState.DONE, hidden=HiddenTasks(done=1)),
    ],
)
def test_an_object_is_written_as_by_pydantic_and_read_again(value: Struct) -> None:
    kind: Any = type(value)
    written = to_resource(value)
    adapter = TypeAdapter[Any](Annotated[kind, StructField(resource_names)])
    assert written == adapter.dump_python(value, mode="json", exclude_none=True)
    assert from_resource(kind, {**written, "later": 1, "": 1}) == value


def test_bounds_of_a_later_version_are_read() -> None:
    words = {"type": "atomic", "state": "done"}
    task = from_resource(Task, {"id": "x" * 200, "description": "", **words, "hidden": {"done": 1}, "lessons": ["a"]})
    assert (task.type, task.state, task.hidden) == (TaskType.ATOMIC, TaskState.DONE, HiddenTasks(done=1))
    assert (len(task.id), task.lessons) == (200, ("a",))


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (Observation, {"perspective": "later", "statement": ""}, "later"),
        (Observation, {"perspective": "build"}, "statement"),
        (Observation, ["build"], "Observation is an object, not list"),
        (Step, {"moreWaits": ["first"]}, "Wait is an object, not str"),
        (Step, {"moreWaits": 1}, "not iterable"),
    ],
)
def test_what_is_not_such_an_object_is_refused(kind: type[Struct], value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        from_resource(kind, value)
