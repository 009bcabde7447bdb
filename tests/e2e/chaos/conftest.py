"""Fixed schedules on the bare node, whose programs and pods are hit by faults; everything is repaired afterwards.

The seeded ones are `make soak TIER=cluster`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.cluster import cli
from tests.support.faults.history import History, RequestVersion, SubmittedRequest
from tests.support.faults.node.cluster import NodeCluster
from tests.support.faults.node.run import NodeRun
from tests.support.faults.run import execute
from tests.support.faults.schedule import Op, Schedule
from tests.support.faults.timeline import report
from tests.support.faults.violation import Violation


@dataclass(frozen=True)
class RecordedRun:
    """A run that is over: its history, the promises it broke, and what the pods have logged."""

    schedule: Schedule
    history: History
    violations: Sequence[Violation]
    logs: str

    def check(self) -> None:
        """Assert that every promise was kept, and that no program of ours has failed by itself."""
        assert not self.violations, self.diagnostics()

    def diagnostics(self) -> str:
        """Return everything observed, for messages."""
        return f"{report(self.history, self.violations)}\n{self.logs}"

    def finals(self) -> list[tuple[SubmittedRequest, RequestVersion]]:
        """Return each request that ended, with its final version."""
        pairs = [(request, self.history.final(request)) for request in self.history.submitted]
        return [(request, final) for request, final in pairs if final is not None]

    def reasons(self) -> dict[str, int]:
        """Return how many requests ended with which reason."""
        return Counter(final.reason for _, final in self.finals())

    def first_noted(self, event: str) -> float:
        """Return when something was first noted."""
        moments = [note.at for note in self.history.notes if event in note.event]
        assert moments, f"never happened: {event}\n{json.dumps([note.event for note in self.history.notes])}"
        return moments[0]

    def fault_span(self, op: Op) -> tuple[float, float]:
        """Return from when to when the first fault of a kind lasted, at the least."""
        return self.first_noted(f"{op.value} has begun"), self.first_noted(f"{op.value} is over")

    def began_between(self, begin: float, end: float) -> int:
        """Return how many evals began to run in a span of time."""
        return sum(begin <= execution.written <= end for execution in self.history.ran)


ExecuteAll = Callable[..., list[RecordedRun]]


@pytest.fixture(scope="session")
def execute_all() -> Iterator[ExecuteAll]:
    """Return what executes schedules side by side, each in a namespace of its own. Repair the cluster at the end."""
    if cli.choose().kind != "bare":
        pytest.skip("kills programs of the node: only the bare cluster has them within reach")

    def record(run: NodeRun) -> RecordedRun:
        verdict = execute(run)
        return RecordedRun(run.schedule, verdict.history, verdict.violations, run.logs())

    with NodeCluster() as cluster:

        def all_of(*schedules: Schedule, controllers: int = 1) -> list[RecordedRun]:
            over = threading.Barrier(len(schedules))
            runs = [NodeRun(cluster, replace(schedule, controllers=controllers), over) for schedule in schedules]
            with ThreadPoolExecutor(len(schedules)) as pool:
                return list(pool.map(record, runs))

        yield all_of


@pytest.fixture(autouse=True)
def _operator_does_not_crash() -> None:
    """Allow crashes of the operator: here it is killed on purpose."""
