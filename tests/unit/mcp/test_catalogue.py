"""Which tools a client is told of, and how."""

import jsonschema
import pytest

from efrit.mcp import shapes
from efrit.mcp.catalogue import Access, catalogue
from efrit.mcp.schemas import schema_of
from efrit.mcp.server import as_protocol

NAMES = [
    "efrit_execute",
    "efrit_list_instances",
    "efrit_get_queue_stats",
    "efrit_start_instance",
    "efrit_stop_instance",
    "efrit_submit",
    "efrit_get_request",
    "efrit_wait",
    "efrit_cancel",
]

PLAN_NAMES = [
    "efrit_run_plan",
    "efrit_list_plans",
    "efrit_get_plan",
    "efrit_wait_plan",
    "efrit_amend_plan",
    "efrit_change_plan",
    "efrit_get_plan_log",
]

# The published parameters and answers: name -> (required, optional).
PARAMETERS = {
    "efrit_execute": ({"instance_id", "type", "content"}, {"timeout", "return_context"}),
    "efrit_list_instances": (set(), set()),
    "efrit_get_queue_stats": ({"instance_id"}, set()),
    "efrit_start_instance": ({"instance_id"}, {"queue_dir", "daemon_name", "workspace_dir"}),
    "efrit_stop_instance": ({"instance_id"}, set()),
}
ANSWERS = {
    "efrit_execute": {"request_id", "status", "result", "error", "execution_time", "context", "truncated"},
    "efrit_list_instances": {"instances"},
    "efrit_get_queue_stats": {
        "requests_processed",
        "requests_succeeded",
        "requests_failed",
        "currently_processing",
        "average_processing_time",
        "uptime_seconds",
    },
    "efrit_start_instance": {"status", "message", "queue_dir", "daemon_name"},
    "efrit_stop_instance": {"status", "message"},
}


def test_the_tools_come_in_one_order() -> None:
    assert [tool.name for tool in catalogue(Access.FULL)] == NAMES


def test_where_there_are_plans_their_tools_come_after_the_others() -> None:
    assert [tool.name for tool in catalogue(Access.FULL, plans=True)] == NAMES + PLAN_NAMES


def test_plans_are_looked_at_by_everybody_and_run_amended_and_changed_only_with_full_access() -> None:
    reading = ["efrit_list_plans", "efrit_get_plan", "efrit_wait_plan", "efrit_get_plan_log"]
    for access in (Access.READ_ONLY, Access.NOT_DESTRUCTIVE):
        assert [tool.name for tool in catalogue(access, plans=True) if tool.name in PLAN_NAMES] == reading
    hints = {tool.name: tool.annotations for tool in map(as_protocol, catalogue(Access.FULL, plans=True))}
    for name in PLAN_NAMES:
        hint = hints[name]
        assert hint is not None
        assert (hint.read_only_hint, hint.destructive_hint) == (name in reading, name not in reading)
        assert hint.idempotent_hint == (name not in ("efrit_run_plan", "efrit_amend_plan"))


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_published_tools_take_exactly_the_published_parameters(name: str) -> None:
    schema = schema_of(next(tool for tool in catalogue(Access.FULL) if tool.name == name).takes)
    required, optional = PARAMETERS[name]
    assert set(schema.get("required", ())) == required
    assert set(schema["properties"]) == required | optional


@pytest.mark.parametrize("name", ANSWERS)
def test_the_published_tools_return_exactly_the_published_keys(name: str) -> None:
    schema = schema_of(next(tool for tool in catalogue(Access.FULL) if tool.name == name).returns)
    assert set(schema["properties"]) == ANSWERS[name]


def test_the_words_of_the_published_answers_are_the_published_ones() -> None:
    def words(model: type[shapes.Answer], *path: str) -> list[str]:
        schema = schema_of(model)
        for step in path:
            schema = schema[step]
        return list(schema["enum"])

    assert words(shapes.ExecuteAnswer, "properties", "status") == ["success", "error", "timeout"]
    assert words(shapes.StartAnswer, "properties", "status") == ["started", "already_running", "error"]
    assert words(shapes.StopAnswer, "properties", "status") == ["stopped", "not_running", "error"]
    listed = schema_of(shapes.InstancesAnswer)["properties"]["instances"]["items"]["properties"]
    assert listed["status"]["enum"] == ["active", "inactive", "error"]
    assert set(listed) == {"id", "status", "queue_dir", "uptime_seconds", "last_activity"}


@pytest.mark.parametrize("access", Access)
def test_every_schema_is_plain_json_schema(access: Access) -> None:
    for tool in map(as_protocol, catalogue(access, plans=True)):
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema is not None
            assert schema["type"] == "object"
            assert "$ref" not in str(schema)
            assert "anyOf" not in str(schema)


def test_read_only_offers_nothing_that_changes_anything() -> None:
    tools = [as_protocol(tool) for tool in catalogue(Access.READ_ONLY)]
    names = ["efrit_list_instances", "efrit_get_queue_stats", "efrit_get_request", "efrit_wait"]
    assert [tool.name for tool in tools] == names
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)


def test_without_destructive_tools_work_is_for_the_model_alone() -> None:
    tools = {tool.name: as_protocol(tool) for tool in catalogue(Access.NOT_DESTRUCTIVE)}
    assert set(NAMES) - set(tools) == {"efrit_stop_instance", "efrit_cancel"}
    assert not any(tool.annotations and tool.annotations.destructive_hint for tool in tools.values())
    for name in ("efrit_execute", "efrit_submit"):
        assert tools[name].input_schema["properties"]["type"]["const"] == "chat"


def test_what_runs_code_says_that_it_may_destroy() -> None:
    hints = {tool.name: tool.annotations for tool in map(as_protocol, catalogue(Access.FULL))}
    destructive = {name for name, hint in hints.items() if hint and hint.destructive_hint}
    assert destructive == {"efrit_execute", "efrit_submit", "efrit_stop_instance", "efrit_cancel"}
