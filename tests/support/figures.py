"""The figures of a benchmark beside those kept from the last release (tests/bench/figures.json), and their table."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.paths import REPOSITORY

KEPT = REPOSITORY / "tests" / "bench" / "figures.json"
NOISE = {
    "ms": 0.35,
    "s": 0.35,
    "processor ms": 0.2,
    "% of a processor": 0.35,
    "/s": 0.25,
    "MB": 0.1,
    "KiB": 0.1,
    "times": 0.35,
    "writes": 0.05,
}
"""By how much two runs of one commit may differ, by unit, where the machine does nothing else."""
LEAST = {"processor ms": 0.2, "% of a processor": 0.1}
"""What differs by less is noise, whatever share of it that is: parts that hardly take anything."""
HIGHER_IS_BETTER = ("/s",)


class Figure(NamedTuple):
    """One figure of a run. aim: what was aimed for; detail: what else people may want to see.

    floor: the value of its floor in the same run, in the same unit; its own value if it is a floor, 0 if it has none.
    """

    name: str
    value: float
    unit: str
    aim: str = ""
    detail: str = ""
    floor: float = 0.0

    @property
    def shown(self) -> str:
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        return " ".join(filter(None, (f"{self.value:,.{digits}f}", self.unit.replace("processor ", ""), self.detail)))


SEEN = re.compile(r"([0-9.,]+) ?(/s|ms|s|MB|KiB)(?![a-z])")


COUNT = re.compile(r" \(n=\d+\)")


def of_rows(rows: Iterable[tuple[str, str, str]]) -> Iterator[Figure]:
    """Yield what rows of (figure, aim, seen) say; one that is "the same" as the one before gets the name of that."""
    base = ""
    for title, aim, seen in rows:
        name = COUNT.sub("", title)
        if name.startswith(("the same", "emacs -Q", "so they")):
            name = f"{base}: {name}"
        else:
            base = name
        if (match := SEEN.search(seen)) is None:
            raise ValueError(f"{name}: no figure in {seen!r}")
        detail = " ".join((seen[: match.start()] + seen[match.end() :]).split())
        yield Figure(name, float(match[1].replace(",", "")), match[2], aim, detail)


Kept = Mapping[str, Any]
"""What was kept of a run."""


def load(path: Path = KEPT) -> Kept:
    """Return what was kept: release, day and machine, and by its name the value of each figure and its floor."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"figures": {}}
    return kept


def keep(figures: Iterable[Figure], release: str, commit: str, day: str, path: Path = KEPT) -> None:
    """Keep a run of a commit as that of a release; `day` is the one on which it ended."""
    values = {figure.name: _kept(figure) for figure in figures}
    whole = {"release": release, "commit": commit, "day": day, "machine": machine(), "figures": values}
    path.write_text(json.dumps(whole, indent=1) + "\n")


def _kept(figure: Figure) -> dict[str, Any]:
    floor = {"floor": round(figure.floor, 4)} if figure.floor else {}
    return {"value": round(figure.value, 4), "unit": figure.unit, **floor}


def machine() -> str:
    """Say what ran the benchmarks."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} processors, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def change(figure: Figure, kept: Kept) -> float | None:
    """Return by what share a figure has become worse (negative: better), None where nothing of it was kept."""
    former = kept["figures"].get(figure.name)
    return _change(figure.unit, float(former["value"]), figure.value) if former else None


def change_by_floor(figure: Figure, kept: Kept) -> float | None:
    """Return the same of what each is of the floor of its own run, None where one of them has no floor.

    On a day on which the machine is slower a figure and its floor are slower alike.
    """
    former = kept["figures"].get(figure.name)
    if not former or not former.get("floor") or not figure.floor:
        return None
    return _change(figure.unit, former["value"] / former["floor"], figure.value / figure.floor)


def _change(unit: str, *costs: float) -> float:
    before, now = reversed(costs) if unit in HIGHER_IS_BETTER else costs
    if not before:
        return math.inf if now else 0.0
    return now / before - 1


def worse(figures: Iterable[Figure], kept: Kept) -> Iterator[str]:
    """Yield a line for each figure that has become worse by more than the noise of its unit.

    What has a floor is compared by its share of it.
    """
    for figure in figures:
        absolute, by_floor = change(figure, kept), change_by_floor(figure, kept)
        moved = absolute if by_floor is None else by_floor
        if absolute is None or moved is None or moved <= NOISE[figure.unit]:
            continue
        if figure.value - figure.value / (1 + moved) <= LEAST.get(figure.unit, -math.inf):
            continue
        former = Figure(figure.name, kept["figures"][figure.name]["value"], figure.unit)
        change_of_share = "" if by_floor is None else f", by its floor {by_floor:+.0%}"
        noise = f"noise {NOISE[figure.unit]:.0%}"
        yield f"{figure.name}: {figure.shown}, was {former.shown} ({absolute:+.0%}{change_of_share}, {noise})"


def slower(figures: Iterable[Figure], kept: Kept) -> float | None:
    """Return how many times the kept floors those of this run are (the median), None where there are none of both."""
    floors = [figure for figure in figures if figure.floor and figure.floor == figure.value]
    changes = [moved for figure in floors if (moved := change(figure, kept)) is not None]
    return 1 + statistics.median(changes) if changes else None


def missing(figures: Iterable[Figure], kept: Kept) -> list[str]:
    """Return the names of the figures that were kept and are not in this run."""
    return sorted(kept["figures"].keys() - {figure.name for figure in figures})


def table(figures: Iterable[Figure], kept: Kept) -> Iterator[str]:
    """Yield the lines of the table."""
    rows: list[Sequence[str]] = [("figure", "aimed for", "seen", "of its floor", "kept", "worse by", "by its floor")]
    for figure in figures:
        former = kept["figures"].get(figure.name)
        shown = Figure(figure.name, former["value"], figure.unit).shown if former else ""
        share = f"{figure.value / figure.floor:.2f}" if figure.floor else ""
        changes = [
            "" if moved is None else f"{moved:+.0%}"
            for moved in (change(figure, kept), change_by_floor(figure, kept))
        ]
        rows.append((figure.name, figure.aim, figure.shown, share, shown, *changes))
    yield from columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, the cells of a column one below the other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
