"""A run on the cluster that fails early: its failure is what is reported, and what it has changed is undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tests.support.faults.generators.node import generate
from tests.support.faults.node.cluster import NodeCluster
from tests.support.faults.node.host import HostPod
from tests.support.faults.node.run import NodeRun
from tests.support.faults.run import execute


class EmptyHost:
    """A machine without any pod."""

    def pods(self, namespace: str) -> Sequence[HostPod]:
        """Return no pods."""
        del namespace
        return ()

    running = pods


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
