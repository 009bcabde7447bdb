"""The clusters of the deterministic tests: one for each module and worker, made anew after a test that failed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.chaos.proxied_cluster import ProxiedCluster
from tests.cluster.control_plane import ControlPlane
from tests.support.fixtures import audit_log, control_plane, kube, lisp, plane, pytest_before_forks
from tests.support.kube import Kube

__all__ = ["audit_log", "control_plane", "kube", "lisp", "plane", "pytest_before_forks"]

HERE = Path(__file__).parent
FAILED = pytest.StashKey[bool]()
LONGEST = (
    # Each of its tests waits until a lease of 30 s has run out.
    "test_controllers.py",
    "test_api_writes.py",
    "test_a_long_outage.py",
    "test_watches.py",
    "test_administration.py",
    "test_clocks.py",
    "test_full_disk.py",
    "test_file_faults.py",
    "test_crash_prefixes.py",
    "test_api_outages.py",
    "test_cancel_races.py",
)
"""The files that take most time, waiting included; the longest first."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which tests failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no fork is busy with one after the others have ended.

    Ignore what becomes of the connections of the harness: their other side is killed during a handshake.
    """
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


class ClusterPool:
    """Lends out one cluster as long as no test on it has failed."""

    def __init__(self, plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> None:
        self._arguments = plane, kube, audit_log, lisp
        self._cluster: ProxiedCluster | None = None

    def get(self) -> ProxiedCluster:
        """Return the cluster, a new one if need be."""
        if self._cluster is None:
            self._cluster = ProxiedCluster(*self._arguments)
            self._cluster.open()
        return self._cluster

    def discard(self) -> None:
        """Close the cluster."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()


@pytest.fixture(scope="module")
def clusters(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[ClusterPool]:
    """Return the clusters of a module."""
    pool = ClusterPool(plane, kube, audit_log, lisp)
    try:
        yield pool
    finally:
        pool.discard()


@pytest.fixture
def cluster(clusters: ClusterPool, request: pytest.FixtureRequest) -> Iterator[ProxiedCluster]:
    """Return a cluster with a leading controller and ready instances, shared with the tests before."""
    lent = clusters.get()
    lent.until_leading()
    lent.until_watching()
    yield lent
    lent.proxy.heal()
    if request.node.stash.get(FAILED, True):
        clusters.discard()


@pytest.fixture
def new_cluster(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[ProxiedCluster]:
    """Return a cluster of the test's own, its controller not started yet."""
    made = ProxiedCluster(plane, kube, audit_log, lisp)
    try:
        yield made
    finally:
        made.close()
