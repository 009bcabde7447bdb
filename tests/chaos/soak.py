"""Seed after seed on several runners at once: hands seeds out, reports each result, sums up.

A runner is a process of its own with its own control plane; it reads seeds and writes verdicts, one JSON object a
line. One that fails or takes too long is replaced.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.chaos.tiers import TIERS
from tests.cluster.paths import REPOSITORY
from tests.support.faults.run import execute

SEEDS_PER_CLUSTER = 40
"""How many runs a control plane is used for: its store grows with every run."""


PROGRESS_SEEDS = 50
"""After how many seeds the figures so far are printed."""


@dataclass(frozen=True)
class Result:
    """What a runner reports of one seed. `error`: the harness failed, which says nothing about the product."""

    seed: int
    theme: str = ""
    requests: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    violations: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        verdict = "ok" if not self.violations else f"{len(self.violations)} VIOLATIONS"
        if self.error:
            verdict = f"HARNESS FAILED: {self.error.strip().splitlines()[-1]}"
        faults = ", ".join(f"{name} {number}" for name, number in sorted(self.hits.items()) if number)
        line = f"seed {self.seed:>6} {self.theme:<9} {self.requests:>3} requests {self.seconds:6.1f} s  {verdict}"
        return line + (f"  ({faults})" if faults else "")


def seeds(first: int | None) -> Iterator[int]:
    """Yield the seeds from `first` on; without one, from a random place on."""
    return count(first if first is not None else 100 * (1 + secrets.randbelow(10**6)))


def run_seed(tier: str, cluster: Any, seed: int, out: Path) -> Result:
    """Run one seed and return its result."""
    schedule, began = TIERS[tier].generate(seed), time.monotonic()
    try:
        verdict = execute(TIERS[tier].run(cluster, schedule), out / f"seed-{seed}")
    except Exception:  # noqa: BLE001 - part of the result
        seconds = time.monotonic() - began
        return Result(
            seed, schedule.theme.value, len(schedule.requests), seconds=seconds, error=traceback.format_exc()
        )
    history = verdict.history
    return Result(
        seed,
        schedule.theme.value,
        len(history.submitted),
        dict(history.hits),
        time.monotonic() - began,
        tuple(map(str, verdict.violations)),
        tuple(note.event for note in history.notes if "ended by itself" in note.event),
    )


def runner(tier: str, out: Path) -> None:
    """Read seeds from standard input, and write a line of JSON for each to standard output."""
    lines = sys.stdin
    while True:
        with TIERS[tier].cluster() as cluster:
            for _ in range(SEEDS_PER_CLUSTER):
                line = lines.readline()
                if not line:
                    return
                result = run_seed(tier, cluster, int(line), out)
                print(json.dumps(asdict(result)), flush=True)
                if result.error:
                    break


class Runner:
    """The other end of `runner`, in the process that hands out seeds."""

    def __init__(self, tier: str, out: Path) -> None:
        self._tier = tier
        self._out = out
        self._child: subprocess.Popen[str] | None = None

    def execute(self, seed: int) -> Result:
        """Run one seed, on a new process if need be."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        watchdog = threading.Timer(TIERS[self._tier].longest, self.kill)
        watchdog.start()
        try:
            child.stdin.write(f"{seed}\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except OSError as error:
            line = ""
            self.kill()
            return Result(seed, error=f"the runner failed: {error}")
        finally:
            watchdog.cancel()
        if not line:
            self.kill()
            return Result(seed, error="the runner ended, or was killed because it hung")
        fields = json.loads(line)
        return Result(**{**fields, "violations": tuple(fields["violations"]), "restarts": tuple(fields["restarts"])})

    def _start(self) -> None:
        # Volumes that a killed runner has mounted go with its own mount namespace.
        alone = ["unshare", "--mount"] if self._tier == "light" and os.geteuid() == 0 else []
        program = [sys.executable, "-m", "tests.chaos", "runner"]
        command = [*alone, *program, "--tier", self._tier, "--out", str(self._out)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, start_new_session=True
        )

    def close(self) -> None:
        """Let the process put everything away and end."""
        if self._child is not None and self._child.poll() is None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            try:
                self._child.wait(TIERS[self._tier].closing)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill the process; the kernel kills what it has started."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


def soak(
    order: Iterator[int],
    *,
    tier: str,
    limit: int,
    minutes: float,
    runners: int,
    out: Path,
    until_broken: bool = False,
) -> int:
    """Run seeds until `limit` or the time is reached. Return 1 for violations, 2 where the harness failed, else 0.

    until_broken: start no other seed after the first violation.
    """
    deadline = time.monotonic() + 60 * minutes
    results: queue.Queue[Result] = queue.Queue()
    lock, remaining = threading.Lock(), limit

    def next_seed() -> int | None:
        nonlocal remaining
        with lock:
            if remaining <= 0 or time.monotonic() >= deadline:
                return None
            remaining -= 1
            return next(order, None)

    def work() -> None:
        mine = Runner(tier, out)
        try:
            while (seed := next_seed()) is not None:
                results.put(mine.execute(seed))
        finally:
            mine.close()

    began = time.monotonic()
    threads = [threading.Thread(target=work, name=f"runner-{number}") for number in range(runners)]
    for thread in threads:
        thread.start()
    done: list[Result] = []
    while any(thread.is_alive() for thread in threads) or not results.empty():
        with suppress(queue.Empty):
            result = results.get(timeout=0.5)
            done.append(result)
            _print_result(result, tier, out)
            if len(done) % PROGRESS_SEEDS == 0:
                print(summary(done, time.monotonic() - began), flush=True)
            if result.violations and until_broken:
                with lock:
                    remaining = 0
    print(summary(done, time.monotonic() - began), flush=True)
    return 1 if any(result.violations for result in done) else 2 if any(result.error for result in done) else 0


def _print_result(result: Result, tier: str, out: Path) -> None:
    print(result, flush=True)
    for violation in result.violations:
        print(f"    {violation}", flush=True)
    for restart in result.restarts:
        print(f"    {restart}", flush=True)
    if result.violations or result.error:
        print(
            f"    see {out / f'seed-{result.seed}'}; again: python -m tests.chaos replay --tier {tier} {result.seed}",
            flush=True,
        )


def summary(results: list[Result], seconds: float) -> str:
    """Return the figures of a soak."""
    hits: Counter[str] = Counter()
    for result in results:
        hits.update(result.hits)
    bad = [result for result in results if result.violations]
    broke = [result for result in results if result.error]
    themes = Counter(result.theme for result in results)
    spent: Counter[str] = Counter()
    for result in results:
        spent[result.theme] += round(result.seconds)
    lines = [
        f"{len(results)} seeds in {seconds:.0f} s, {sum(result.requests for result in results)} requests, "
        f"{sum(hits.values())} faults, "
        f"{sum(len(result.violations) for result in bad)} violations in {len(bad)} seeds, "
        f"{len(broke)} failures of the harness",
        "  themes: "
        + ", ".join(
            f"{name} {number} ({spent[name] / number:.0f} s each)" for name, number in sorted(themes.items())
        ),
        "  faults: " + ", ".join(f"{name} {number}" for name, number in sorted(hits.items()) if number),
    ]
    if bad:
        lines.append("  seeds with violations: " + ", ".join(str(result.seed) for result in bad))
    if broke:
        lines.append("  seeds that failed in the harness: " + ", ".join(str(result.seed) for result in broke))
    return "\n".join(lines)
