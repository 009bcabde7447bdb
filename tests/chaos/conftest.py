"""The stages of the deterministic plans: one per module and worker, made anew after a plan that failed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.chaos.proxied_cluster import ProxiedCluster
from tests.cluster.control_plane import ControlPlane
from tests.support.fixtures import audit_log, kube, lisp, plane
from tests.support.kube import Kube

__all__ = ["audit_log", "kube", "lisp", "plane"]

HERE = Path(__file__).parent
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give plans more time than other tests, as the first of a worker has a control plane and instances to start."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
        # The rig's own connections, whose other side was killed in the middle of a handshake.
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


class ClusterPool:
    """Lends out one stage as long as it is whole."""

    def __init__(self, plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> None:
        self._of = plane, kube, audit_log, lisp
        self._cluster: ProxiedCluster | None = None

    def get(self) -> ProxiedCluster:
        if self._cluster is None:
            self._cluster = ProxiedCluster(*self._of)
            self._cluster.open()
        return self._cluster

    def discard(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.close()


@pytest.fixture(scope="module")
def clusters(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[ClusterPool]:
    pool = ClusterPool(plane, kube, audit_log, lisp)
    try:
        yield pool
    finally:
        pool.discard()


@pytest.fixture
def cluster(clusters: ClusterPool, request: pytest.FixtureRequest) -> Iterator[ProxiedCluster]:
    """A stage with a leading controller and ready instances, shared with the plans before."""
    lent = clusters.get()
    lent.until_leading()
    lent.until_watching()
    yield lent
    lent.proxy.heal()
    if request.node.stash.get(FAILED, True):
        clusters.discard()


@pytest.fixture
def new_cluster(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[ProxiedCluster]:
    """A stage of the test's own, its controller not started yet."""
    made = ProxiedCluster(plane, kube, audit_log, lisp)
    try:
        yield made
    finally:
        made.close()
