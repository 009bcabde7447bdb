"""What a mutant is: one safety step taken out of the product, and the tests that must notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.cluster.paths import REPOSITORY
from tests.mutation.operation import Misplaced, Operation


@dataclass(frozen=True)
class Mutant:
    """One step less: `Step(…).found_by(…)` makes one, with the tests by their names alone.

    step: what is taken out, as a person would say it.
    gate: the name of the marker at its place in the product, `# gate: NAME`.
    operation: what is done there.
    tests: node ids for pytest, and `ert:SELECTOR` for the Emacs Lisp; at least one of them must fail.
    generates: whether the CRDs are to be written anew from the changed models.
    silent: whether the test fails by what does not come in its time; it takes long, and next to no processor.
    """

    step: str
    gate: str
    operation: Operation
    tests: tuple[str, ...]
    generates: bool = False
    silent: bool = False


@dataclass(frozen=True)
class Step:
    """A mutant whose tests are not named yet."""

    step: str
    gate: str
    operation: Operation
    generates: bool = False
    silent: bool = False

    def found_by(self, *tests: str) -> Mutant:
        """Return the mutant. A test has a node id, or the name of a function that only one file of tests has."""
        return Mutant(**{**vars(self), "tests": tuple(map(_node_id, tests))})


def _node_id(test: str) -> str:
    name = test.partition("[")[0]
    if not name.isidentifier():
        return test
    if name not in node_ids():
        raise Misplaced(f"no file of tests, or more than one, has {name}: name the test by its file, too")
    return f"{node_ids()[name]}::{test}"


@cache
def node_ids() -> dict[str, str]:
    """Return the file of each function of tests whose name no other file has."""
    files: dict[str, set[str]] = {}
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            files.setdefault(name, set()).add(str(path.relative_to(REPOSITORY)))
    return {name: where.pop() for name, where in files.items() if len(where) == 1}
