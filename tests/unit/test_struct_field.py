"""Structs of msgspec as fields of models of pydantic."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from msgspec import field as member
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from efrit.protocol.resource_case import IN_SECONDS, resource_names
from efrit.struct_field import Names, StructField, all_fields, fields_named


class Inner(Struct, frozen=True):
    """What is in it."""

    low_bound: Annotated[int, Meta(ge=2, description="The bound.")] = 3


class Outer(Struct, frozen=True, kw_only=True):
    """What holds it."""

    name: Annotated[str, Meta(min_length=1, max_length=4, pattern="^[a-z]+$")]
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    parts: Annotated[tuple[Inner, ...], Meta(max_length=2)] = ()
    counts: Annotated[dict[str, Annotated[int, Meta(multiple_of=5)]], Meta(max_length=1)] = member(
        default_factory=dict
    )
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
        {"counts": {"a": 5, "b": 10}},
        {"counts": {"a": "much"}},
        {"counts": {"a": 3}},
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


def test_a_struct_without_docstring_has_no_description() -> None:
    class Bare(Struct):
        name: str = ""

    class Model(BaseModel):
        value: Annotated[Bare, StructField(all_fields)]

    assert "description" not in Model.model_json_schema()["properties"]["value"]


@pytest.mark.parametrize("bounded", [Annotated[int, Meta(ge=4)], Annotated[int, Field(ge=4), BeforeValidator(int)]])
def test_a_type_of_its_own_bounds_a_field_and_keeps_its_description(bounded: Any) -> None:
    class Model(BaseModel):
        value: Annotated[Inner, StructField(resource_names, overrides={"low_bound": bounded})]

    schema = Model.model_json_schema()["properties"]["value"]["properties"]["lowBound"]
    assert (schema["description"], schema["minimum"]) == ("The bound.", 4)
    with pytest.raises(ValidationError):
        Model.model_validate({"value": {"lowBound": 3}})


def test_the_bounds_of_a_struct_that_is_passed_in_are_for_whoever_made_it() -> None:
    outer = Outer(name="a", parts=(Inner(1),) * 3)
    assert model(overrides={"name": Annotated[str, Meta(min_length=2)]})(value=outer).value is outer  # type: ignore[attr-defined]


def test_what_has_the_default_can_be_left_out_of_the_text() -> None:
    held = model()(value=Outer(name="a", parts=(Inner(3), Inner(5)), pause=7))
    text = held.model_dump_json(exclude_defaults=True)
    assert json.loads(text) == {"value": {"name": "a", "parts": [{}, {"lowBound": 5}], "pauseSeconds": 7}}
    assert model().model_validate_json(text).value == held.value  # type: ignore[attr-defined]


def test_fields_can_be_left_out_and_other_names_refused() -> None:
    held = model(fields_named("name"), forbid_extra=True)
    assert held(value=Outer(name="a", pause=3)).model_dump()["value"] == {"name": "a"}
    with pytest.raises(ValidationError, match="pause"):
        held.model_validate({"value": {"name": "a", "pause": 3}})
    assert set(all_fields(Outer)) == {"name", "share", "parts", "counts", "pause"}


def test_a_field_with_a_default_can_be_required() -> None:
    held = model(required=("name", "pause"), overrides={"pause": int})
    schema = held.model_json_schema()["properties"]["value"]
    assert schema["required"] == ["name", "pauseSeconds"]
    assert "default" not in schema["properties"]["pauseSeconds"]
    with pytest.raises(ValidationError, match="pauseSeconds"):
        held.model_validate({"value": {"name": "a"}})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"names": fields_named("nome")}, "Outer has no field nome"),
        ({"names": fields_named("parts")}, "Inner has no field parts"),
        ({"overrides": {"nome": str}}, "Outer has no field nome"),
        ({"required": ("nome",)}, "Outer has no field nome"),
        ({"overrides": {"name": Annotated[str, Meta(title="The name", tz=True)]}}, "Meta has title, tz"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_where_the_model_is_made(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        model(**options)
