"""Any plan the API takes is read, drawn and described: the schema of the resource says what there can be."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from efrit.api.plan import EfritPlan
from efrit.backend.plan_states import plan_of
from efrit.backend.plans import PlanState
from efrit.cli.output import json_value
from efrit.cli.plan_text import ASCII, UNICODE, changes, full_view, screen
from efrit.cli.plans import plans_table
from efrit.cli.terminal_text import display_width
from efrit.mcp.outputs.plans import plan_output
from efrit.mcp.plan_progress import plan_changes
from tests.support.manifest_strategies import manifests

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def read(manifest: dict[str, Any]) -> PlanState:
    """As the API server would give it back: with the types of the schema."""
    made = EfritPlan.model_validate({"metadata": {"name": "p"}, **manifest})
    return plan_of({"metadata": manifest["metadata"], "spec": made.spec.to_wire(), "status": made.status.to_wire()})


@settings(suppress_health_check=list(HealthCheck))
@given(manifests("efritplans", "status"))
def test_any_plan_is_read_drawn_and_reported(manifest: dict[str, Any]) -> None:
    try:
        state = read(manifest)
    except ValidationError:
        return
    for style in (UNICODE, ASCII):
        lines = screen(state, style, NOW, (80, 25))
        assert len(lines) <= 24
        assert all(display_width(line) <= 80 and line.isprintable() for line in lines)
        assert all(line.isprintable() for line in full_view(state, style, NOW))
    assert all(line.isprintable() for line in changes(None, state))
    assert json_value(state)["name"] == state.name
    assert plans_table([state], NOW).count("\n") == 1
    assert plan_output(state).plan_id == state.name
    assert all(plan_changes(None, state))
