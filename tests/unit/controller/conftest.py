"""Fixtures of the controller's tests: the keys that credentials are derived from, a fake API server, a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from efrit.controller.act import bridges as bridges_module
from efrit.controller.act import bulkhead
from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.http_calls import Timeouts
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.manifests import Identity
from efrit.controller.reconcile import Reconciler
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from tests.support.factory import CONFIG
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_api import FakeApi, fake_api
from tests.unit.controller.fake_bridge import fake_bridge
from tests.unit.controller.reconciling import Clock, Rig
from tests.unit.controller.store.world import World
from tests.unit.controller.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run what is marked `virtual_time` on a loop whose clock jumps."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def long_time_limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up no call to a bridge because the machine is slow, and probe none that has failed meanwhile."""
    if request.node.get_closest_marker("virtual_time"):
        return
    for name in ("CALL_TIMEOUTS", "STREAM_TIMEOUTS"):
        monkeypatch.setattr(bridges_module, name, Timeouts(connect=TIMEOUT, read=TIMEOUT, pool=TIMEOUT))
    monkeypatch.setattr(bridges_module, "CALL_SECONDS", TIMEOUT)
    monkeypatch.setattr(bulkhead, "FIRST_PAUSE_SECONDS", TIMEOUT)


@pytest.fixture(scope="session")
def identity() -> Identity:
    """Keys and a CA as a first start makes them."""
    return new_identity()


@pytest.fixture
async def served() -> AsyncIterator[tuple[FakeApi, Kube]]:
    """Yield a fake API server and a connection to it."""
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
    """Return a store over a queue, for a test on virtual time."""
    return World()


@pytest.fixture
async def rig(api: FakeApi, kube: Kube, tmp_path: Path) -> AsyncIterator[Rig]:
    """Store, decisions and actor between a fake API server and a fake bridge."""
    async with _controller(api, kube, tmp_path) as made:
        yield made


@pytest.fixture
async def other(api: FakeApi, kube: Kube, tmp_path: Path) -> AsyncIterator[Rig]:
    """Yield another controller of the same API server, which takes itself for the leader as well."""
    (tmp_path / "other").mkdir()
    async with _controller(api, kube, tmp_path / "other") as made:
        yield made


@asynccontextmanager
async def _controller(api: FakeApi, kube: Kube, directory: Path) -> AsyncIterator[Rig]:
    clock, identity, queue = Clock(), new_identity(), WorkQueue()
    store = Store(queue, CONFIG, clock, clock.monotonic)
    async with fake_bridge(identity, directory) as bridge:
        bridges = Bridges(identity, store)
        actor = Actor(kube, bridges, store, clock, "pod-1", lambda: True)
        reconciler = Reconciler(store, actor, identity, clock, lambda _: made.served)
        made = Rig(reconciler, store, queue, api, bridge, bridges, clock)
        await bridges.connect(bridge.connect_action())
        try:
            yield made
        finally:
            await bridges.close()
