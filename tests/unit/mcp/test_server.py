"""Calls of tools as the protocol sees them: wrong names, wrong arguments, failures."""

import re
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from efrit.backend.errors import NotReady
from efrit.mcp.access import Access
from efrit.mcp.error_text import error_text, for_model
from efrit.mcp.server import instructions
from efrit.mcp.tools.registry import offered_tools
from tests.support.mcp_results import structured_content
from tests.unit.mcp.clients import run, text_of
from tests.unit.mcp.conftest import Call, Open
from tests.unit.mcp.scripted import ScriptedBackend

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (run("1", type="evil"), "type"),
        ({"instance_id": "default", "type": "eval"}, "content"),
        (run("1", instance_id="../x"), "instance_id"),
        (run("1", timeuot=3), "timeuot"),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_runs(
    call: Call, backend: ScriptedBackend, arguments: dict[str, Any], wrong: str
) -> None:
    result = await call("efrit_execute", arguments)
    assert (result.is_error, structured_content(result)["code"]) == (True, "InvalidArguments")
    assert wrong in text_of(result)
    assert backend.submitted == []


@pytest.mark.parametrize(("access", "tool"), [(Access.FULL, "efrit_dance"), (Access.READ_ONLY, "efrit_execute")])
async def test_a_tool_that_is_unknown_or_not_offered_is_an_error_of_the_protocol(
    open_client: Open, backend: ScriptedBackend, access: Access, tool: str
) -> None:
    async with open_client(access) as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.session.call_tool(tool, run("1"))
    assert backend.submitted == []


@pytest.mark.parametrize("name", ["..", ".", "a/b", "%2e%2e", ""])
async def test_an_id_that_could_lead_elsewhere_is_refused(call: Call, name: str) -> None:
    result = await call("efrit_get_request", {"request_id": name})
    assert result.is_error
    assert "request_id" in text_of(result)


@pytest.mark.parametrize(
    ("tool", "arguments", "beginning", "remedy"),
    [
        ("efrit_get_queue_stats", {}, "InstanceNotFound: there is no", "efrit_list_instances"),
        ("efrit_submit", {"type": "eval", "content": "1"}, "Refused: pool is for a", "cluster backend"),
    ],
)
async def test_an_error_is_structured_for_programs_and_says_what_to_do(
    call: Call, tool: str, arguments: dict[str, str], beginning: str, remedy: str
) -> None:
    result = await call(tool, arguments | ({"pool": "many"} if arguments else {"instance_id": "nobody"}))
    assert (result.is_error, structured_content(result)["status"]) == (True, "error")
    assert text_of(result).startswith(beginning)
    assert structured_content(result)["code"] == beginning.partition(":")[0]
    assert remedy in structured_content(result)["error"]


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("plans", [False, True])
def test_the_instructions_name_no_tool_and_no_kind_of_work_that_is_not_offered(access: Access, plans: bool) -> None:
    offered = {tool.name for tool in offered_tools(access, plans=plans)}
    text = instructions(access, plans=plans)
    assert set(re.findall(r"efrit_[a-z_]+[a-z]", text)) <= offered
    kinds = {
        Access.FULL: {"eval", "chat", "command"},
        Access.NOT_DESTRUCTIVE: {"chat"},
        Access.READ_ONLY: set(),
    }
    assert {kind for kind in ("eval", "chat", "command") if re.search(rf"\b{kind}s?\b", text)} == kinds[access]


# A remedy of a client is a command: what a model reads in its place.
REMEDIES = {
    "start one with `efrit start NAME`, or see `efrit instances`": "Start one with efrit_start_instance, or see "
    "efrit_list_instances",
    "stop it first: efrit stop box": "Stop it first: efrit_stop_instance",
    "restart it: efrit restart box": "Restart it: efrit_stop_instance, then efrit_start_instance",
    "finished ones are kept for a day: see `efrit requests`": "Finished ones are kept for a day",
    "see `efrit requests`": "Check the request_id",
    "check the context (`kubectl cluster-info`)": "Ask the user to check the connection to the cluster",
    "change its spec with kubectl": "Ask the user to change its spec",
    "efrit wait r-1": "efrit_wait with request_id r-1",
    "name one with --instance, or * for any": "Name one as instance_id, or * for any",
    "see `efrit plan list`": "See efrit_list_plans",
    "it begins once it is watched: efrit plan watch words": "It begins once it is watched: efrit_wait_plan with "
    "plan_id words",
    "`efrit plan resume words` lets it continue": "efrit_change_plan with plan_id words and change resume lets it "
    "continue",
    "run `efrit doctor`": "Ask the user to run the command efrit doctor",
    "`efrit claims`": "efrit_list_claims",
    "kubectl describes it": "kubectl describes it",
}


@pytest.mark.parametrize(("advice", "sentence"), REMEDIES.items())
def test_a_remedy_names_a_tool_and_not_a_command(advice: str, sentence: str) -> None:
    assert error_text(NotReady("It does not run", advice)) == f"It does not run. {sentence}."


def test_every_command_that_the_clients_advise_has_its_tool() -> None:
    """A new remedy with a command fails here until `for_model` knows it."""
    sources = [
        *(ROOT / "operator/efrit/backend").rglob("*.py"),
        *(ROOT / "operator/efrit/client").glob("*.py"),
        *(ROOT / "operator/efrit/plan").glob("*.py"),
        *(ROOT / "images/emacs/lisp").glob("*.el"),
    ]
    texts = [path.read_text() for path in sources if path.stem not in ("doctor", "model_probe", "removal")]
    commands = "efrit (?:start|stop|restart|wait|instances|pools|claims|release|requests|plan [a-z]+)"
    advised = {name for text in texts for name in re.findall(rf"\"[^\"\n]*?({commands}\b[^\"\n]*)\"", text)}
    assert advised
    for advice in advised:
        assert not re.search(rf"{commands}\b", for_model(re.sub(r"\{.*?\}", "box", advice))), advice
