"""What a tool of the model needs besides its definition in Lisp; each test names what is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from efrit.api.instance_limits import TOOL_NAMES
from tests.unit.repository.tool_definitions import EMACS, Definition, definitions

DEFINED = definitions()
CHAT = Path(__file__).parents[3] / "docs/chat.md"

STATES = {"planning": "no todo yet", "query": "no todo yet", "execution": "a todo was added", "control": "always"}
"""The kind of a tool -> the row of the table in docs/chat.md that it is in."""


def documented() -> dict[str, set[str]]:
    """Return the tools that each row of the table in docs/chat.md names."""
    rows = re.findall(r"^\| (no todo yet|a todo was added|always) \| (.*) \|$", CHAT.read_text(), re.MULTILINE)
    return {state: set(re.findall(r"`(\w+)`", offered)) for state, offered in rows}


def test_every_file_of_tools_defines_some_that_are_read_here() -> None:
    texts = {path: path.read_text() for path in (EMACS / "lisp").glob("efrit-tools-*.el")}
    for path, text in texts.items():
        written = len(re.findall(r"^\(efrit-define-tool ", text, re.MULTILINE))
        assert sum(tool.path == path for tool in DEFINED) == written, f"a definition in {path.name} has no :kind"
    assert len(DEFINED) >= 20


@pytest.mark.parametrize("tool", DEFINED, ids=lambda tool: tool.name)
def test_the_subject_of_a_tool_is_in_the_list_that_is_loaded(tool: Definition) -> None:
    text = (EMACS / "lisp/efrit-tool.el").read_text()
    start = text.index("(defconst efrit-tool-subjects")
    assert tool.path.stem in text[start : text.index(")", start)].split("'(")[1].split(), (
        f"{tool.name} is in {tool.path.name}, which `efrit-tool-subjects' in efrit-tool.el does not list"
    )


@pytest.mark.parametrize("tool", DEFINED, ids=lambda tool: tool.name)
def test_a_tool_is_called_in_a_test(tool: Definition) -> None:
    called = re.compile(rf'efrit-test-(?:call|status|content)\s+"{tool.name}"')
    assert any(called.search(path.read_text()) for path in (EMACS / "test").glob("efrit-*-test.el")), (
        f"next is {tool.path.name.replace('.el', '-test.el')} in images/emacs/test: no test calls {tool.name}"
    )


def test_the_pinned_json_has_every_tool() -> None:
    lines = (EMACS / "test/tools-offered.jsonl").read_text().splitlines()
    named = {json.loads(line)["name"] for line in lines}
    assert named == {tool.name for tool in DEFINED}, "next is `make tools-offered`"


def test_an_instance_may_allow_and_deny_every_tool_that_does_not_end_a_request() -> None:
    lines = (EMACS / "test/tools-offered.jsonl").read_text().splitlines()
    ends = {tool.name for tool in DEFINED if tool.kind == "control"}
    names = [name for name in (json.loads(line)["name"] for line in lines) if name not in ends]
    assert list(TOOL_NAMES) == names, "next is TOOL_NAMES in operator/efrit/api/instance_limits.py"


def test_the_page_about_chats_names_every_tool_where_it_is_offered() -> None:
    assert documented() == {
        state: {tool.name for tool in DEFINED if STATES[tool.kind] == state} for state in set(STATES.values())
    }, "next is docs/chat.md"
