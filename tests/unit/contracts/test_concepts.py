"""A concept that several of resource, wire, client and MCP describe has the same fields of the same types in all."""

from typing import Any

import msgspec
import pytest
from msgspec import Struct
from pydantic import BaseModel

from efrit.api import plan as plan_api
from efrit.api import request as api
from efrit.client import plans as client
from efrit.mcp.outputs import requests as mcp
from efrit.mcp.tools.requests import BudgetArgument
from efrit.plan.model_output import Observation
from efrit.plan.tree import Task
from efrit.protocol import request, session
from efrit.protocol.model import WireModel


def names(kind: type[BaseModel | Struct]) -> set[str]:
    """Return the fields of a kind of value, without the place for keys of later versions."""
    if issubclass(kind, BaseModel):
        return set(kind.model_fields)
    return set(kind.__struct_fields__) - {"extra"}


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
    ("resource", "wire", "only_on_the_wire"),
    [
        # A status has the session beside the progress.
        (api.Progress, session.Progress, {"session"}),
        (api.SessionState, session.Session, set()),
        (mcp.Progress, session.Progress, {"session"}),
        (mcp.SessionOutput, session.Session, set()),
        # Published before the failed calls were counted.
        (mcp.UsageOutput, session.Usage, {"model_errors"}),
        (BudgetArgument, request.Budget, set()),
    ],
)
def test_what_a_request_reports_has_the_fields_of_the_wire(
    resource: type[BaseModel], wire: type[WireModel], only_on_the_wire: set[str]
) -> None:
    assert types(resource) == {name: kinds for name, kinds in types(wire).items() if name not in only_on_the_wire}


def test_a_budget_of_a_resource_names_the_unit_of_its_time() -> None:
    assert {name.removesuffix("_seconds") for name in names(api.Budget)} == names(request.Budget)


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        (plan_api.Intent, client.Intent),
        (plan_api.HiddenTasks, client.Hidden),
        (plan_api.TreeNode, client.Task),
        (plan_api.PlanCommit, client.PlanCommit),
        (plan_api.Observation, client.Observation),
        (Observation, client.Observation),
        (plan_api.PlanCounts, client.Counts),
        (plan_api.PlanCost, client.Cost),
    ],
)
def test_what_a_plan_reports_has_the_fields_of_its_resource(resource: type[BaseModel], value: type[Struct]) -> None:
    assert types(resource) == types(value)


def test_a_task_of_a_status_has_the_fields_of_one_of_the_tree() -> None:
    """It stands in a list, so that it names its parent; tasks below it may be left out."""
    assert names(plan_api.TreeNode) - {"parent", "hidden"} == names(Task)
