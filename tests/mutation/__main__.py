"""The mutation gate: takes one safety step at a time out of a copy of the product; a test must fail each time.

    python -m tests.mutation [--tested] [WORDS]    those whose step has all the words; all of them without
    python -m tests.mutation --table               write which tests guard which step into docs/dev/fault-tests.md

The tests are first run on the untouched copy: one that fails by itself would guard nothing. With --tested that was
done just before, as in `make test`, whose other tiers have them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice

from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.mutation.copy import ERT, Copy, some_copies
from tests.mutation.mutant import Mutant
from tests.mutation.mutants import MUTANTS
from tests.mutation.operation import Misplaced
from tests.support.fixtures import SHARED_PLANE, shared_plane

RUNNERS = 3
WAITING_RUNNERS = (5, 3)
"""Those of mutants of Lisp, and of others, that are `silent`: each of their tests waits for MUTANT_TIMEOUT.

Apart, as a copy that runs a test of Python has a process that imports the libraries.
"""
PAGE = REPOSITORY / "docs" / "dev" / "fault-tests.md"
MARKS = ("<!-- mutants: made by `python -m tests.mutation --table` -->\n", "<!-- /mutants -->")


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(__doc__)
        return 0
    if words == ["--table"]:
        PAGE.write_text(with_table(PAGE.read_text()))
        return 0
    tested = words[:1] == ["--tested"]
    if tested:
        words = words[1:]
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.step for word in words)]
    if not chosen:
        print(f"no step has the words {' '.join(words)}", file=sys.stderr)
        return 64
    working = [mutant for mutant in chosen if not mutant.silent and not mutant.generates]
    served = [mutant for mutant in chosen if mutant.generates]
    silent = [mutant for mutant in chosen if mutant.silent and not mutant.generates]
    silent_lisp = [mutant for mutant in silent if all(test.startswith(ERT) for test in mutant.tests)]
    silent_python = [mutant for mutant in silent if mutant not in silent_lisp]
    groups = (working, served, silent_lisp, silent_python)
    sizes = [min(most, len(group)) for most, group in zip((RUNNERS, 1, *WAITING_RUNNERS), groups, strict=True)]
    with _control_plane(served), some_copies(sum(sizes)) as copies:
        if not tested and not _untouched_passes(copies[0], chosen):
            return 1
        remaining = iter(copies)
        own = [list(islice(remaining, size)) for size in sizes]
        tries = (_try_all, _try_served, _try_all, _try_all)
        with ThreadPoolExecutor(len(groups)) as beside:
            results = beside.map(lambda attempt, *rest: attempt(*rest), tries, own, groups)
            survived = [mutant for result in results for mutant in result]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} steps are guarded")
    for mutant in survived:
        print(f"NOT GUARDED: {mutant.step} (gate: {mutant.gate})")
    return 1 if survived else 0


@contextmanager
def _control_plane(served: list[Mutant]) -> Iterator[None]:
    """Run an API server for the mutants of the CRDs, one after the other, in the variable that their tests read."""
    if not served:
        yield
        return
    with ControlPlane() as plane:
        os.environ[SHARED_PLANE] = shared_plane(plane)
        try:
            yield
        finally:
            del os.environ[SHARED_PLANE]


def _try_served(copies: list[Copy], served: list[Mutant]) -> list[Mutant]:
    """Return the mutants of the CRDs no test noticed: all of them where the untouched CRDs fail afterwards.

    What broke the API server that they share would otherwise pass for what each test noticed.
    """
    survived = _try_all(copies, served)
    return survived if not served or _untouched_passes(copies[0], served) else served


def _untouched_passes(copy: Copy, chosen: list[Mutant]) -> bool:
    began = time.monotonic()
    tests = dict.fromkeys(test for mutant in chosen for test in mutant.tests)
    failed = copy.failures(tuple(tests), untouched=True)
    print(f"untouched: {len(tests)} tests in {time.monotonic() - began:.0f} s", flush=True)
    for test in failed:
        print(f"FAILS BY ITSELF: {test}")
    return not failed


def _try_all(copies: list[Copy], chosen: list[Mutant]) -> list[Mutant]:
    """Return the mutants no test noticed, each tried in one of the copies."""
    own = threading.local()
    free = list(copies)
    survived: list[Mutant] = []

    def take() -> None:
        own.copy = free.pop()

    def one(mutant: Mutant) -> None:
        began = time.monotonic()
        try:
            with own.copy.without(mutant):
                failed = own.copy.failures(mutant.tests)
            verdict = failed[0] if failed else "NOTHING FAILED"
        except (Misplaced, RuntimeError, subprocess.SubprocessError) as error:
            failed, verdict = (), f"CANNOT BE TRIED: {error}"
        if not failed:
            survived.append(mutant)
        print(f"{time.monotonic() - began:5.1f} s  without {mutant.step}: {verdict}", flush=True)

    if chosen:
        with ThreadPoolExecutor(len(copies), initializer=take) as pool:
            list(pool.map(one, chosen))
    return survived


def with_table(page: str) -> str:
    """Return a page with the table of mutants, in Markdown, between its marks."""
    rows = ["| without | fails |", "|---|---|"]
    for mutant in MUTANTS:
        tests = "<br>".join(f"`{test.removeprefix(ERT).rpartition('::')[2]}`" for test in mutant.tests)
        rows.append(f"| {mutant.step} | {tests} |")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return "".join((before, MARKS[0], "\n".join(rows), "\n", MARKS[1], after))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
