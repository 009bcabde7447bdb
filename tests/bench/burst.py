"""`python -m tests.bench.burst`: what an eval takes of the processors, part by part. No cluster.

A real API server, etcd, controller, bridge and Emacs of this checkout and, with BEFORE=PATH, of another clone (whose
.venv is ready), in turns in the same run. Each of TURNS (6) turns sends a burst of BURST (400) evals, SERIAL (150)
evals one after the other, and, with FLOOR=1, both to nobody: a create and one patch of the status, which two watch.
Prints milliseconds of a processor for each eval as medians with the smallest and the largest; the ratio is the median
of those of each turn.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from tests.bench import load
from tests.bench.processors import between
from tests.bench.sides import Side, side
from tests.cluster.paths import REPOSITORY
from tests.support.command_line import parser

TURNS = int(os.environ.get("TURNS", "6"))
BURST = int(os.environ.get("BURST", "400"))
SERIAL = int(os.environ.get("SERIAL", "150"))
FLOOR = bool(os.environ.get("FLOOR"))
BEFORE = os.environ.get("BEFORE")
NOW = "now"

Taken = dict[str, list[float]]
"""Part -> milliseconds for each eval, one figure a turn."""
Measured = dict[str, dict[str, Taken]]
"""Load -> side -> what it took."""


async def turn(name: str, one: Side, number: int, into: Measured) -> None:
    """Send each load once and note what it took."""
    loads: dict[str, tuple[int, Callable[[str], Awaitable[object]]]] = {
        f"burst of {BURST}": (BURST, lambda prefix: load.burst(one.target, prefix, BURST)),
        "one after the other": (SERIAL, lambda prefix: load.serial(one.target, prefix, SERIAL)),
    }
    if FLOOR:
        loads |= {
            f"floor, burst of {BURST}": (BURST, lambda prefix: load.floor(one.unserved, prefix, BURST)),
            "floor, one after the other": (SERIAL, lambda prefix: load.floor_serial(one.unserved, prefix, SERIAL)),
        }
    for place, (title, (count, send)) in enumerate(loads.items()):
        if count:
            before = await one.seconds()
            await send(f"t{number}-{place}")
            took = between(before, await one.seconds(), count)
            took["together"] = sum(took.values())
            for part, milliseconds in took.items():
                into[title][name][part].append(milliseconds)


async def measure(checkouts: dict[str, Path], turns: int = TURNS) -> Measured:
    """Measure the checkouts in turns; who begins alternates."""
    measured: Measured = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    async with AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(side(path)) for name, path in checkouts.items()}
        for one in sides.values():
            await load.burst(one.target, "warm", 50)
        for number in range(turns):
            order = list(sides)[:: 1 if number % 2 == 0 else -1]
            for name in order:
                await turn(name, sides[name], number, measured)
            print(f"turn {number + 1} of {turns}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return measured


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the median with the smallest and the largest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def table(measured: Measured) -> list[str]:
    """Return the lines to print."""
    lines = []
    for title, by_side in measured.items():
        before = by_side.get("before")
        lines.append(f"\n{title}, ms of a processor for each eval")
        lines.append(f"  {'':<12} {'before':<24} {'now':<24} ratio" if before else f"  {'':<12} {'now':<24}")
        for part, now in by_side[NOW].items():
            if before is None:
                lines.append(f"  {part:<12} {spread(now):<24}")
                continue
            ratios = [after / max(former, 0.001) for former, after in zip(before[part], now, strict=True)]
            lines.append(f"  {part:<12} {spread(before[part]):<24} {spread(now):<24} {spread(ratios)}")
    return lines


def main() -> int:
    """Measure and print."""
    checkouts = ({"before": Path(BEFORE).resolve()} if BEFORE else {}) | {NOW: REPOSITORY}
    print("\n".join(table(asyncio.run(measure(checkouts)))))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
