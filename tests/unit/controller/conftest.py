"""Fixtures of the controller's tests: the keys that credentials are derived from, a fake API server, a store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.manifests import Identity
from tests.unit.controller.fake_api import FakeApi, fake_api
from tests.unit.controller.store.world import World


@pytest.fixture(scope="session")
def identity() -> Identity:
    """Keys and a CA as a first start makes them."""
    return new_identity()


@pytest.fixture
async def served() -> AsyncIterator[tuple[FakeApi, Kube]]:
    """A fake API server and a connection to it."""
    async with fake_api() as both:
        yield both


@pytest.fixture
def api(served: tuple[FakeApi, Kube]) -> FakeApi:
    return served[0]


@pytest.fixture
def kube(served: tuple[FakeApi, Kube]) -> Kube:
    return served[1]


@pytest.fixture
def world() -> World:
    """A store over a queue, for a test on virtual time."""
    return World()
