"""Fixtures of the controller's tests: the keys that credentials are derived from."""

from __future__ import annotations

import pytest

from efrit.controller.act.identity import new_identity
from efrit.controller.decide.children import Identity
from tests.unit.controller.factory import NOW


@pytest.fixture(scope="session")
def identity() -> Identity:
    """Keys and a CA as a first start makes them."""
    return new_identity(NOW)
