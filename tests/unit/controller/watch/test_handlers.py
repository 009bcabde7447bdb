"""watch/handlers.py: kopf is told to watch, and nothing else."""

from __future__ import annotations

from efrit.controller.watch import handlers
from tests.unit.controller.store.test_store import World
from tests.unit.controller.virtual_time import on_virtual_time


@on_virtual_time
async def test_only_events_are_handled_so_that_no_object_gets_a_finalizer_or_an_annotation() -> None:
    registry = handlers.registry(World().store)

    assert len(registry._watching.get_all_handlers()) == 5
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()


def test_only_what_is_open_and_our_children_are_watched() -> None:
    settings = handlers.settings()

    selector = settings.watching.field_selectors["efritplans.efrit.dev"]
    assert selector == "status.phase!=Succeeded,status.phase!=Failed"
    assert len(settings.watching.label_selectors) == 3
    assert set(settings.watching.label_selectors.values()) == {
        "app.kubernetes.io/managed-by=efrit-operator,efrit.dev/instance"
    }


def test_kopf_neither_posts_events_nor_peers_nor_scans() -> None:
    settings = handlers.settings()

    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled
