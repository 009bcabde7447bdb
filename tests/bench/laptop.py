"""What an `efrit eval` costs on this machine with a warm daemon: part of `make bench`, or run as a module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.quantile import quantile

EVALS = int(os.environ.get("EVALS", "40"))


def measure() -> dict[str, list[float]]:
    """Seconds of each run: an eval from start to end of the process, and of a Python that does nothing."""
    with TemporaryDirectory(prefix="efrit-bench-") as home:
        config = Path(home) / "config.json"
        config.write_text(json.dumps({"instances": {"bench": {"queue_dir": f"{home}/queue", "workspace_dir": home}}}))
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, "EFRIT_CONFIG": str(config)}
        efrit = str(Path(sys.executable).with_name("efrit"))
        subprocess.run([efrit, "start", "bench"], env=env, check=True, stdout=subprocess.DEVNULL)
        try:
            python = [_seconds([sys.executable, "-c", "pass"], env) for _ in range(EVALS)]
            evals = [_seconds([efrit, "eval", "(+ 1 2)"], env) for _ in range(EVALS)]
        finally:
            subprocess.run([efrit, "stop", "bench"], env=env, check=True, stdout=subprocess.DEVNULL)
    return {"laptop_eval_seconds": evals, "python_seconds": python}


def _seconds(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def rows(figures: dict[str, list[float]]) -> list[tuple[str, str, str]]:
    """The figures for people: what, what was aimed for, what was seen."""
    whole, python = (quantile(figures[name], 0.5) * 1000 for name in ("laptop_eval_seconds", "python_seconds"))
    return [
        (f"efrit eval on this machine, warm, p50 (n={EVALS})", "<= 250 ms", f"{whole:.0f} ms"),
        ("of which beyond Python's own start", "<= 100 ms", f"{whole - python:.0f} ms"),
    ]


if __name__ == "__main__":
    for what, aim, seen in rows(measure()):
        print(f"{what:60} {aim:12} {seen}")
