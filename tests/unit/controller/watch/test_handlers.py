"""watch/handlers.py: the handlers that kopf gets watch, and do nothing else."""

from __future__ import annotations

import pytest

from efrit.controller.watch import handlers
from tests.unit.controller.store.world import World

pytestmark = pytest.mark.virtual_time


async def test_only_events_are_handled_so_that_no_object_gets_a_finalizer_or_an_annotation() -> None:
    registry = handlers.registry(World().store)

    assert {handler.id for handler in registry._watching.get_all_handlers()} == {"efritinstances"}
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()


def test_kopf_neither_posts_events_nor_peers_nor_scans() -> None:
    settings = handlers.settings()

    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
