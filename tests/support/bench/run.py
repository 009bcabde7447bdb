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

from tests.cluster.bare import BareCluster
from tests.cluster.cli import choose
from tests.cluster.paths import REPOSITORY
from tests.support import figures
from tests.support.figures import Figure

RESULTS_DIRECTORY = REPOSITORY / "build" / "bench"
MEASURED = ("operator", "images", "charts", "tests", "requirements", "pyproject.toml", ":!tests/bench/figures.json")
"""What a run depends on, as git names it."""
SIZES = (
    *("QUICK", "BURSTS", "SERIAL", "POLLED", "RATE_EVALS", "REST_SECONDS", "PROCESSES"),
    *("INSTANCES", "OPEN", "FINISHED", "BURST"),
    *("STARTS", "JOBS", "EVALS", "MCP_CALLS"),
)
"""Variables of the environment that change what the pieces measure."""


def _unusual_cluster() -> Iterator[tuple[str, str]]:
    """Yield how the cluster is no bare one whose etcd syncs to disk and whose API server keeps a log."""
    cluster = choose()
    if not isinstance(cluster, BareCluster):
        yield "CLUSTER", cluster.kind
    elif made := cluster.made_with():
        yield from ((name, "none") for name in ("fsync", "audit_log") if not made.get(name))


class PieceResult(NamedTuple):
    """What one piece found. seconds: how long it took; ended: in UTC, ISO 8601; load: of the machine at its end."""

    figures: list[Figure]
    seconds: float
    ended: str
    load: float


class Run:
    """One run. `settings` are the sizes that are not the usual ones."""

    def __init__(
        self, state: str, machine: str, settings: Mapping[str, str], directory: Path = RESULTS_DIRECTORY
    ) -> None:
        self.state = state
        self.settings = settings
        identity = hashlib.sha256(json.dumps([state, machine, dict(settings)], sort_keys=True).encode())
        self.directory = directory / f"{state[:12]}-{identity.hexdigest()[:8]}"

    @classmethod
    def of_this_clone(cls) -> Run:
        """Return the run of what this clone and its environment say now."""
        settings = {name: value for name in SIZES if (value := os.environ.get(name))}
        return cls(measured_state(REPOSITORY), figures.machine(), settings | dict(_unusual_cluster()))

    def pieces(self, names: Sequence[str]) -> dict[str, PieceResult]:
        """Return those of the named pieces that are recorded, in the order of the names."""
        return {name: _read(file) for name in names if (file := self._file(name)).exists()}

    def record(self, name: str, piece: PieceResult) -> None:
        """Record a piece that has ended."""
        self.directory.mkdir(parents=True, exist_ok=True)
        whole = {**piece._asdict(), "figures": [figure._asdict() for figure in piece.figures]}
        written = self._file(name).with_suffix(".new")
        written.write_text(json.dumps(whole, indent=1))
        written.replace(self._file(name))

    def forget(self, names: Iterable[str]) -> None:
        """Remove what is recorded of the named pieces."""
        for name in names:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _read(file: Path) -> PieceResult:
    whole: dict[str, Any] = json.loads(file.read_text())
    whole["figures"] = [Figure(**figure) for figure in whole["figures"]]
    return PieceResult(**whole)


def measured_state(repository: Path) -> str:
    """Return the last commit that changed what is measured, and a digest of what is changed and not committed."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(repository), *words, "--", *MEASURED]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    commit = git("log", "-1", "--format=%H").strip()
    changed = git("status", "--porcelain", "--untracked-files=all")
    if not changed:
        return commit
    digest = hashlib.sha256((changed + git("diff", "HEAD")).encode())
    for name in git("ls-files", "-z", "--others", "--exclude-standard").split("\0"):
        if name:
            digest.update((repository / name).read_bytes())
    return f"{commit} changed {digest.hexdigest()[:12]}"


class Piece(NamedTuple):
    """One piece of the bench: what it is called, and what measures it."""

    title: str
    measure: Callable[[], list[Figure]]


def measure(
    run: Run,
    pieces: Mapping[str, Piece],
    until: float,
    say: Callable[[str], None],
    state: Callable[[], str] = lambda: measured_state(REPOSITORY),
) -> tuple[list[str], list[str]]:
    """Measure and record what is not recorded yet; the names of those that failed, and of those that were left out.

    None is begun after `until`, by the monotonic clock. Raises SystemExit where `state` is another after a piece,
    which is not recorded: it may be of both.
    """
    recorded, failed, left_out = run.pieces(list(pieces)), [], []
    for name, piece in pieces.items():
        if name in recorded:
            continue
        began = time.monotonic()
        if began > until:
            left_out.append(name)
            continue
        say(piece.title)
        try:
            found = piece.measure()
        except Exception:  # noqa: BLE001 - whatever it is, it is reported
            traceback.print_exc()
            failed.append(name)
            continue
        if state() != run.state:
            raise SystemExit(f"{name} is not recorded: the code changed meanwhile. Run `make bench` again.")
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        run.record(name, PieceResult(found, time.monotonic() - began, ended, os.getloadavg()[1]))
    return failed, left_out


def chosen(pieces: Mapping[str, Piece], names: str) -> dict[str, Piece]:
    """Return the pieces that are named, separated by commas; all of them where none is."""
    chosen_names = [name for name in names.split(",") if name] or list(pieces)
    if unknown := [name for name in chosen_names if name not in pieces]:
        raise SystemExit(f"PIECES: {', '.join(unknown)}: no such piece; there are {', '.join(pieces)}")
    return {name: pieces[name] for name in chosen_names}


def why_not_whole(run: Run, results: Mapping[str, PieceResult], pieces: Iterable[str]) -> str:
    """Return why a run cannot be kept, nothing if it can."""
    if absent := [name for name in pieces if name not in results]:
        return f"these pieces are missing: {', '.join(absent)}"
    settings = ", ".join(f"{name}={value}" for name, value in run.settings.items())
    return f"it is not of the usual cluster and sizes: {settings}" if settings else ""


def times(results: Mapping[str, PieceResult], pieces: Mapping[str, Piece]) -> Iterator[str]:
    """Yield the lines of a table that says how long each piece took, and when."""
    rows = [("piece", "took", "load", "ended")]
    for name, result in results.items():
        took = f"{result.seconds / 60:.1f} min"
        rows.append((f"{name}: {pieces[name].title}", took, f"{result.load:.1f}", result.ended))
    rows.append(("together", f"{sum(result.seconds for result in results.values()) / 60:.1f} min", "", ""))
    return figures.columns(rows)
