"""Command line of the seeded runs.

python -m tests.chaos soak --seeds 50 --minutes 30 --runners 2    seeds until one of both is used up
python -m tests.chaos soak --fixed --runners 2                    the seeds of every test run
python -m tests.chaos replay 17                                   one seed: its plan, its timeline, its verdict
python -m tests.chaos plan 17                                     only what the seed means

With `--tier cluster` on the bare cluster, with the operator installed; a seed means something else there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos import soak
from tests.chaos.tiers import TIERS
from tests.support.faults.generators.light import FIXED
from tests.support.faults.run import execute
from tests.support.faults.schedule import Theme
from tests.support.faults.timeline import report

OUT = Path("/tmp/efrit-chaos")


def main(words: list[str]) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    soaking = commands.add_parser("soak", help="play seeds and report those that break a promise")
    soaking.add_argument("--seeds", type=int, default=10**9, help="how many at most")
    soaking.add_argument("--minutes", type=float, default=10**6, help="begin no seed after this time")
    soaking.add_argument("--fixed", action="store_true", help="play the seeds of every test run, and no others")
    soaking.add_argument("--first", type=int, help="the seeds from here on; default: a fresh place")
    soaking.add_argument("--runners", type=int, default=1, help="how many at a time")
    soaking.add_argument("--theme", type=Theme, help="only seeds of this theme")
    soaking.add_argument("--until-broken", action="store_true", help="stop at the first violation")
    replaying = commands.add_parser("replay", help="play one seed and print its plan and its timeline")
    replaying.add_argument("seed", type=int)
    replaying.add_argument("--times", type=int, default=1, help="until it breaks a promise, at most so often")
    planning = commands.add_parser("plan", help="print what a seed means")
    planning.add_argument("seed", type=int)
    running = commands.add_parser("runner")
    for each in (soaking, replaying, planning, running):
        each.add_argument("--tier", choices=TIERS, default="light", help="where: the real cluster must be up")
    for each in (soaking, replaying, running):
        each.add_argument("--out", type=Path, default=OUT, help="where failing runs leave what was seen of them")
    chosen = parser.parse_args(words)
    match chosen.command:
        case "soak":
            return _soak(chosen)
        case "replay":
            return _replay(chosen)
        case "plan":
            print(TIERS[chosen.tier].generate(chosen.seed).describe())
        case "runner":
            soak.runner(chosen.tier, chosen.out)
    return 0


def _soak(chosen: argparse.Namespace) -> int:
    order = iter(FIXED) if chosen.fixed else soak.seeds(chosen.first)
    if chosen.theme is not None:
        order = (seed for seed in order if TIERS[chosen.tier].generate(seed).theme is chosen.theme)
    return soak.soak(
        order,
        tier=chosen.tier,
        limit=chosen.seeds,
        minutes=chosen.minutes,
        # A node has one kubelet: what befalls it befalls every run on it.
        runners=chosen.runners if chosen.tier == "light" else 1,
        out=chosen.out.absolute(),
        until_broken=chosen.until_broken,
    )


def _replay(chosen: argparse.Namespace) -> int:
    tier = TIERS[chosen.tier]
    schedule = tier.generate(chosen.seed)
    print(schedule.describe(), flush=True)
    with tier.cluster() as cluster:
        for time in range(1, chosen.times + 1):
            verdict = execute(tier.run(cluster, schedule), chosen.out / f"seed-{schedule.seed}")
            print(f"time {time}: {len(verdict.violations)} violations", flush=True)
            if verdict.violations:
                break
    print(report(verdict.history, verdict.violations))
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
