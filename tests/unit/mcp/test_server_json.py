"""What server.json tells the MCP registry is what this package is."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from efrit import program
from efrit.mcp import settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def told() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "server.json").read_text())
    return loaded


@pytest.fixture
def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


def test_its_package_is_this_one_in_this_version(told: dict[str, Any], project: dict[str, Any]) -> None:
    (package,) = told["packages"]
    assert (package["identifier"], package["version"]) == (project["name"], project["version"])
    assert told["version"] == project["version"]


def test_the_readme_says_that_the_name_is_ours(told: dict[str, Any]) -> None:
    assert f"mcp-name: {told['name']}" in (ROOT / "README.md").read_text()


def test_it_fits_what_the_registry_takes(told: dict[str, Any]) -> None:
    assert len(told["description"]) <= 100
    assert len(told["title"]) <= 100


def test_the_command_it_tells_starts_the_mcp_server(
    told: dict[str, Any],
    project: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert project["scripts"][project["name"]] == "efrit.program:main"
    words = [each["value"] for each in told["packages"][0]["packageArguments"]]
    monkeypatch.setattr("sys.argv", [project["name"], *words, "--help"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 0
    assert "Model Context Protocol" in capsys.readouterr().out


def test_every_command_of_the_documentation_is_understood() -> None:
    found = 0
    for line in (ROOT / "docs/mcp.md").read_text().splitlines():
        words = shlex.split(line.partition("#")[0]) if line.startswith("efrit-mcp ") else []
        if words:
            settings.read(words[1:])
            found += 1
    assert found >= 3
