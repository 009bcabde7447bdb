"""A run of `make bench` is of one state of the code, and kept once it is whole."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from tests.support.bench import run as bench
from tests.support.bench.run import PieceResult, Run
from tests.support.figures import Figure

FIGURES = [Figure("a", 1.5, "ms", "<= 2", "(n=3)", 1.0)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run("a" * 40, "a machine", {}, tmp_path)


def part(*found: Figure) -> bench.Piece:
    return bench.Piece("a part", lambda: [*found])


PIECES = {"path": part(), "open": part()}


def test_a_piece_during_which_the_code_changed_is_not_recorded(run: Run) -> None:
    with pytest.raises(SystemExit, match="one is not recorded: the code changed meanwhile"):
        bench.measure(run, {"one": part(FIGURES[0])}, math.inf, print, lambda: "b" * 40)
    assert not run.pieces(["one"])


def test_another_state_another_machine_and_other_sizes_are_other_runs(tmp_path: Path) -> None:
    state = "a" * 40
    runs = [
        Run(state, "machine", {}, tmp_path),
        Run("b" * 40, "machine", {}, tmp_path),
        Run(f"{state} changed 0123", "machine", {}, tmp_path),
        Run(state, "another", {}, tmp_path),
        Run(state, "machine", {"QUICK": "1"}, tmp_path),
    ]
    assert len({one.directory for one in runs}) == len(runs)
    assert Run(state, "machine", {}, tmp_path).directory == runs[0].directory


def test_only_a_whole_run_of_the_usual_sizes_is_kept(run: Run, tmp_path: Path) -> None:
    pieces = dict.fromkeys(PIECES, PieceResult([], 1.0, "", 1.0))
    assert bench.why_not_whole(run, pieces, PIECES) == ""
    for setting in ("QUICK", "STARTS", "fsync"):
        other = Run("a", "b", {setting: "1"}, tmp_path)
        assert bench.why_not_whole(other, pieces, PIECES) == f"it is not of the usual cluster and sizes: {setting}=1"
    pieces.pop("path")
    assert bench.why_not_whole(run, pieces, PIECES) == "these pieces are missing: path"


def test_the_state_changes_with_what_is_measured_and_with_nothing_else(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, stdout=subprocess.DEVNULL)

    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("operator/a.py", "1")
    write("tests/bench/figures.json", "1")
    write("docs/a.md", "1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    first = bench.measured_state(tmp_path)
    write("docs/a.md", "2")
    write("tests/bench/figures.json", "2")
    assert bench.measured_state(tmp_path) == first
    git("commit", "-qam", "two")
    assert bench.measured_state(tmp_path) == first
    write("operator/a.py", "2")
    changed = bench.measured_state(tmp_path)
    assert changed.startswith(f"{first} changed ")
    write("operator/a.py", "3")
    assert bench.measured_state(tmp_path) not in (first, changed)
    write("operator/a.py", "1")
    states = {first}
    for text in ("1", "2"):
        write("operator/new/b.py", text)
        states.add(bench.measured_state(tmp_path))
    assert len(states) == 3
