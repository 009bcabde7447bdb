"""Each concept is defined once.

A resource that must bound a value otherwise than the client reads it has the same fields of the same types.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from pydantic import BaseModel

from efrit.api import plan as plan_api
from efrit.api import request as api
from efrit.backend import plans as client
from efrit.protocol import session
from efrit.protocol.plan_values import Commit, LoggedCommit

PRODUCT = Path(__file__).parents[3] / "operator/efrit"


def types(kind: type[BaseModel | Struct]) -> dict[str, set[str]]:
    """Return the JSON types that each field of a kind of value may have, apart from null."""
    if issubclass(kind, BaseModel):
        schema = kind.model_json_schema(by_alias=False)
        definitions, properties = schema.get("$defs", {}), schema["properties"]
    else:
        definitions = msgspec.json.schema(kind)["$defs"]
        properties = definitions[kind.__name__]["properties"]

    def of(schema: dict[str, Any]) -> set[str]:
        if "$ref" in schema:
            return of(definitions[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return {name for option in schema["anyOf"] for name in of(option)}
        # An enum of msgspec has words, and no type.
        text = "string" if "enum" in schema else schema["type"]
        items = [f"{text} of {name}" for name in of(schema["items"])] if text == "array" else [text]
        return set(items)

    return {name: of(schema) - {"null"} for name, schema in properties.items() if name != "extra"}


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        # A status may have a session without its id.
        (api.SessionState, session.Session),
        (plan_api.Intent, client.Intent),
    ],
)
def test_what_a_resource_reports_has_the_fields_that_its_readers_know(
    resource: type[BaseModel], value: type[Struct]
) -> None:
    assert types(resource) == types(value)


def test_the_fields_of_a_commit_are_in_one_place() -> None:
    # A status has no room for the cost of each commit, so that the commits of a history are another kind of value.
    declared = [
        str(path.relative_to(PRODUCT))
        for path in sorted(PRODUCT.rglob("*.py"))
        if re.search(r"^    hash: .*\n    subject: ", path.read_text(), re.MULTILINE)
    ]
    assert declared == ["protocol/plan_values.py"]
    assert LoggedCommit.__struct_fields__[: len(Commit.__struct_fields__)] == Commit.__struct_fields__
