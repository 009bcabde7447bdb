"""Structs of msgspec as fields of models of pydantic, and as objects of a resource."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from msgspec import field as member
from pydantic import BaseModel, ValidationError

from efrit.api.plan import PlanStatus
from efrit.api.request import RequestSpec, RequestStatus
from efrit.protocol import Budget, Progress, Usage
from efrit.protocol.plan_enums import Perspective, TaskState, TaskType
from efrit.protocol.plan_values import HiddenTasks, Observation, Task
from efrit.protocol.resource_case import IN_SECONDS, from_resource, resource_names, to_resource
from efrit.struct_field import Names, StructField, all_fields, only


class Inner(Struct, frozen=True):
    """What is in it."""

    low_bound: Annotated[int, Meta(ge=2, description="The bound.")] = 3


class Outer(Struct, frozen=True, kw_only=True):
    """What holds it."""

    name: Annotated[str, Meta(min_length=1, max_length=4, pattern="^[a-z]+$")]
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    parts: Annotated[tuple[Inner, ...], Meta(max_length=2)] = ()
    counts: Annotated[dict[str, int], Meta(max_length=1)] = member(default_factory=dict)
    pause: Annotated[int | None, Meta(extra=IN_SECONDS)] = None
    extra: dict[str, Any] = {}


def model(names: Names = resource_names, **options: Any) -> type[BaseModel]:
    """Return a model whose field `value` holds an `Outer`."""

    class Model(BaseModel):
        value: Annotated[Outer, StructField(names, **options)]

    return Model


def test_an_object_becomes_the_struct_and_the_struct_the_object() -> None:
    written = {"name": "a", "parts": [{"lowBound": 5}, {}], "pauseSeconds": 7, "later": 1}
    held = model().model_validate({"value": written})
    outer = Outer(name="a", parts=(Inner(5), Inner()), pause=7)
    assert held.value == outer  # type: ignore[attr-defined]
    assert model()(value=outer).model_dump(mode="json", exclude_none=True)["value"] == {
        "name": "a",
        "parts": [{"lowBound": 5}, {"lowBound": 3}],
        "counts": {},
        "pauseSeconds": 7,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"name": ""},
        {"name": "aaaaa"},
        {"name": "A"},
        {"share": 0},
        {"share": 1},
        {"parts": [{}] * 3},
        {"parts": [{"lowBound": 1}]},
        {"counts": {"a": 1, "b": 2}},
        {"counts": {"a": "much"}},
        {"pauseSeconds": "long"},
    ],
)
def test_the_bounds_of_the_struct_are_those_of_the_object(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model().model_validate({"value": {"name": "a", **change}})


def test_a_required_field_is_required() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        model().model_validate({"value": {}})


def test_descriptions_and_bounds_are_in_the_schema() -> None:
    schema = model().model_json_schema()["properties"]["value"]
    assert (schema["description"], schema["required"]) == ("What holds it.", ["name"])
    assert schema["properties"]["parts"]["items"]["description"] == "What is in it."
    bound = schema["properties"]["parts"]["items"]["properties"]["lowBound"]
    assert bound.items() >= {"default": 3, "description": "The bound.", "minimum": 2, "type": "integer"}.items()


def test_a_type_of_its_own_bounds_a_field_and_keeps_its_description() -> None:
    class Model(BaseModel):
        value: Annotated[Inner, StructField(resource_names, own={"low_bound": Annotated[int, Meta(ge=4)]})]

    schema = Model.model_json_schema()["properties"]["value"]["properties"]["lowBound"]
    assert (schema["description"], schema["minimum"]) == ("The bound.", 4)
    with pytest.raises(ValidationError):
        Model.model_validate({"value": {"lowBound": 3}})


def test_fields_can_be_left_out_and_other_names_refused() -> None:
    held = model(only("name"), closed=True)
    assert held(value=Outer(name="a", pause=3)).model_dump()["value"] == {"name": "a"}
    with pytest.raises(ValidationError, match="pause"):
        held.model_validate({"value": {"name": "a", "pause": 3}})
    assert set(all_fields(Outer)) == {"name", "share", "parts", "counts", "pause"}


@pytest.mark.parametrize("options", [{"names": only("nome")}, {"own": {"nome": str}}])
def test_a_name_of_no_field_is_refused_where_the_model_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Outer has no field nome"):
        model(**options)


@pytest.mark.parametrize(
    "value",
    [
        Outer(name="a", parts=(Inner(5),), pause=7, share=0.5),
        Progress(step=1, message="reading", tool_calls=2, tokens=3, session="s"),
        Usage(input_tokens=1, model_errors={"429": 2}),
        Budget(max_tokens=5, iteration_timeout=2),
        Observation(Perspective.BUILD, "It builds."),
    ],
)
def test_an_object_of_a_resource_is_read_without_pydantic(value: Struct) -> None:
    parts = {"parts": [{"lowBound": 5}]} if isinstance(value, Outer) else {}
    assert from_resource(type(value), {**to_resource(value), **parts, "later": 1}) == value


def test_bounds_of_a_later_version_are_read_and_an_unknown_word_is_not() -> None:
    words = {"type": "atomic", "state": "done"}
    task = from_resource(Task, {"id": "x" * 200, "description": "", **words, "hidden": {"done": 1}, "lessons": ["a"]})
    assert (task.type, task.state, task.hidden) == (TaskType.ATOMIC, TaskState.DONE, HiddenTasks(done=1))
    assert (len(task.id), task.lessons) == (200, ("a",))
    with pytest.raises(ValueError, match="later"):
        from_resource(Task, {"id": "x", "description": "", **words, "state": "later"})


def test_a_budget_of_a_resource_is_narrower_and_in_whole_seconds() -> None:
    spec = {"type": "command", "content": "x", "instanceRef": {"name": "i"}}
    read = RequestSpec.model_validate({**spec, "budget": {"maxTokens": 9, "iterationTimeoutSeconds": 60}})
    assert read.budget == Budget(max_tokens=9, iteration_timeout=60)
    assert isinstance(read.budget.iteration_timeout, int)
    assert read.to_wire()["budget"] == {"maxTokens": 9, "iterationTimeoutSeconds": 60}
    for wrong in ({"maxTokens": 10**9}, {"maxToolCalls": 0}, {"iterationTimeoutSeconds": 2.5}):
        with pytest.raises(ValidationError):
            RequestSpec.model_validate({**spec, "budget": wrong})


def test_a_status_has_the_session_beside_the_progress_and_the_whole_tree() -> None:
    progress = RequestStatus(progress=Progress(step=1, session="s")).to_wire()["progress"]
    assert progress == {"step": 1}
    task = {"id": "a", "type": "atomic", "description": "x", "state": "done", "hidden": {"done": 2}}
    status = PlanStatus.model_validate({"tree": [task], "observations": [{"perspective": "build", "statement": "s"}]})
    assert status == PlanStatus.model_validate(status.to_wire())
    assert status.tree[0].hidden == HiddenTasks(done=2)
