"""What runs have in common on both tiers: a client of the workload, a nemesis, and what can be observed.

`run.py` executes a run and `collect.py` makes its history; both know this interface alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.support.faults.api_proxy.rules import ArmedFault
from tests.support.faults.client import WorkloadClient
from tests.support.faults.history import Answer, Execution, ObjectVersion, RequestVersion
from tests.support.faults.large_results import FullVolume
from tests.support.faults.nemesis import Nemesis
from tests.support.faults.recorder import RequestRecorder
from tests.support.faults.schedule import Schedule


class RunPod(Protocol):
    """A pod of an instance, on either tier."""

    @property
    def instance(self) -> str:
        """Name of its EfritInstance."""

    @property
    def uid(self) -> str:
        """UID of the pod."""

    @property
    def queue(self) -> Path:
        """Directory of the request queue."""

    @property
    def queue_outlives_it(self) -> bool:
        """Whether the queue lies on a claim."""

    @property
    def workspace(self) -> Path:
        """Directory in which Emacs starts."""

    def kill(self) -> None:
        """SIGKILL every process of the pod."""


class FaultRun(WorkloadClient, ABC):
    """One run of a schedule. Close it in every case: it may have processes, frozen ones and a namespace."""

    nemesis: Nemesis
    recorder: RequestRecorder

    shares_controller = False
    """Whether other runs have the same controller, and disturb it unseen by this one."""
    tidy_seconds: float
    """How long after the last final status it may take until every queue is empty."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.armed: list[ArmedFault] = []
        """Faults of calls, in the order of arming."""
        self.disturbances: list[tuple[float, float]] = []
        """When the controller or its API server was kept from working."""

    @abstractmethod
    def open(self) -> None:
        """Bring up what exists when the run begins, then start the clock."""

    @abstractmethod
    def close(self) -> None:
        """Put everything away, whether or not `open` came to its end."""

    @abstractmethod
    def keep_logs(self, directory: Path) -> None:
        """Copy the logs of every process into a directory."""

    @abstractmethod
    def tick(self) -> None:
        """Do and note what is due at every turn of the main loop."""

    def heal(self) -> None:
        """End every fault that is not over yet."""
        self.nemesis.heal()
        self.tick()

    @abstractmethod
    def pods(self) -> Sequence[RunPod]:
        """Return every pod there ever was, the oldest first."""

    @abstractmethod
    def running_pod(self, instance: str) -> RunPod | None:
        """Return the running pod of an instance, None while there is none."""

    @abstractmethod
    def executions(self) -> tuple[Execution, ...]:
        """Return the lines of every counter file."""

    @abstractmethod
    def workspace_file(self, instance: str, path: str) -> Path:
        """Return where a file lies on this machine that Emacs calls `path`."""

    def restart_programs(self, instances: Iterable[str]) -> None:
        """Kill the programs of these instances, so that their pods start them again."""
        for instance in sorted(instances):
            if (pod := self.running_pod(instance)) is not None:
                self.note("run", "its programs are started again", instance=instance)
                pod.kill()

    def logged_defects(self) -> Sequence[str]:
        """Return the lines that our programs have logged and must not."""
        return ()

    def lost_answers(self) -> Iterable[Answer]:
        """Return responses, seen before, of queues that are gone."""
        return ()

    def other_tenant_open(self) -> tuple[str, ...]:
        """Return the names of the other tenant's requests that are not final."""
        return ()

    def refused_secrets(self) -> frozenset[str]:
        """Return the names of the Secrets whose creation the API server has refused."""
        return frozenset()

    @property
    def full_volumes(self) -> tuple[FullVolume, ...]:
        """Return which volumes were full or failed, and when."""
        return ()

    @property
    def unavailable_spans(self) -> tuple[tuple[float, float], ...]:
        """Return the spans so far in which no controller renewed its Lease, or the API server answered no lists."""
        return ()

    @property
    def objects(self) -> tuple[ObjectVersion, ...]:
        """Return the recorded versions of instances, StatefulSets and plans."""
        return ()

    @property
    def final(self) -> Mapping[str, RequestVersion]:
        """Return the first final version of each request, by UID."""
        return self.recorder.final

    def _execution(self, instance: str, line: str) -> Execution:
        marker, pid, written = [*line.split(), "0", "0", "0"][:3]
        return Execution(self.namespace, instance, marker, int(pid), float(written) - self.clock.epoch)
