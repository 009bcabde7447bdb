"""act/terminating.py: one create at a time asks whether a namespace takes anything again."""

from __future__ import annotations

import pytest

from efrit.controller.act.terminating import LAST_PAUSE_SECONDS, MAX_NAMESPACES, TerminatingNamespaces
from efrit.errors import ApiNamespaceTerminating, ApiUnavailable


class Cluster:
    """Namespaces that refuse everything, and what was called in them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[float] = []
        self.refuses = True
        self.namespaces = TerminatingNamespaces(lambda: self.now)

    def create(self, namespace: str = "going") -> None:
        with self.namespaces.creating(namespace):
            self.calls.append(self.now)
            if self.refuses:
                raise ApiNamespaceTerminating("403", "it is being terminated")


def refused(cluster: Cluster, namespace: str = "going") -> float:
    with pytest.raises(ApiNamespaceTerminating) as raised:
        cluster.create(namespace)
    assert raised.value.retry_after is not None
    return raised.value.retry_after


def test_however_many_objects_a_namespace_has_its_deletion_costs_a_call_a_minute() -> None:
    cluster = Cluster()

    for second in range(3600):
        cluster.now = float(second)
        for _ in range(3):
            assert 0 < refused(cluster) <= LAST_PAUSE_SECONDS

    assert len(cluster.calls) < 70
    assert cluster.calls[-1] - cluster.calls[-2] >= LAST_PAUSE_SECONDS


def test_calls_under_way_at_the_same_time_count_as_one_refusal() -> None:
    cluster = Cluster()
    guards = [cluster.namespaces.creating("going") for _ in range(32)]
    for guard in guards:
        guard.__enter__()
    for guard in guards:
        error = ApiNamespaceTerminating("403")
        assert not guard.__exit__(type(error), error, None), "the error is raised again"

    assert refused(cluster) <= 2


def test_a_namespace_that_takes_objects_again_is_forgotten() -> None:
    cluster = Cluster()
    cluster.now += refused(cluster)
    cluster.refuses = False

    cluster.create()
    cluster.create()

    assert len(cluster.calls) == 3
    assert len(cluster.namespaces) == 0


def test_other_namespaces_are_not_affected() -> None:
    cluster = Cluster()
    refused(cluster)
    cluster.refuses = False

    cluster.create("other")

    assert len(cluster.calls) == 2


def test_another_failure_says_nothing_about_the_namespace() -> None:
    namespaces = TerminatingNamespaces(lambda: 0.0)

    for _ in range(2):
        with pytest.raises(ApiUnavailable, match="503"), namespaces.creating("team"):
            raise ApiUnavailable("503")

    assert len(namespaces) == 0


def test_what_is_remembered_is_bounded() -> None:
    cluster = Cluster()

    for number in range(10_000):
        refused(cluster, f"n{number}")

    assert len(cluster.namespaces) == MAX_NAMESPACES
