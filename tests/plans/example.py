"""One whole plan: a calculator is built, and not everything goes as planned.

Written once, played on processes and on clusters. The model's words are a script; what they rest on is not: the
navigator's routes go by the exit codes of the program's real tests, so a program that does otherwise has no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.plans import program
from tests.plans.script import COMMAND_SECONDS, Json, Player, Script

AMENDMENT = "Remainders, too: 7 % 3 is 1."
AMENDED_AT = "program"
"""The task whose act waits until the plan was amended, so that this is midway whatever the machine does."""

INTENT = "A calculator for the command line."
BY_HAND = "Read decimal fractions without Calc."
PRODUCTS = "Work out sums without brackets, products first."
BRACKETS = "Work out what is in brackets."
WITH_REMAINDERS = "Read and work out remainders."
TASKS: Sequence[Json] = (
    {"name": "reader", "type": "parent", "description": "Read sums as numbers and signs."},
    {"name": "numbers", "parent": "reader", "description": "Split a sum into whole numbers and signs."},
    {"name": "decimals", "parent": "reader", "description": "Read decimal fractions by Emacs' own Calc."},
    {"name": "reckon", "description": "Work out what a sum comes to, with precedence and brackets."},
    {"name": "program", "description": "A command that prints what the sum on its command line comes to."},
)

HISTORY = (
    "[begin] PLAN",
    *("[numbers] ACT", "[numbers] ADAPT"),
    *("[decimals] ACT", "[decimals] ADAPT") * 5,
    "[reader] ADAPT",
    *("[13.1] ACT", "[13.1] ADAPT"),
    "[reader] ADAPT",
    *("[reckon] ACT", "[reckon] ADAPT") * 2,
    *("[20.1] ACT", "[20.1] ADAPT", "[20.2] ACT", "[20.2] ADAPT"),
    "[reckon] ADAPT",
    *("[program] ACT", "[program] ADAPT"),
    "[amend] 1",
    "[root] ADAPT",
    *("[29.1] ACT", "[29.1] ADAPT"),
    "[root] ADAPT",
)
"""What each commit begins with, oldest first; the number of each is its step."""
THRESHOLDS = {
    **{"root": 0.0, "reader": 0.2, "numbers": 0.0, "13.1": 0.0, "reckon": 0.4, "20.1": 0.0, "20.2": 0.0},
    **{"program": 0.0, "29.1": 0.0},
}
"""The tasks that are there in the end, all of them done, in the order of the tree, with their failure thresholds."""

_PASSED = "ert-run-tests-batch-and-exit`: exit code 0"
_FAILED = "ert-run-tests-batch-and-exit`: exit code 1"
_NEW = r"[0-9]+\.[0-9]+"
_COUNTED = "{{first_user =~ Ran [0-9]+ tests?, [0-9]+ results? as expected, [0-9]+ unexpected}}"
"""What the test run said, as the assessor read it."""


def spec(name: str, instance: str) -> Json:
    """Return the spec of the plan; the script of this name answers it."""
    return {
        "intent": {
            "description": INTENT,
            "acceptanceCriteria": ["`sums-main` with 2.5 * (1 + 3) prints 10.", "Everything it can do has a test."],
            "constraints": [f"Emacs Lisp, and nothing that does not come with Emacs. (scenario={name})"],
        },
        "instanceRef": {"name": instance},
        "tasks": list(TASKS),
        "assess": {
            "build": [program.COMPILES],
            "integration": [program.TESTS, program.RUNS],
            "timeoutSeconds": COMMAND_SECONDS,
        },
        "limits": {"maxSteps": 40},
    }


def may_go_on(name: str) -> str:
    """Return the file in the workspace that the act of `AMENDED_AT` waits for."""
    return f"{name}-is-amended"


def written(model: Player, name: str) -> Script:
    """Return what the model says about the plan of this name."""
    script = _Telling(model, name)
    script.good("numbers", program.NUMBERS)
    script.fails("decimals", program.DECIMALS_BY_CALC)
    done_by_hand = {"operation": "insert", "parent": "reader", "tasks": [_atomic(BY_HAND)]}
    script.finds(
        "reader",
        {"verdict": "failed", "reason": "Calc does not give Lisp numbers: do without it.", "operations": [
            {"operation": "remove", "task": "decimals"}, done_by_hand]},
        _FAILED,
    )  # fmt: skip
    script.good(_NEW, program.DECIMALS_BY_HAND, BY_HAND)
    script.finds("reader", _done("Sums are read, fractions too."), _PASSED)
    (first, why), (second, too_much) = program.RECKONED_AT_ONCE
    parts = {"operation": "decompose", "task": "reckon", "tasks": [_atomic(PRODUCTS), _atomic(BRACKETS)]}
    script.writes("reckon", second, why)
    script.finds("reckon", {"verdict": "failed", "reason": too_much, "operations": [parts]}, _FAILED, f"- {why}")
    script.writes("reckon", first)
    script.finds("reckon", {"verdict": "failed", "reason": why}, _FAILED)
    script.good(_NEW, program.PRODUCTS_FIRST, PRODUCTS)
    script.good(_NEW, program.WITH_BRACKETS, BRACKETS)
    script.finds("reckon", _done("Sums come to what they should."), _PASSED, r"reckon \(parent\)")
    waits = f"until [ -e {may_go_on(name)} ]; do sleep 0.1; done"
    script.writes("program", program.COMMAND_LINE, shell=waits)
    script.finds("program", _done("It prints 10 for 2.5 * (1 + 3)."), _PASSED, r"sums-main [^`]*`: exit code 0 \(10")
    missing = {"operation": "insert", "parent": "root", "tasks": [_atomic(WITH_REMAINDERS)]}
    script.finds("root", _done("All criteria are met, and the amendment."), _PASSED, re.escape(WITH_REMAINDERS))
    script.finds(
        "root",
        {"verdict": "open", "reason": "The amendment asks for remainders.", "operations": [missing]},
        _PASSED,
        re.escape(AMENDMENT),
    )
    script.good(_NEW, program.REMAINDERS, WITH_REMAINDERS)
    for task in ("numbers", "decimals", "reader", _NEW, "reckon", "program", "root"):
        script.assess(task, {"observations": [_seen("The tests say: " + _COUNTED, "test-*.el")]})
    return script


class _Telling(Script):
    """A script that works in the plan's environment and decides by what its tests say."""

    def writes(self, task: str, files: program.Files, *when: str, shell: str = "") -> None:
        where = f"plans/{self.name}/environment"
        placed = {f"{where}/{file}": content for file, content in files.items()}
        message = f"I wrote {' and '.join(files)}."
        self.act(task, placed, when=[re.escape(pattern) for pattern in when], shell=shell, message=message)

    def finds(self, task: str, answer: Json, *when: str) -> None:
        self.adapt(task, answer, when=when)

    def good(self, task: str, files: program.Files, about: str = "") -> None:
        """Write a task that is done at the first attempt; one made by the navigator is known by what it is about."""
        head = (f"(atomic)\n{about}",) if about else ()
        self.writes(task, files, *head)
        self.finds(task, _done("Its tests pass."), _PASSED, *map(re.escape, head))

    def fails(self, task: str, attempts: Sequence[tuple[program.Files, str]]) -> None:
        """Write a task that fails each time, until it is given up; each attempt knows why the one before failed."""
        lessons = ["", *(f"- {why}" for _, why in attempts)]
        # The last first: its message has the lessons of all before.
        for (files, why), before in reversed(list(zip(attempts, lessons, strict=False))):
            when = [before] if before else []
            self.writes(task, files, *when)
            self.finds(task, {"verdict": "failed", "reason": why}, _FAILED, *map(re.escape, when))


def _done(reason: str) -> Json:
    return {"verdict": "done", "reason": reason}


def _atomic(description: str) -> Json:
    return {"type": "atomic", "description": description}


def _seen(statement: str, evidence: str) -> Json:
    return {"perspective": "requirements", "statement": statement, "evidence": evidence}


# What came of it


def heads(subjects: Sequence[str]) -> tuple[str, ...]:
    """Return what each first line of a commit begins with, to be held against `HISTORY`."""
    return tuple(
        re.sub(r"^(\[\S+\] (?:ACT|ADAPT|PLAN|[0-9]+)):.*", r"\1", subject, flags=re.DOTALL) for subject in subjects
    )


def thresholds(tree: str) -> dict[str, float]:
    """Return the failure threshold of every done task in a `current.json`, to be held against `THRESHOLDS`."""
    thresholds: dict[str, float] = {}

    def visit(task: Mapping[str, Any]) -> None:
        if task["state"] == "done":
            thresholds[task["id"]] = task["failure_threshold"]
        for child in task.get("children", ()):
            visit(child)

    visit(json.loads(tree))
    return thresholds
