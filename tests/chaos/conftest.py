"""The stages of the deterministic plans: one per module and worker, made anew after a plan that failed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.chaos.proxied_cluster import Stage
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


class Stages:
    """Lends out one stage as long as it is whole."""

    def __init__(self, plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> None:
        self._of = plane, kube, audit_log, lisp
        self._stage: Stage | None = None

    def whole(self) -> Stage:
        if self._stage is None:
            self._stage = Stage(*self._of)
            self._stage.open()
        return self._stage

    def discard(self) -> None:
        if self._stage is not None:
            stage, self._stage = self._stage, None
            stage.close()


@pytest.fixture(scope="module")
def stages(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Stages]:
    lent = Stages(plane, kube, audit_log, lisp)
    try:
        yield lent
    finally:
        lent.discard()


@pytest.fixture
def stage(stages: Stages, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage with a leading controller and ready instances, shared with the plans before."""
    lent = stages.whole()
    lent.until_leading()
    lent.until_watching()
    yield lent
    lent.proxy.heal()
    if request.node.stash.get(FAILED, True):
        stages.discard()


@pytest.fixture
def empty_stage(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Stage]:
    """A stage of the test's own, its controller not started yet."""
    made = Stage(plane, kube, audit_log, lisp)
    try:
        yield made
    finally:
        made.close()
