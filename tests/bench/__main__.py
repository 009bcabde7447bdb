"""`make bench`: what the whole path costs on this cluster, beside its floor and beside a pod per task.

One table of all figures with what was aimed for, what each is of its floor and what was kept from the last release
(figures.json), how long each piece took, what has become worse by more than the noise, and what was kept and is not
in the run; build/bench.json has the figures.

A piece that ends is recorded in build/bench/. The next `make bench` of the same commit on the same machine goes on
with the pieces that are missing; FRESH=1 measures all of them anew. No piece is begun once MINUTES (60) are over, and
what was left out is said. PIECES=path,open measures those alone, QUICK=1 smaller sizes. KEEP=RELEASE writes a whole
run, measured in one go or several, into figures.json.

Each piece also runs alone: `python -m tests.bench.NAME`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.bench import crowded, evals, laptop, mcp, path, starts, turns
from tests.support import figures
from tests.support.bench import run as runs
from tests.support.bench.run import RESULTS_DIRECTORY, Piece, PieceResult, Run
from tests.support.command_line import parser
from tests.support.figures import Figure

MINUTES = float(os.environ.get("MINUTES", "60"))
BEGAN = time.monotonic()


def say(line: str) -> None:
    """Tell whoever waits how far it is."""
    print(f"[{time.monotonic() - BEGAN:6.0f} s] {line}", file=sys.stderr, flush=True)


def _of_rows(rows: Sequence[tuple[str, str, str]]) -> list[Figure]:
    return list(figures.of_rows(rows))


PIECES: Mapping[str, Piece] = {
    "laptop": Piece("an eval on this machine, without a cluster", lambda: _of_rows(laptop.rows(laptop.measure()))),
    "starts": Piece("starts, memory, a Job for each eval", lambda: asyncio.run(starts.measure())),
    "plans": Piece("plans", lambda: asyncio.run(starts.with_plans())),
    "path": Piece("evals one after the other, bursts, rates, and their floor", lambda: asyncio.run(path.run(say))),
    "instances": Piece("beside many instances", lambda: crowded.measure("instances", say)),
    "open": Piece("beside many open requests", lambda: crowded.measure("open", say)),
    "finished": Piece("beside many finished requests", lambda: crowded.measure("finished", say)),
    "turns": Piece("turns of a model", lambda: _of_rows(turns.measure())),
    "mcp": Piece("an eval by way of the MCP server", lambda: _of_rows(asyncio.run(mcp.measure()))),
    "evals": Piece("hostile evals", lambda: _of_rows(evals.measure())),
}


def against_jobs(found: Sequence[Figure]) -> Iterator[Figure]:
    """Yield how many times as long a Job takes as an eval."""
    values = {figure.name: figure.value for figure in found}
    job, ours = values.get("a Job per eval, p50"), values.get("create -> answer seen, one after the other, p50")
    if job and ours:
        yield Figure("a Job per eval beside an eval", job * 1000 / ours, "times")


def report(run: Run, pieces: Mapping[str, PieceResult], kept: figures.Kept) -> list[Figure]:
    """Print what a run found, write it to build/, and return its figures."""
    found = [figure for piece in pieces.values() for figure in piece.figures]
    found += against_jobs(found)
    print("\n".join(figures.table(found, kept)), end="\n\n")
    print("\n".join(runs.times(pieces, PIECES)))
    settings = "".join(f", {name}={value}" for name, value in run.settings.items())
    print(f"\n{figures.machine()}; at {run.state}{settings}")
    if slower := figures.slower(found, kept):
        print(
            f"the floors of this run are {slower:.2f} times those kept: above 1 the machine is slower, or the API "
            "server does more for each write (rules of the CRDs, admission policies)"
        )
    worse, release = list(figures.worse(found, kept)), kept.get("release", "nothing kept")
    print(f"\nworse than {release} by more than the noise: {len(worse) or 'nothing'}")
    print("\n".join(worse))
    if missing := figures.missing(found, kept):
        print(f"\nkept, but not in this run: {len(missing)}")
        print("\n".join(missing))
    took = {
        name: {"seconds": piece.seconds, "ended": piece.ended, "load": piece.load} for name, piece in pieces.items()
    }
    whole = {"state": run.state, "settings": run.settings, "machine": figures.machine(), "pieces": took}
    rows = [figure._asdict() for figure in found]
    RESULTS_DIRECTORY.parent.mkdir(exist_ok=True)
    (RESULTS_DIRECTORY.parent / "bench.json").write_text(json.dumps({**whole, "figures": rows}, indent=1))
    return found


def main() -> int:
    """Measure what is missing, print, keep."""
    parts, run = runs.chosen(PIECES, os.environ.get("PIECES", "")), Run.of_this_clone()
    if os.environ.get("FRESH"):
        run.forget(parts)
    if recorded := run.pieces(list(parts)):
        say(f"recorded in {run.directory}, measured anew with FRESH=1: {', '.join(recorded)}")
    failed, left_out = runs.measure(run, parts, BEGAN + MINUTES * 60, say)
    pieces = run.pieces(list(PIECES))
    found = report(run, pieces, figures.load())
    for name in failed:
        print(f"failed, as said above: {PIECES[name].title}")
    for name in left_out:
        print(f"left out, as {MINUTES:g} minutes were over; `make bench` goes on with it: {PIECES[name].title}")
    if release := os.environ.get("KEEP"):
        if reason := runs.why_not_whole(run, pieces, PIECES):
            print(f"not kept as {release}: {reason}")
            return 1
        figures.keep(found, release, run.state, max(piece.ended for piece in pieces.values())[:10])
    return 1 if failed else 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
