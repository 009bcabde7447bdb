"""Every value of the chart is read by a template, every variable it sets by the program that gets it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.bridge.settings import Settings as BridgeSettings
from efrit.controller.settings import Settings as ControllerSettings
from efrit.environment import FromEnvironment
from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents

CHART = REPOSITORY / "charts" / "efrit-operator"
SOURCES = REPOSITORY / "operator" / "efrit"
TEMPLATES = "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
READ = {tuple(path.split(".")) for path in re.findall(r"\.Values\.([A-Za-z0-9.]+)", TEMPLATES)}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    else:
        yield path


VALUES = [".".join(path) for path in leaves(yaml_documents.load((CHART / "values.yaml").read_text()))]


@pytest.mark.parametrize("value", VALUES)
def test_every_value_is_read_by_a_template(value: str) -> None:
    path = tuple(value.split("."))

    assert any(path[: len(read)] == read for read in READ), f"no template reads .Values.{value}"


def test_every_variable_of_the_deployment_is_a_setting_of_the_controller() -> None:
    variables = set(re.findall(r"name: (EFRIT_[A-Z_]+)", (CHART / "templates" / "_env.tpl").read_text()))
    read = {f"EFRIT_{name.upper()}" for name in ControllerSettings.__struct_fields__}

    assert variables
    assert variables <= read


@pytest.mark.parametrize(
    ("settings", "directory"), [(ControllerSettings, SOURCES / "controller"), (BridgeSettings, SOURCES / "bridge")]
)
def test_every_setting_is_read_by_its_program(settings: type[FromEnvironment], directory: Path) -> None:
    sources = "\n".join(path.read_text() for path in directory.rglob("*.py"))
    unread = [
        name for name in settings.__struct_fields__ if not re.search(rf"\b(?:settings|self|given)\.{name}\b", sources)
    ]

    assert unread == []
