"""Sites with a controller: one per module for tests that only ask, one per test for those that break things."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.integration.controller.site import Site
from tests.integration.kube import Kube


@pytest.fixture
def site(plane: ControlPlane, kube: Kube, audit_log: Path) -> Iterator[Site]:
    """A namespace of its own, without a controller yet."""
    made = Site(plane, kube, audit_log)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def shared(plane: ControlPlane, kube: Kube, audit_log: Path) -> Iterator[Site]:
    """A namespace with a controller and the instance `one`, for all tests of a module."""
    made = Site(plane, kube, audit_log)
    try:
        made.operator().start()
        made.instance()
        yield made
    finally:
        made.close()
