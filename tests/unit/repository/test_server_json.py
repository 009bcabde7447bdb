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
def server_json() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "server.json").read_text())
    return loaded


@pytest.fixture
def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return loaded


def test_its_package_is_this_one_in_this_version(server_json: dict[str, Any], project: dict[str, Any]) -> None:
    (package,) = server_json["packages"]
    assert (package["identifier"], package["version"]) == (project["name"], project["version"])
    assert server_json["version"] == project["version"]


def test_the_readme_says_that_the_name_is_ours(server_json: dict[str, Any]) -> None:
    assert f"mcp-name: {server_json['name']}" in (ROOT / "README.md").read_text()


def test_it_fits_what_the_registry_takes(server_json: dict[str, Any]) -> None:
    assert len(server_json["description"]) <= 100
    assert len(server_json["title"]) <= 100


def test_the_command_it_names_starts_the_mcp_server(
    server_json: dict[str, Any],
    project: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert project["scripts"][project["name"]] == "efrit.program:main"
    words = [argument["value"] for argument in server_json["packages"][0]["packageArguments"]]
    monkeypatch.setattr("sys.argv", [project["name"], *words, "--help"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 0
    assert "Model Context Protocol" in capsys.readouterr().out


def test_every_command_of_the_documentation_is_understood() -> None:
    count = 0
    for line in (ROOT / "docs/mcp.md").read_text().splitlines():
        words = shlex.split(line.partition("#")[0]) if line.startswith("efrit-mcp ") else []
        if words:
            settings.read(words[1:])
            count += 1
    assert count >= 3
