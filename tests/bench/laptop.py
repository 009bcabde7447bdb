"""What an `efrit eval` costs on this machine, beside `emacsclient` and `emacs --batch`; part of `make bench`.

`python -m tests.bench.laptop` runs it alone, without a cluster. The programs take turns, so that whatever else the
machine does falls on all of them alike. Of each the time on the clock and the processor time of its process: the
latter says what it costs on a busy machine, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.quantile import quantile
from tests.support.command_line import parser

EVALS = int(os.environ.get("EVALS", "40"))
STARTS = int(os.environ.get("STARTS", "10"))

FORM = "(+ 1 2)"
DAEMON = "efrit-bench"


@dataclass(frozen=True)
class Cost:
    """Seconds of one run: from start to end of the process, and those its process had a processor."""

    wall: float
    processor: float


Costs = dict[str, list[Cost]]


def measure() -> dict[str, list[float]]:
    """Seconds of each run, by `NAME_seconds` and `NAME_processor_seconds`."""
    with TemporaryDirectory(prefix="efrit-bench-") as home:
        instance = {"queue_dir": f"{home}/queue", "workspace_dir": home, "daemon_name": DAEMON}
        config = Path(home) / "config.json"
        config.write_text(json.dumps({"instances": {"bench": instance}}))
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, "EFRIT_CONFIG": str(config)}
        efrit = str(Path(sys.executable).with_name("efrit"))
        warm = {
            "python": [sys.executable, "-c", "pass"],
            "emacsclient": ["emacsclient", f"--socket-name={DAEMON}", "--eval", FORM],
            "emacs_batch": ["emacs", "-Q", "--batch", "--eval", f"(princ {FORM})"],
            "laptop_eval": [efrit, "eval", FORM],
        }
        cold = {"laptop_cold_eval": warm["laptop_eval"], "laptop_cold_emacs_batch": warm["emacs_batch"]}

        def run(*words: str) -> None:
            subprocess.run([efrit, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        try:
            run("start", "bench")
            costs = in_turns(warm, EVALS, env)
            costs |= in_turns(cold, STARTS, env, before=lambda: run("stop", "bench"))
        finally:
            run("stop", "bench")
    return {
        f"{name}_{kind}": [getattr(measurement, field) for measurement in of_one]
        for name, of_one in costs.items()
        for kind, field in (("seconds", "wall"), ("processor_seconds", "processor"))
    }


def in_turns(
    commands: Mapping[str, list[str]],
    rounds: int,
    env: Mapping[str, str],
    before: Callable[[], None] = lambda: None,
) -> Costs:
    """Run each command once a round, and `before` each round; the first round, which fills caches, does not count."""
    costs: Costs = {name: [] for name in commands}
    for number in range(rounds + 1):
        before()
        for name, command in commands.items():
            cost = cost_of(command, env)
            if number:
                costs[name].append(cost)
    return costs


def cost_of(command: list[str], env: Mapping[str, str]) -> Cost:
    """Run a command to its end."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=dict(env), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall, usage.ru_utime + usage.ru_stime)


def rows(figures: dict[str, list[float]]) -> list[tuple[str, str, str]]:
    """Return the figures for people: what, what was aimed for, what was seen."""

    def formatted(name: str) -> str:
        wall, processor = (
            quantile(figures[f"{name}_{kind}"], 0.5) * 1000 for kind in ("seconds", "processor_seconds")
        )
        return f"{wall:.0f} ms, {processor:.0f} ms of a processor"

    return [
        (f"efrit eval on this machine, warm, p50 (n={EVALS})", "<= 80 ms", formatted("laptop_eval")),
        ("a Python that does nothing, in turns with it", "", formatted("python")),
        ("emacsclient --eval to the same daemon, in turns with it", "", formatted("emacsclient")),
        ("emacs -Q --batch, in turns with it", "", formatted("emacs_batch")),
        (f"efrit eval that starts the daemon, p50 (n={STARTS})", "<= 350 ms", formatted("laptop_cold_eval")),
        ("emacs -Q --batch, in turns with it", "", formatted("laptop_cold_emacs_batch")),
    ]


def main() -> None:
    """Measure and print."""
    for what, aim, measured in rows(measure()):
        print(f"{what:58} {aim:10} {measured}")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
