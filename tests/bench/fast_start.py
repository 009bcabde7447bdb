"""From the start of Emacs to its first answer, where it needs fifty libraries: with a dump of them, and without.

`python -m tests.bench.fast_start` runs a bridge and run-emacs of this machine, without a cluster. They take turns, so
that what else the machine does falls on both alike. Processor time is that of run-emacs and all it has started: it
says what a start costs on a busy machine, too.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.bridge_instance import Instance
from tests.support.command_line import parser
from tests.support.compiled_lisp import compiled_lisp

RUNS = int(os.environ.get("RUNS", "10"))
LIBRARIES = (
    "org org-agenda ox-html ox-md ob-python ediff gnus gnus-art message mm-decode eww shr erc rcirc calendar "
    "diary-lib calc calc-ext python js css-mode sgml-mode nxml-mode sql sh-script perl-mode cc-mode cperl-mode "
    "ruby-mode tramp tramp-sh dired-x dired-aux wdired ibuffer vc vc-git log-edit diff-mode smerge-mode "
    "project xref flymake flyspell compile grep gud hideshow speedbar imenu"
)
"""Fifty that every Emacs has."""

Cost = tuple[float, float]
"""Seconds on the clock, and of a processor."""


def measure() -> dict[str, list[Cost]]:
    """Return what each start took: the one that makes the dump, those with it, and those without."""
    costs: dict[str, list[Cost]] = {"making the dump": [], "with a dump": [], "without": []}
    with TemporaryDirectory(prefix="efrit-bench-") as directory:
        base = Path(directory)
        lisp = compiled_lisp(base / "lisp")
        for name in ("home", "tmp"):
            (base / name).mkdir()
        start(base, lisp, "warm-up", is_dumped=False)
        costs["making the dump"].append(start(base, lisp, "first", is_dumped=True))
        for number in range(RUNS):
            costs["with a dump"].append(start(base, lisp, f"dump-{number}", is_dumped=True))
            costs["without"].append(start(base, lisp, f"none-{number}", is_dumped=False))
        if list((base / "dumps").glob("failed-*")):
            raise RuntimeError("no dump was used: see emacs.log of the instances")
    return costs


def start(base: Path, lisp: Path, name: str, *, is_dumped: bool) -> Cost:
    """Start an Emacs and have it answer an eval; all have the same environment, as the members of a pool."""
    env = {"EFRIT_FAST_START_LIBRARIES": LIBRARIES, "HOME": str(base / "home")}
    if is_dumped:
        env["EFRIT_FAST_START_DIR"] = str(base / "dumps")
    instance = Instance(base / name, lisp, env, temporary=base / "tmp")
    try:
        instance.start_bridge()
        began = time.monotonic()
        instance.spawn_emacs()
        result = instance.eval("first", "(list (featurep 'org) (featurep 'imenu))").result
        seconds = time.monotonic() - began
        if result != "(t t)":
            raise RuntimeError(f"the libraries are not loaded: {result}")
        assert instance.emacs is not None
        return seconds, processor_seconds(instance.emacs.pid)
    finally:
        instance.stop()


def processor_seconds(session: int) -> float:
    """Return what the processes of a session have had of a processor, those that have ended included."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure and print."""
    print(f"{len(LIBRARIES.split())} libraries, load {os.getloadavg()[0]:.0f}")
    print(f"{'start':<16}  {'n':>3}  {'median':>7}  {'slowest':>7}  {'processor':>9}")
    for name, costs in measure().items():
        seconds, processor = zip(*costs, strict=True)
        print(
            f"{name:<16}  {len(costs):>3}  {statistics.median(seconds):>5.2f} s  {max(seconds):>5.2f} s  "
            f"{statistics.median(processor):>7.2f} s"
        )
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
