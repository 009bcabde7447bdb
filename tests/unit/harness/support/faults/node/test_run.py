"""A run on the cluster that fails early: its failure is what is reported, and what it has changed is undone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.cluster.paths import Layout
from tests.support.faults.generators.node import generate
from tests.support.faults.node.cluster import NodeCluster
from tests.support.faults.node.host import HostPod
from tests.support.faults.node.run import NodeRun
from tests.support.faults.run import execute
from tests.support.faults.workload import COUNTER


class EmptyHost:
    """A machine without any pod."""

    def pods(self, namespace: str) -> Sequence[HostPod]:
        """Return no pods."""
        del namespace
        return ()

    running = pods


class HostOfOne:
    """A machine with one pod."""

    def __init__(self, pod: HostPod) -> None:
        self._pod = pod

    def pods(self, namespace: str) -> Sequence[HostPod]:
        """Return the pod."""
        assert namespace == self._pod.namespace
        return (self._pod,)


class BrokenCluster:
    """A cluster whose API server refuses to create a namespace."""

    def __init__(self) -> None:
        self.host = EmptyHost()
        self.calls: list[str] = []

    def operators(self) -> Sequence[HostPod]:
        """Return no pods."""
        return ()

    def repair(self) -> None:
        """Count the call."""
        self.calls.append("repair")

    def fresh_operator(self, replicas: int) -> None:
        """Count the call."""
        del replicas
        self.calls.append("operator")

    def new_namespace(self) -> str:
        """Fail."""
        raise RuntimeError("no namespace can be created")


def test_the_failure_of_a_run_that_does_not_open_is_not_hidden_by_its_end() -> None:
    cluster = BrokenCluster()
    with pytest.raises(RuntimeError, match="no namespace can be created"):
        execute(NodeRun(cast(NodeCluster, cluster), generate(0)))
    assert cluster.calls == ["repair", "operator", "repair"]


def test_what_ran_in_a_pod_that_came_after_the_last_turn_of_the_main_loop_is_counted(tmp_path: Path) -> None:
    layout = cast(Layout, SimpleNamespace(data=tmp_path, volumes=tmp_path / "volumes"))
    pod = HostPod(layout, "chaos", "efrit-one-0", "uid-of-pod")
    own = tmp_path / "kubelet/pods/uid-of-pod/volumes/kubernetes.io~empty-dir/workspace"
    own.mkdir(parents=True)
    (own / COUNTER).write_text("fw22 17 3.5\nfw23 17 4.5\nbeing wri")
    run = NodeRun(cast(NodeCluster, SimpleNamespace(host=HostOfOne(pod))), generate(0))
    run.namespace = "chaos"
    ran = [(each.instance, each.marker) for each in run.executions()]
    run.close_files()
    assert ran == [("one", "fw22"), ("one", "fw23")]
