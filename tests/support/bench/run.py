"""What each piece of `make bench` found, on disk: a run that ended early goes on where it was.

A run has a directory in build/bench/ with a file for each piece that has ended. It belongs to one state of what is
measured (the last commit that changed it, and what is not committed), one machine and one choice of sizes: where one
of them differs it is another run.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster import audit
from tests.cluster.paths import REPOSITORY, Layout
from tests.support import figures
from tests.support.figures import Figure
from tests.support.plot import Bars, Curves

PLACE = REPOSITORY / "build" / "bench"
MEASURED = ("operator", "images", "charts", "tests", "requirements", "pyproject.toml", ":!tests/bench/figures.json")
"""What a run depends on, as git names it."""
SIZES = (
    *("QUICK", "BURSTS", "SERIAL", "POLLED", "RATE_EVALS", "REST_SECONDS", "PROCESSES"),
    *("INSTANCES", "OPEN", "FINISHED", "BURST"),
    *("STARTS", "JOBS", "EVALS", "MCP_CALLS", "BENCH_EMACS_IMAGE"),
)
"""Variables of the environment that change what the pieces measure."""


class Piece(NamedTuple):
    """What one piece found. seconds: how long it took; ended: in UTC, ISO 8601; load: of the machine at its end."""

    figures: list[Figure]
    panels: list[Bars | Curves]
    seconds: float
    ended: str
    load: float


class Run:
    """One run. `settings` are the sizes that are not the usual ones."""

    def __init__(self, state: str, machine: str, settings: Mapping[str, str], place: Path = PLACE) -> None:
        self.state = state
        self.settings = settings
        identity = hashlib.sha256(json.dumps([state, machine, dict(settings)], sort_keys=True).encode())
        self.directory = place / f"{state[:12]}-{identity.hexdigest()[:8]}"

    @classmethod
    def of_this_clone(cls) -> Run:
        """Return the run of what this clone and its environment say now."""
        settings = {name: value for name in SIZES if (value := os.environ.get(name))}
        layout = Layout.of_this_clone()
        if layout.data.exists() and not audit.flags(layout):
            settings["audit log"] = "none"
        return cls(measured_state(REPOSITORY), figures.machine(), settings)

    def pieces(self, names: Sequence[str]) -> dict[str, Piece]:
        """Return those of the named pieces that are recorded, in the order of the names."""
        return {name: _read(file) for name in names if (file := self._file(name)).exists()}

    def record(self, name: str, piece: Piece) -> None:
        """Record a piece that has ended."""
        self.directory.mkdir(parents=True, exist_ok=True)
        panels = [[type(panel).__name__, *panel] for panel in piece.panels]
        whole = {**piece._asdict(), "figures": [figure._asdict() for figure in piece.figures], "panels": panels}
        written = self._file(name).with_suffix(".new")
        written.write_text(json.dumps(whole, indent=1))
        written.replace(self._file(name))

    def forget(self, names: Iterable[str]) -> None:
        """Remove what is recorded of the named pieces."""
        for name in names:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _read(file: Path) -> Piece:
    whole: dict[str, Any] = json.loads(file.read_text())
    whole["figures"] = [Figure(**figure) for figure in whole["figures"]]
    whole["panels"] = [_panel(*panel) for panel in whole["panels"]]
    return Piece(**whole)


def _panel(kind: str, *fields: Any) -> Bars | Curves:
    if kind == Bars.__name__:
        return Bars(*fields)
    title, unit, over, lines = fields
    return Curves(title, unit, over, {name: [(size, value) for size, value in line] for name, line in lines.items()})


def measured_state(repository: Path) -> str:
    """Return the last commit that changed what is measured, and a digest of what is changed and not committed."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(repository), *words, "--", *MEASURED]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    commit, changed = git("log", "-1", "--format=%H").strip(), git("status", "--porcelain")
    if not changed:
        return commit
    return f"{commit} changed {hashlib.sha256((changed + git('diff', 'HEAD')).encode()).hexdigest()[:12]}"


Found = tuple[list[Figure], list[Bars | Curves]]


class Part(NamedTuple):
    """One piece of the bench."""

    title: str
    measure: Callable[[], Found]


def measure(
    run: Run, parts: Mapping[str, Part], until: float, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Measure and record what is not recorded yet; the names of those that failed, and of those that were left out.

    None is begun after `until`, by the monotonic clock.
    """
    recorded, failed, left_out = run.pieces(list(parts)), [], []
    for name, part in parts.items():
        if name in recorded:
            continue
        began = time.monotonic()
        if began > until:
            left_out.append(name)
            continue
        say(part.title)
        try:
            found, panels = part.measure()
        except Exception:  # noqa: BLE001 - whatever it is, it is reported
            traceback.print_exc()
            failed.append(name)
        else:
            ended = datetime.now(UTC).isoformat(timespec="seconds")
            run.record(name, Piece(found, panels, time.monotonic() - began, ended, os.getloadavg()[1]))
    return failed, left_out


def chosen(parts: Mapping[str, Part], words: str) -> dict[str, Part]:
    """Return the pieces that are named, separated by commas; all of them where none is."""
    names = [name for name in words.split(",") if name] or list(parts)
    if unknown := [name for name in names if name not in parts]:
        raise SystemExit(f"PIECES: {', '.join(unknown)}: no such piece; there are {', '.join(parts)}")
    return {name: parts[name] for name in names}


def why_not_whole(run: Run, pieces: Mapping[str, Piece], parts: Iterable[str]) -> str:
    """Return why a run cannot be kept, nothing if it can."""
    if absent := [name for name in parts if name not in pieces]:
        return f"these pieces are missing: {', '.join(absent)}"
    return "it is of QUICK=1, whose sizes are smaller" if "QUICK" in run.settings else ""


def times(pieces: Mapping[str, Piece], parts: Mapping[str, Part]) -> Iterator[str]:
    """Yield the lines of a table that says how long each piece took, and when."""
    rows = [("piece", "took", "load", "ended")]
    for name, piece in pieces.items():
        rows.append(
            (f"{name}: {parts[name].title}", f"{piece.seconds / 60:.1f} min", f"{piece.load:.1f}", piece.ended)
        )
    rows.append(("together", f"{sum(piece.seconds for piece in pieces.values()) / 60:.1f} min", "", ""))
    return figures.columns(rows)
