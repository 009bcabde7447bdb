"""What a step is: a call on a file of the queue, without the parts of its name that differ each time. Pure.

`steps` reads them from a record, `faults_at` says which faults are tested at them. The known steps are in
`known_steps.txt`: one that is recorded and not listed there has no fault, and a test fails.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.faults.file_shim.shim import Action, Operation

LIST = Path(__file__).with_name("known_steps.txt")
NAMES = (
    (re.compile(r"tmp/bridge_[0-9a-f]+"), "tmp/bridge_*"),
    (re.compile(r"tmp/emacs_[0-9a-f]+_\d+"), "tmp/emacs_*"),
    (re.compile(r"/(req|resp|cancel|withdrawn)_[^/]*$"), r"/\1_*"),
    (re.compile(r"(results|progress)/plan-\d+\."), r"\1/*."),
)
# Calls that need space on the volume.
NEEDS_SPACE = ("create", "open", "write", "link", "rename", "mkdir")
CHANGES = ("create", "write", "link", "rename", "unlink", "mkdir")
BACKGROUND = ("totals", "heartbeat")
EVAL_FILES = ("counter", "#counter")


@dataclass(frozen=True, order=True)
class Step:
    """The `nth` call (from 0) of this kind on this name, by a program, in a phase."""

    phase: str
    program: str
    kind: str
    path: str
    nth: int
    #: `?`: does not happen each time. `=`: happens as it does in another phase, where its faults are.
    mark: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.phase} {self.program} {self.kind} {self.path} {self.nth}"

    @classmethod
    def parse(cls, line: str) -> Step:
        """Parse a line of `known_steps.txt`."""
        mark = line[0] if line[0] in "?=" else ""
        phase, program, kind, path, nth = line.removeprefix(mark).split()
        return cls(phase, program, kind, path, int(nth), mark)

    @property
    def programs(self) -> str:
        """The program's pattern for the shim."""
        return "python*" if self.program == "bridge" else self.program

    @property
    def operation(self) -> str:
        """The shim's word for the kind of call."""
        return "open" if self.kind in ("create", "cut") else self.kind


@dataclass(frozen=True)
class StepFault:
    """A fault at a step."""

    step: Step
    action: Action
    number: int = 0

    def __str__(self) -> str:
        fault = errno.errorcode[self.number] if self.number else self.action.name
        return f"{self.step} {fault}".replace(" ", "-")


def name_of(operation: Operation, place: Path) -> str:
    """Return the name of the file (the new one, of two), the same in each run."""
    path = (operation.target or operation.path).removeprefix(f"{place}/")
    for pattern, stands_for in NAMES:
        path = pattern.sub(stands_for, path)
    return path


def steps(phase: str, operations: Sequence[Operation], place: Path) -> list[Step]:
    """Return the steps of one recorded phase, in order, without what evals do to their own files.

    Totals and heartbeats are written whenever they are due: they are phases of their own.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    steps = []
    background = {
        operation.inode: path
        for operation in operations
        if operation.kind == "rename" and (path := name_of(operation, place).rpartition("/")[2]) in BACKGROUND
    }
    for operation in operations:
        path = name_of(operation, place)
        if operation.kind == "mark" or path.endswith(EVAL_FILES) or path.rpartition("/")[2].startswith("go-"):
            continue
        program = "bridge" if operation.program.startswith("python") else operation.program
        key = (program, "open" if operation.kind in ("create", "cut") else operation.kind, path)
        if operation.inode in background:
            steps.append(Step(background[operation.inode], program, operation.kind, path, 0))
        else:
            steps.append(Step(phase, program, operation.kind, path, counts[key]))
        counts[key] += 1
    return steps


def known_steps() -> list[Step]:
    """Return the steps that have faults, and those that are the same as in another phase."""
    return [Step.parse(line) for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def faults_at(chosen: Sequence[Step]) -> list[StepFault]:
    """Return the faults at each step.

    To be killed before a step is to be killed after the one before; and what a step left in the kernel outlives the
    process, synced or not, so that a kill after a sync shows nothing new.
    """
    made: list[StepFault] = []
    begun = set()
    for step in chosen:
        if step.mark == "=":
            continue
        if (step.phase, step.program) not in begun:
            begun.add((step.phase, step.program))
            made.append(StepFault(step, Action.KILL_BEFORE))
        if step.kind in CHANGES:
            made.append(StepFault(step, Action.KILL_AFTER))
        made.append(StepFault(step, Action.FAIL, errno.EIO))
        if step.kind in NEEDS_SPACE:
            action = Action.SHORT if step.kind == "write" else Action.FAIL
            made.append(StepFault(step, action, errno.ENOSPC))
    return made
