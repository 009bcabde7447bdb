"""docs/sdk.ipynb, run on this machine and against a cluster: it prints what it says that it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.paths import REPOSITORY
from tests.support.efrit_program import Program

NOTEBOOK = REPOSITORY / "docs/sdk.ipynb"
PLAYER = Path(__file__).with_name("play_notebook.py")
SECONDS = 300
WRITE = "EFRIT_WRITE_NOTEBOOK"


def played(env: dict[str, str], cwd: Path, *left_out: str) -> list[str | None]:
    command = [sys.executable, "-W", "error", str(PLAYER), str(NOTEBOOK), *left_out]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return list(json.loads(done.stdout))


def shown(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"])


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_prints_on_this_machine_what_it_shows(on_this_machine: Program, tmp_path: Path) -> None:
    outputs = played(on_this_machine.env, tmp_path, "cluster")
    cells = code_cells(json.loads(NOTEBOOK.read_text()))
    assert outputs == [None if "cluster" in cell["metadata"].get("tags", ()) else shown(cell) for cell in cells]


def test_the_notebook_prints_in_a_cluster_what_it_shows(in_a_namespace_of_its_own: Program, tmp_path: Path) -> None:
    """With EFRIT_WRITE_NOTEBOOK set, writes what it prints into the notebook first (`make notebook`)."""
    config = yaml.safe_load(Path(in_a_namespace_of_its_own.env["KUBECONFIG"]).read_text())
    config["contexts"][0]["context"]["namespace"] = in_a_namespace_of_its_own.where[1]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    env = {**in_a_namespace_of_its_own.env, "KUBECONFIG": str(tmp_path / "kubeconfig"), "EFRIT_BACKEND": "cluster"}
    outputs = played(env, tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    if os.environ.get(WRITE):
        write(notebook, outputs)
    assert outputs == [shown(cell) for cell in code_cells(notebook)]


def write(notebook: dict[str, Any], outputs: list[str | None]) -> None:
    for cell, output in zip(code_cells(notebook), outputs, strict=True):
        text = (output or "").splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_the_notebook_has_no_numbers_of_runs() -> None:
    """They would change with each save; nothing else of a run is kept but what was printed."""
    cells = code_cells(json.loads(NOTEBOOK.read_text()))
    assert {cell["execution_count"] for cell in cells} == {None}
