"""The actor under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from tests.support.factory import NOW
from tests.unit.controller.act.acting import Rig
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import fake_bridge
from tests.unit.controller.recorded_store import RecordedStore


@pytest.fixture
async def rig(api: FakeApi, kube: Kube, tmp_path: Path) -> AsyncIterator[Rig]:
    identity, recorded, lost = new_identity(), RecordedStore(), asyncio.Event()
    async with fake_bridge(identity, tmp_path) as bridge:
        bridges = Bridges(identity, recorded.store, leading=lambda: not lost.is_set())
        await bridges.connect(bridge.connect_action())
        try:
            yield Rig(
                Actor(kube, bridges, recorded.store, lambda: NOW, "pod-1", lambda: not lost.is_set()),
                api,
                bridge,
                recorded,
                lost,
            )
        finally:
            await bridges.close()
