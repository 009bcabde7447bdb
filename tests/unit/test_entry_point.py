"""Modules that are imported when they are needed, not at the top of those that use them: these and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import efrit
from efrit.entry_point import load_entry_point

PRODUCT = Path(efrit.__file__).parent
IMPORT_IN_A_LINE = re.compile(r"(?:^[ \t]+|[:;][ \t]*)(?:import|from)[ \t]", re.MULTILINE)

IN_FUNCTIONS = {
    ("bridge/start.py", "efrit.bridge.app"): "the process is hidden from Emacs before anything takes time",
    ("cli/app.py", "efrit.cli.program"): "until all is loaded, Ctrl-C must end the process without a traceback",
    ("cli/chat.py", "readline"): "it takes hold of the terminal when it is loaded",
    ("cli/output.py", "yaml"): "90 million instructions, for `-o yaml` alone",
    ("backend/local/process.py", "subprocess"): "14 million, where there is no /proc",
}
"""Imports in functions, and why they are not at the top. An eval on a laptop imports 309 million instructions."""

BY_NAME = {
    ("cli/parser.py", "efrit.closest_word:closest_word"): "difflib, 3 million, for a command line that is wrong",
    ("cli/program.py", "efrit.cli.completion:run_complete"): "asyncio, 85 million, and no command runs it",
    ("cli/program.py", "efrit.cli.event_loop:run_in_loop"): "asyncio: most evals on a laptop end without it",
    (
        "backend/open.py",
        "efrit.backend.cluster.backend:connect_cluster",
    ): "the Kubernetes library, 1,418 million",
    ("backend/open.py", "efrit.backend.cluster.names:contexts"): "the Kubernetes library",
    ("backend/open.py", "efrit.backend.cluster.names:namespaces"): "the Kubernetes library",
    ("backend/local/backend.py", "efrit.backend.local.plans:LocalPlans"): "pydantic and the engine of plans",
    ("backend/local/queues.py", "efrit.backend.local.emacs_process:start"): "subprocess, 14 million, and shutil, 6",
    ("queue/archive.py", "efrit.queue.put_aside:delete_put_aside"): "logging, and what few sweeps need",
    (
        "backend/local/instances.py",
        "efrit.backend.local.heartbeat:heartbeat_problem",
    ): "for a list of instances alone",
    ("backend/local/queues.py", "efrit.backend.local.legacy:migrate"): "shutil, where an earlier version left files",
    (
        "backend/local/settings.py",
        "efrit.backend.local.unknown_keys:unknown_key",
    ): "difflib, for a wrong file",
    ("mcp/app.py", "efrit.mcp.http:serve_http"): "a web server, 1,007 million, for a client on standard input",
    ("program.py", "efrit.controller.app:main"): "the MCP server does without it",
    ("program.py", "efrit.mcp.app:main"): "the controller does without it",
}
"""What `load_entry_point` is given as a text, and what only that loads. Commands name their functions too."""


def trees(text: str | re.Pattern[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each file of the product that has this text."""
    for path in sorted(PRODUCT.rglob("*.py")):
        if re.search(text, source := path.read_text()):
            yield str(path.relative_to(PRODUCT)), ast.parse(source)


def imports_in_functions(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that functions import."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom):
                    yield "." * node.level + (node.module or "")
                elif isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)


def calls(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a function of this name, be it imported or an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)) == name:
                yield node


def texts() -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each entry point that is spelled where it is loaded."""
    for file, tree in trees("load_entry_point"):
        for call in calls(tree, "load_entry_point"):
            if isinstance(text := call.args[0], ast.Constant):
                yield file, str(text.value)


def test_functions_import_these_modules_and_no_others() -> None:
    found = {(file, module) for file, tree in trees(IMPORT_IN_A_LINE) for module in imports_in_functions(tree)}
    assert found == set(IN_FUNCTIONS), "import it at the top, or write here why that is too early"


def test_these_entry_points_are_loaded_by_name_and_no_others() -> None:
    assert set(texts()) == set(BY_NAME), "import it at the top, or write here what that would load for nothing"


def test_nothing_else_imports_a_module_by_its_name() -> None:
    found = {
        file
        for name in ("import_module", "__import__", "resolve_name")
        for file, tree in trees(name)
        for _ in calls(tree, name)
    }
    assert found == {"entry_point.py"}


@pytest.mark.parametrize("name", sorted({name for _, name in BY_NAME}))
def test_each_entry_point_is_there(name: str) -> None:
    assert callable(load_entry_point(name))


def test_a_module_or_an_attribute_that_is_missing_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        load_entry_point("efrit.nothing:main")
    with pytest.raises(AttributeError):
        load_entry_point("efrit.program:nothing")
