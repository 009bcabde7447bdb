"""A run of `make bench` goes on where it ended, and is kept once it is whole."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from tests.support.bench import run as bench
from tests.support.bench.run import PieceResult, Run
from tests.support.figures import Figure
from tests.support.plot import Bars, Curves

FIGURES = [Figure("a", 1.5, "ms", "<= 2", "(n=3)", 1.0)]
PANELS: list[Bars | Curves] = [Bars("b", "ms", {"one": {"x": 1.0}}), Curves("c", "ms", "size", {"l": [(1.0, 2.0)]})]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run("a" * 40, "a machine", {}, tmp_path)


def part(*found: Figure) -> bench.Piece:
    return bench.Piece("a part", lambda: ([*found], []))


PIECES = {"path": part(), "open": part()}


def failing() -> bench.Measurement:
    raise RuntimeError("no such luck")


def measured(run: Run, pieces: dict[str, bench.Piece], until: float = math.inf) -> tuple[list[str], list[str]]:
    return bench.measure(run, pieces, until, print, lambda: run.state)


def test_a_recorded_piece_is_read_as_it_was(run: Run) -> None:
    piece = PieceResult(FIGURES, PANELS, 12.5, "2026-01-02T03:04:05+00:00", 1.5)
    run.record("one", piece)
    (read,) = run.pieces(["none", "one"]).values()
    assert read == piece


def test_pieces_that_are_recorded_are_not_measured_again(run: Run) -> None:
    measured(run, {"one": part(FIGURES[0])})
    again = bench.Piece("a part", failing)
    assert measured(run, {"one": again, "two": part(Figure("b", 1.0, "s"))}) == ([], [])
    assert [piece.figures[0].name for piece in run.pieces(["one", "two"]).values()] == ["a", "b"]


def test_a_piece_that_failed_is_measured_again_and_the_others_stay(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"one": bench.Piece("a part", failing), "two": part(FIGURES[0])}
    assert measured(run, parts) == (["one"], [])
    assert "no such luck" in capsys.readouterr().err
    assert measured(run, parts | {"one": part(FIGURES[0])}) == ([], [])
    assert len(run.pieces(["one", "two"])) == 2


def test_no_piece_is_begun_once_the_minutes_are_over(run: Run) -> None:
    assert measured(run, {"one": part(FIGURES[0])}, -1.0) == ([], ["one"])
    assert not run.pieces(["one"])


def test_a_piece_during_which_the_code_changed_is_not_recorded(run: Run) -> None:
    with pytest.raises(SystemExit, match="one is not recorded: the code changed meanwhile"):
        bench.measure(run, {"one": part(FIGURES[0])}, math.inf, print, lambda: "b" * 40)
    assert not run.pieces(["one"])


def test_forgotten_pieces_are_missing(run: Run) -> None:
    measured(run, {"one": part(FIGURES[0]), "two": part(FIGURES[0])})
    run.forget(["one", "none"])
    assert list(run.pieces(["one", "two"])) == ["two"]


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
    pieces = dict.fromkeys(PIECES, PieceResult([], [], 1.0, "", 1.0))
    assert bench.why_not_whole(run, pieces, PIECES) == ""
    for setting in ("QUICK", "STARTS", "fsync"):
        other = Run("a", "b", {setting: "1"}, tmp_path)
        assert bench.why_not_whole(other, pieces, PIECES) == f"it is not of the usual cluster and sizes: {setting}=1"
    pieces.pop("path")
    assert bench.why_not_whole(run, pieces, PIECES) == "these pieces are missing: path"


def test_an_unknown_piece_is_refused() -> None:
    with pytest.raises(SystemExit, match="PIECES: paths: no such piece; there are path, open"):
        bench.chosen(PIECES, "path,paths")
    assert list(bench.chosen(PIECES, "open")) == ["open"]
    assert list(bench.chosen(PIECES, "")) == ["path", "open"]


def test_the_table_of_pieces_says_how_long_each_took() -> None:
    pieces = {
        "path": PieceResult([], [], 90.0, "2026-01-02T03:04:05+00:00", 1.25),
        "open": PieceResult([], [], 30.0, "", 1.0),
    }
    lines = list(bench.times(pieces, PIECES))
    assert lines[1].split() == ["path:", "a", "part", "1.5", "min", "1.2", "2026-01-02T03:04:05+00:00"]
    assert lines[-1].split() == ["together", "2.0", "min"]


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
