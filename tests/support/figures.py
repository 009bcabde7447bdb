"""The figures of a benchmark beside those kept from the last release (tests/bench/figures.json), and their table."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.paths import REPOSITORY

KEPT = REPOSITORY / "tests" / "bench" / "figures.json"
NOISE = {"ms": 0.35, "s": 0.35, "processor ms": 0.2, "/s": 0.25, "MB": 0.1, "KiB": 0.1, "times": 0.35}
"""By how much two runs of one commit may differ, by unit, where the machine does nothing else."""
HIGHER_IS_BETTER = ("/s",)


class Figure(NamedTuple):
    """One figure of a run. aim: what was aimed for; detail: what else people may want to see."""

    name: str
    value: float
    unit: str
    aim: str = ""
    detail: str = ""

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


def load(path: Path = KEPT) -> dict[str, Any]:
    """Return what was kept: the release, the machine and the value of each figure by name."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"figures": {}}
    return kept


def keep(figures: Iterable[Figure], release: str, path: Path = KEPT) -> None:
    """Keep a run as that of a release."""
    values = {figure.name: {"value": round(figure.value, 4), "unit": figure.unit} for figure in figures}
    path.write_text(json.dumps({"release": release, "machine": machine(), "figures": values}, indent=1) + "\n")


def machine() -> str:
    """Say what ran the benchmarks."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} processors, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def change(figure: Figure, kept: dict[str, Any]) -> float | None:
    """Return by what share a figure has become worse (negative: better), None where nothing of it was kept."""
    former = kept["figures"].get(figure.name)
    if not former:
        return None
    costs = (float(former["value"]), figure.value)
    before, now = reversed(costs) if figure.unit in HIGHER_IS_BETTER else costs
    if not before:
        return math.inf if now else 0.0
    return now / before - 1


def worse(figures: Iterable[Figure], kept: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each figure that has become worse by more than the noise of its unit."""
    for figure in figures:
        moved = change(figure, kept)
        if moved is not None and moved > NOISE[figure.unit]:
            former = Figure(figure.name, kept["figures"][figure.name]["value"], figure.unit)
            yield f"{figure.name}: {figure.shown}, was {former.shown} ({moved:+.0%}, noise {NOISE[figure.unit]:.0%})"


def table(figures: Iterable[Figure], kept: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    rows = [("figure", "aimed for", "seen", "kept", "worse by")]
    for figure in figures:
        former, moved = kept["figures"].get(figure.name), change(figure, kept)
        shown = Figure(figure.name, former["value"], figure.unit).shown if former else ""
        rows.append((figure.name, figure.aim, figure.shown, shown, "" if moved is None else f"{moved:+.0%}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
