"""Sites with a controller: one per module for tests that only ask, one per test for those that break things."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import install_crds
from tests.support.kube import Kube
from tests.support.site import Site


@pytest.fixture
def site(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Site]:
    """Yield a namespace of its own, without a controller yet."""
    made = Site(plane, kube, audit_log, lisp)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def alone(lisp: Path) -> Iterator[Site]:
    """Yield a namespace on an API server of its own, which may be stopped: no other controller loses its lease."""
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        with closing(Site(plane, kube, plane.directory / "audit.log", lisp)) as made:
            yield made


@pytest.fixture(scope="module")
def shared(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Site]:
    """Yield a namespace with a controller and the instance `one`, for all tests of a module."""
    made = Site(plane, kube, audit_log, lisp)
    try:
        made.operator().start()
        made.instance()
        yield made
    finally:
        made.close()
