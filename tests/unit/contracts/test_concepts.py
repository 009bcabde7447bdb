"""A concept that a resource and the wire both describe has the same fields in both."""

import pytest
from msgspec import Struct
from pydantic import BaseModel

from efrit.api import plan as plan_api
from efrit.api import request as api
from efrit.client import plans as client
from efrit.mcp.outputs import plans as mcp_plans
from efrit.mcp.outputs import requests as mcp
from efrit.mcp.tools.requests import BudgetArgument
from efrit.plan.model_output import Observation
from efrit.protocol import request, session
from efrit.protocol.model import WireModel


def names(kind: type[BaseModel | Struct]) -> set[str]:
    """The fields of a kind of value, without the place for keys of later versions."""
    if issubclass(kind, BaseModel):
        return set(kind.model_fields)
    return set(kind.__struct_fields__) - {"extra"}


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
def test_what_a_request_tells_has_the_fields_of_the_wire(
    resource: type[BaseModel], wire: type[WireModel], only_on_the_wire: set[str]
) -> None:
    assert names(resource) == names(wire) - only_on_the_wire


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
        (mcp_plans.Observation, client.Observation),
        (plan_api.PlanCounts, client.Counts),
        (plan_api.PlanCost, client.Cost),
    ],
)
def test_what_a_plan_tells_has_the_fields_of_its_resource(resource: type[BaseModel], value: type[Struct]) -> None:
    assert names(resource) == names(value)
