"""Command line of the seeded runs.

python -m tests.chaos soak --seeds 50 --minutes 30 --runners 2    run seeds until one of both limits is reached
python -m tests.chaos soak --fixed --runners 2                    run the seeds of every test run
python -m tests.chaos replay 17                                   run one seed: schedule, timeline, verdict
python -m tests.chaos plan 17                                     print the schedule of a seed

With `--tier cluster` on the bare cluster, with the operator installed; a seed has another schedule there.
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


def main(arguments: list[str]) -> int:
    """Run one command, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    soak_parser = commands.add_parser("soak", help="run seeds and report those that break a promise")
    soak_parser.add_argument("--seeds", type=int, default=10**9, help="number of seeds at most")
    soak_parser.add_argument("--minutes", type=float, default=10**6, help="start no seed after this time")
    soak_parser.add_argument("--fixed", action="store_true", help="run the seeds of every test run, and no others")
    soak_parser.add_argument("--first", type=int, help="first seed; default: a random one")
    soak_parser.add_argument("--runners", type=int, default=1, help="number of runs at a time")
    soak_parser.add_argument("--theme", type=Theme, help="only seeds of this theme")
    soak_parser.add_argument("--until-broken", action="store_true", help="stop at the first violation")
    replay_parser = commands.add_parser("replay", help="run one seed and print its schedule and its timeline")
    replay_parser.add_argument("seed", type=int)
    replay_parser.add_argument(
        "--times", type=int, default=1, help="repeat until it breaks a promise, at most so often"
    )
    plan_parser = commands.add_parser("plan", help="print the schedule of a seed")
    plan_parser.add_argument("seed", type=int)
    runner_parser = commands.add_parser("runner")
    for subparser in (soak_parser, replay_parser, plan_parser, runner_parser):
        subparser.add_argument(
            "--tier", choices=TIERS, default="light", help="where to run: `cluster` needs the bare cluster"
        )
    for subparser in (soak_parser, replay_parser, runner_parser):
        subparser.add_argument(
            "--out", type=Path, default=OUT, help="directory for the histories and logs of failing runs"
        )
    options = parser.parse_args(arguments)
    match options.command:
        case "soak":
            return _soak(options)
        case "replay":
            return _replay(options)
        case "plan":
            print(TIERS[options.tier].generate(options.seed).describe())
        case "runner":
            soak.runner(options.tier, options.out)
    return 0


def _soak(options: argparse.Namespace) -> int:
    order = iter(FIXED) if options.fixed else soak.seeds(options.first)
    if options.theme is not None:
        order = (seed for seed in order if TIERS[options.tier].generate(seed).theme is options.theme)
    return soak.soak(
        order,
        tier=options.tier,
        limit=options.seeds,
        minutes=options.minutes,
        # A node has one kubelet: a fault of it hits every run on the node.
        runners=options.runners if options.tier == "light" else 1,
        out=options.out.absolute(),
        until_broken=options.until_broken,
    )


def _replay(options: argparse.Namespace) -> int:
    tier = TIERS[options.tier]
    schedule = tier.generate(options.seed)
    print(schedule.describe(), flush=True)
    with tier.cluster() as cluster:
        for time in range(1, options.times + 1):
            verdict = execute(tier.run(cluster, schedule), options.out / f"seed-{schedule.seed}")
            print(f"time {time}: {len(verdict.violations)} violations", flush=True)
            if verdict.violations:
                break
    print(report(verdict.history, verdict.violations))
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
