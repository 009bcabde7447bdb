"""What each side of the contracts spells: variables that it sets and reads, file names, values of constants."""

from __future__ import annotations

import importlib
import re
from dataclasses import MISSING
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, Struct, structs
from pydantic_core import PydanticUndefined

from efrit.bridge.settings import Settings as BridgeSettings
from efrit.controller.manifests.statefulset import build_statefulset
from efrit.controller.settings import Settings as ControllerSettings
from efrit.environment import PREFIX, FromEnvironment
from tests.support.factory import CONFIG, instance
from tests.unit.contracts import elisp
from tests.unit.contracts.elisp import REPOSITORY

SCRIPT = REPOSITORY / "operator/efrit/bridge/run-emacs.sh"
CHART = REPOSITORY / "charts/efrit-operator/templates"
CLIENTS = [REPOSITORY / "operator/efrit" / package for package in ("backend", "client", "cli", "mcp")]
VARIABLE = re.compile(r"\bEFRIT_[A-Z_]*[A-Z]\b")

EVERY_SETTING: dict[str, Any] = {
    "emacs": {"initConfigMapRef": {"name": "my-init"}, "fastStart": {"libraries": ["org"], "existingClaim": "dumps"}},
    "model": {
        "name": "m",
        "proxyURL": "http://proxy.example.org",
        "apiKeySecretRef": {"name": "key", "key": "token"},
    },
    "limits": {"maxIterations": 1, "maxTokens": 1, "iterationTimeoutSeconds": 1},
    "tools": {"allow": ["read_file"], "deny": ["shell_exec"]},
    "queue": {"ephemeral": True},
}
"""A spec with which the pod gets every variable that it may get."""


@lru_cache(maxsize=1)
def set_by() -> dict[str, set[str]]:
    """Return the variables that each side sets; what the client does with one, `mentioned_by_clients` leaves open."""
    pod = build_statefulset(instance(spec=EVERY_SETTING), CONFIG, 1)["spec"]["template"]["spec"]
    return {
        "chart": {name for path in CHART.iterdir() for name in VARIABLE.findall(path.read_text())},
        "pod-bridge": _variables_of(pod["initContainers"][0]),
        "pod-emacs": _variables_of(pod["containers"][0]),
        "run-emacs": set(re.findall(r"export (EFRIT_\w+)", SCRIPT.read_text())),
        "lisp": {text[:-1] for text in elisp.strings() if text.endswith("=") and VARIABLE.fullmatch(text[:-1])},
    }


@lru_cache(maxsize=1)
def read_by() -> dict[str, set[str]]:
    """Return the variables that each side reads."""
    return {
        "controller": _variables_in(ControllerSettings),
        "bridge": _variables_in(BridgeSettings),
        "run-emacs": set(re.findall(r"\$\{(EFRIT_\w+):-", SCRIPT.read_text())),
        "lisp": {text for text in elisp.strings() if VARIABLE.fullmatch(text)},
        "git-helper": {name for text in elisp.strings() for name in re.findall(r"\$(EFRIT_\w+)", text)},
    }


@lru_cache(maxsize=1)
def mentioned_by_clients() -> set[str]:
    """Return the variables that the Python client, the command line and the MCP server name."""
    files = [path for package in CLIENTS for path in package.rglob("*.py")]
    return {name for path in files for name in VARIABLE.findall(path.read_text())}


def _variables_of(container: dict[str, Any]) -> set[str]:
    return {variable["name"] for variable in container["env"] if variable["name"].startswith(PREFIX)}


def _variables_in(settings: type[FromEnvironment]) -> set[str]:
    return {PREFIX + name.upper() for name in settings.__struct_fields__}


@lru_cache(maxsize=1)
def names_in_lisp() -> set[str]:
    """Return the names below the queue that Lisp spells, * for what is known at run time only."""
    names = set()
    for directory, *rest in elisp.calls("efrit-files-path"):
        above = elisp.template(directory)
        name = elisp.template(rest[0]) if rest else ""
        if above and name is not None:
            names.add(f"{above}/{name}" if name else above)
    return names - set(directories_in_lisp())


def directories_in_lisp() -> list[str]:
    """Return the directories that Emacs makes."""
    parts = elisp.definition("efrit-files-parts")[2]
    assert isinstance(parts, tuple)
    return [part for part in parts if isinstance(part, str)]


def names_in_shell() -> set[str]:
    """Return the names below the queue that run-emacs spells."""
    references = re.findall(r'\$queue"?/([\w./*$-]+)', SCRIPT.read_text())
    return {re.sub(r"\$EFRIT_GENERATION", "*", name) for name in references}


def python_constants(module: str) -> set[str]:
    """Return the public strings of a module and its functions that make a file's name, as MODULE:NAME."""
    members = vars(importlib.import_module(module))
    constants = {
        name for name, member in members.items() if name.isupper() and name[0] != "_" and isinstance(member, str)
    }
    own = {name for name, member in members.items() if getattr(member, "__module__", None) == module}
    makers = {name for name in own if name.endswith("_file") and not name.startswith("id_of_")}
    return {f"{module}:{name}" for name in constants | makers}


def python_value(place: str) -> Any:
    """Return a constant, the default of a field, or what a function that names a file makes of *."""
    module, _, path = place.partition(":")
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        fields = _fields_of(value)
        value = fields[name].default if name in fields else getattr(value, name)
    assert value not in (PydanticUndefined, NODEFAULT, MISSING), f"{place} has no default"
    if callable(value) and not isinstance(value, type):
        return value("*")
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _fields_of(model: Any) -> dict[str, Any]:
    if isinstance(model, type) and issubclass(model, Struct):
        return {field.name: field for field in structs.fields(model)}
    return getattr(model, "model_fields", {})


def values_at(place: str) -> list[Any]:
    """Return what is found at a place of the table: one value, or every match of a pattern."""
    kind, _, rest = place.partition(":")
    if kind == "lisp":
        return [elisp.value(elisp.Symbol(rest))]
    if kind == "python":
        return [python_value(rest)]
    file, _, pattern = rest.partition(":")
    return re.findall(pattern, (REPOSITORY / file).read_text())
