"""Two namespaces of two tenants, one controller for both, simulated bridges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.support.fixtures import audit_log, control_plane, kube, lisp, plane, pytest_before_forks
from tests.support.kube import Kube
from tests.support.tenants import Tenants

__all__ = ["audit_log", "control_plane", "kube", "lisp", "plane", "pytest_before_forks"]


@pytest.fixture
def tenants(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Tenants]:
    """`loud` and `quiet`, each with a ready instance `one`, and a leading controller."""
    with Tenants(plane, kube, audit_log, lisp) as made:
        yield made
