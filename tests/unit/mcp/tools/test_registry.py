"""Which tools a client sees, in which order and with which schemas; what a new tool needs besides its definition."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import jsonschema
import pytest
from mcp.types import ListToolsResult, ToolAnnotations
from pydantic import BaseModel

from efrit.mcp import tools
from efrit.mcp.access import Access, Effect
from efrit.mcp.json_schema import json_schema_of
from efrit.mcp.outputs.instances import InstanceList
from efrit.mcp.schema_models import Output
from efrit.mcp.tools.execute import ExecuteOutput
from efrit.mcp.tools.instances import StartOutput, StopOutput
from efrit.mcp.tools.registry import CLUSTER_TOOLS, TOOLS, offered_tools
from efrit.mcp.tools.tool import Tool

ROOT = Path(__file__).resolve().parents[4]
REGISTERED = {tool.name: tool for tool in (*TOOLS, *CLUSTER_TOOLS)}

EFFECTS = {"read": "reads", "add": "adds", "destroy": "destroys"}
"""What docs/mcp.md says a tool may do -> its effect."""

DOCUMENTED = {
    name: EFFECTS[may]
    for name, may in re.findall(r"^\| `(efrit_\w+)` \| .* \| (\w+) \|$", (ROOT / "docs/mcp.md").read_text(), re.M)
}

# What these do on a server that does not allow their effect: chats only, and no answers to questions.
REDUCED = {"efrit_execute": "adds", "efrit_submit": "adds", "efrit_wait": "reads"}
ALLOWED = {
    Access.FULL: {"reads", "adds", "destroys"},
    Access.NOT_DESTRUCTIVE: {"reads", "adds"},
    Access.READ_ONLY: {"reads"},
}

# The published parameters and output: name -> (required, optional).
PARAMETERS = {
    "efrit_execute": ({"instance_id", "type", "content"}, {"timeout", "return_context"}),
    "efrit_list_instances": (set(), set()),
    "efrit_get_queue_stats": ({"instance_id"}, set()),
    "efrit_start_instance": ({"instance_id"}, {"queue_dir", "daemon_name", "workspace_dir"}),
    "efrit_stop_instance": ({"instance_id"}, set()),
}
OUTPUTS = {
    "efrit_execute": {
        *("request_id", "status", "result", "error", "execution_time", "context", "truncated", "output", "messages")
    },
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


def defined() -> Iterator[tuple[str, Tool[Any]]]:
    """Every tool that a module of the package defines, with the path of its module."""
    for module in iter_modules(tools.__path__):
        for value in vars(import_module(f"{tools.__name__}.{module.name}")).values():
            if isinstance(value, Tool):
                yield f"operator/efrit/mcp/tools/{module.name}.py", value


# What a new tool needs, in order: each failure names the file to change next.


def test_1_every_tool_is_in_the_list_of_its_module() -> None:
    missing = [(path, tool.name) for path, tool in defined() if tool.name not in REGISTERED]
    assert not missing, f"not in TOOLS of the module, or the module not in tools/registry.py: {missing}"


@pytest.mark.parametrize("name", REGISTERED)
def test_2_every_tool_is_called_by_a_test(name: str) -> None:
    subject = REGISTERED[name].handler.__module__.rpartition(".")[2]
    folder = Path(__file__).parent
    # This file is about all tools, and calls none.
    calling = [
        file for file in folder.glob("test_*.py") if file != Path(__file__) and f'"{name}"' in file.read_text()
    ]
    assert calling, f"no test calls {name}: add one to {(folder / f'test_{subject}.py').relative_to(ROOT)}"


@pytest.mark.parametrize("name", REGISTERED)
def test_3_every_tool_is_documented_with_what_it_may_do(name: str) -> None:
    assert name in DOCUMENTED, f"docs/mcp.md does not list {name}: add a row to its table of tools"
    effect = REGISTERED[name].effect.value
    assert DOCUMENTED[name] == effect, f"docs/mcp.md says that {name} {DOCUMENTED[name]}, its definition {effect}"


def test_4_the_documentation_lists_the_tools_in_the_order_clients_see() -> None:
    assert list(DOCUMENTED) == list(REGISTERED), "docs/mcp.md: put the rows of its table of tools into this order"


def test_a_name_belongs_to_one_tool() -> None:
    names = [tool.name for tool in (*TOOLS, *CLUSTER_TOOLS)]
    assert sorted(set(names)) == sorted(names)


# What clients see


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("plans", [False, True])
def test_a_server_offers_what_its_access_allows_in_the_documented_order(access: Access, plans: bool) -> None:
    expected = {}
    for name, effect in DOCUMENTED.items():
        allowed = [possible for possible in (effect, REDUCED.get(name)) if possible in ALLOWED[access]]
        if allowed and (plans or not re.search("plan|pool|claim", name)):
            expected[name] = allowed[0]
    offered = {tool.name: tool for tool in offered_tools(access, plans=plans)}
    assert list(offered) == list(expected)
    for name, tool in offered.items():
        hints = tool.to_protocol().annotations
        assert isinstance(hints, ToolAnnotations)
        assert hints.read_only_hint is (expected[name] == "reads")
        assert hints.destructive_hint is (expected[name] == "destroys")


def test_read_only_offers_nothing_that_runs_or_changes_work() -> None:
    names = {tool.name for tool in offered_tools(Access.READ_ONLY, plans=True)}
    assert not names & {"efrit_execute", "efrit_submit", "efrit_start_instance", "efrit_stop_instance"}
    assert not names & {"efrit_cancel", "efrit_run_plan", "efrit_amend_plan", "efrit_change_plan"}
    assert not names & {"efrit_scale_pool", "efrit_undo_pool"}


def test_without_destructive_tools_work_is_for_the_model_alone() -> None:
    offered = {tool.name: tool.to_protocol() for tool in offered_tools(Access.NOT_DESTRUCTIVE)}
    for name in ("efrit_execute", "efrit_submit"):
        assert offered[name].input_schema["properties"]["type"]["const"] == "chat"


def test_only_new_work_claims_and_amendments_change_something_when_they_are_repeated() -> None:
    offered = offered_tools(Access.FULL, plans=True)
    repeatable = {tool.name for tool in offered if not tool.idempotent and tool.effect is not Effect.READS}
    assert repeatable == {"efrit_execute", "efrit_submit", "efrit_run_plan", "efrit_amend_plan", "efrit_claim_member"}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_published_tools_take_exactly_the_published_parameters(name: str) -> None:
    arguments: type[BaseModel] = REGISTERED[name].arguments
    schema = json_schema_of(arguments)
    required, optional = PARAMETERS[name]
    assert set(schema.get("required", ())) == required
    assert set(schema["properties"]) == required | optional


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_published_tools_return_exactly_the_published_keys(name: str) -> None:
    assert set(json_schema_of(REGISTERED[name].output)["properties"]) == OUTPUTS[name]


def test_the_values_of_the_published_output_are_the_published_ones() -> None:
    def values(model: type[Output], *path: str) -> list[str]:
        schema = json_schema_of(model)
        for step in path:
            schema = schema[step]
        return list(schema["enum"])

    assert values(ExecuteOutput, "properties", "status") == ["success", "error", "timeout"]
    assert values(StartOutput, "properties", "status") == ["started", "already_running", "error"]
    assert values(StopOutput, "properties", "status") == ["stopped", "not_running", "error"]
    listed = json_schema_of(InstanceList)["properties"]["instances"]["items"]["properties"]
    assert listed["status"]["enum"] == ["active", "inactive", "error"]
    assert set(listed) == {"id", "status", "queue_dir", "uptime_seconds", "last_activity"}


@pytest.mark.parametrize("access", Access)
def test_every_schema_is_plain_json_schema(access: Access) -> None:
    for tool in offered_tools(access, plans=True):
        declared = tool.to_protocol()
        for schema in (declared.input_schema, declared.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema is not None
            assert schema["type"] == "object"
            assert "$ref" not in str(schema)
            assert "anyOf" not in str(schema)


@pytest.mark.parametrize(("plans", "most"), [(False, 12_000), (True, 31_500)])
def test_the_list_of_tools_takes_little_of_what_a_model_reads(plans: bool, most: int) -> None:
    listed = ListToolsResult(tools=[tool.to_protocol() for tool in offered_tools(Access.FULL, plans=plans)])
    size = len(listed.model_dump_json(by_alias=True, exclude_none=True).encode())
    assert size <= most, f"{size} bytes: shorten descriptions, or raise the limit here and in docs/mcp.md"


@pytest.mark.parametrize(
    ("name", "local", "cluster"),
    [
        ("efrit_submit", set(), {"selector", "pool", "queue_timeout"}),
        ("efrit_start_instance", {"queue_dir", "daemon_name", "workspace_dir"}, set()),
    ],
)
def test_an_argument_that_the_backend_would_refuse_is_not_offered(
    name: str, local: set[str], cluster: set[str]
) -> None:
    for plans, there, absent in ((False, local, cluster), (True, cluster, local)):
        (tool,) = (tool for tool in offered_tools(Access.FULL, plans=plans) if tool.name == name)
        properties = set(tool.to_protocol().input_schema["properties"])
        assert there <= properties
        assert not absent & properties
