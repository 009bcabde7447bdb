"""Coverage-guided fuzzing (atheris, which is libFuzzer for Python) of every oracle, each in a process of its own.

    python -m tests.fuzz.guided [--seconds N | --runs N] [--seed N] [--only NAME]...

Seeds are the small real files of corpus/ and what once failed, in regressions/. An input that breaks an oracle is
written to regressions/, which makes it a test case, and the exit status is 1. Linux on x86-64 only: atheris has no
wheels for anything else.
"""

import argparse
import os
import re
import resource
import secrets
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import atheris

from tests.support.timeout import TIMEOUT

# Only what is imported in here is seen by the fuzzer; the oracles must be imported nowhere before.
with atheris.instrument_imports(include=["efrit"]):
    from tests.fuzz.oracles import ORACLES

HERE = Path(__file__).parent
# The fuzzer's own limit of memory costs a second at its end. Its limit of time for one input goes by the clock on the
# wall: on a busy machine the shortest takes seconds.
LIMITS = ("-rss_limit_mb=0", f"-timeout={TIMEOUT:.0f}", "-max_len=16384")
MEMORY_BYTES = 2 << 30
TOGETHER = 2


def main() -> int:
    """Fuzz every target, two at a time; the exit status."""
    parser = argparse.ArgumentParser(description="coverage-guided fuzzing of every reader")
    parser.add_argument("--seconds", type=float, default=20, help="for all targets together")
    parser.add_argument("--runs", type=int, help="inputs for each target, however long it takes")
    parser.add_argument("--seed", type=int, default=0, help="0: a fresh one, which is printed")
    parser.add_argument("--only", action="append", choices=sorted(ORACLES), help="a target; default: all in turn")
    options = parser.parse_args()
    names = options.only or sorted(ORACLES)
    seed = options.seed or secrets.randbelow(2**31 - 1) + 1
    # libFuzzer looks at the clock once a second and ends in the second after.
    share = max(1, round(options.seconds * TOGETHER / len(names)) - 1)
    bound = f"-runs={options.runs}" if options.runs else f"-max_total_time={share}"
    print(f"fuzzing {len(names)} targets with {bound} --seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        broken = _in_children(names, Path(place), [f"-seed={seed}", bound])
    if broken:
        print(f"broken: {', '.join(broken)}; the inputs are in {HERE / 'regressions'}", flush=True)
    return 1 if broken else 0


def _in_children(names: list[str], place: Path, arguments: list[str]) -> list[str]:
    """Fuzz each in a process of its own, forked after the slow imports; those that broke."""
    waiting, running, broken = list(names), dict[int, str](), list[str]()
    while waiting or running:
        while waiting and len(running) < TOGETHER:
            name = waiting.pop(0)
            running[_start(name, place, arguments)] = name
        child, status = os.wait()
        name = running.pop(child)
        withstood = os.waitstatus_to_exitcode(status) == 0
        _report(name, (place / f"{name}.log").read_text(errors="replace"), withstood)
        if not withstood:
            broken.append(name)
    return broken


def _start(name: str, place: Path, arguments: list[str]) -> int:
    regressions, grown, log = HERE / "regressions" / name, place / name, place / f"{name}.log"
    regressions.mkdir(parents=True, exist_ok=True)
    grown.mkdir()
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _fuzz(name, [*arguments, f"-artifact_prefix={regressions}/", str(grown)])
    return child


def _report(name: str, output: str, withstood: bool) -> None:
    tried = re.findall(r"^#(\d+)\s", output, re.MULTILINE)
    print(f"  {name:10} {tried[-1] if tried else 'no':>9} inputs", flush=True)
    if not withstood:
        print(output, flush=True)
    regressions = HERE / "regressions" / name
    if not any(regressions.iterdir()):
        regressions.rmdir()


def _fuzz(name: str, arguments: list[str]) -> NoReturn:
    seeds = [str(folder) for part in ("corpus", "regressions") if (folder := HERE / part / name).is_dir()]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    atheris.Setup([f"fuzz-{name}", *LIMITS, *arguments, *seeds], ORACLES[name])
    atheris.Fuzz()
    raise AssertionError("the fuzzer came back")


if __name__ == "__main__":
    sys.exit(main())
