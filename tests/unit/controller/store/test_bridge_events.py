"""store/bridge_events.py and a bridge that lies: it changes nothing of others' and fills no memory."""

from __future__ import annotations

import pytest
from msgspec import structs

from efrit.controller.store import bridge_events
from efrit.protocol import RequestState
from efrit.protocol.events import Reset
from tests.support.factory import (
    NAMESPACE,
    NOW,
    POD_UID,
    QUEUE_ID,
    answered,
    final_status,
    instance_json,
    request_json,
    seconds,
    stats,
    view,
)
from tests.unit.controller.store.world import ALPHA, UID, WORK, World

pytestmark = pytest.mark.virtual_time

LIAR = ("elsewhere", "liar")
NEIGHBOUR = (NAMESPACE, "neighbour")


def world(request: dict[str, object] | None = None) -> World:
    made = World()
    made.store.instances.observe(instance_json())
    made.store.requests.observe(request or request_json())
    made.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
    made.store.bridges.event(ALPHA, POD_UID, stats())
    return made


@pytest.mark.parametrize("liar", [LIAR, NEIGHBOUR])
async def test_a_bridge_says_nothing_about_a_request_of_another_instance(liar: tuple[str, str]) -> None:
    made = world()
    before = made.store.requests.snapshot(WORK)
    made.store.bridges.event(liar, "pod", Reset(queue_id="false", epoch="e"))
    made.store.bridges.event(liar, "pod", answered())
    made.store.bridges.event(liar, "pod", stats(queue_id="false"))
    assert made.store.requests.snapshot(WORK) == before
    assert made.store.bridges.orphans(WORK) == []


async def test_another_namespace_cannot_claim_a_request_that_is_bound_to_nobody_yet() -> None:
    made = world(request_json(target=None, selector={"matchLabels": {"a": "b"}}))
    before = made.store.requests.snapshot(WORK)
    made.store.bridges.event(LIAR, "pod", view(state=RequestState.RUNNING, attempt=1))
    assert made.store.requests.snapshot(WORK) == before


@pytest.mark.parametrize("name", ["../../secrets/x", "a/b", "A", "", "a" * 254, "a\nb", "..", "é"])
async def test_a_name_that_is_no_objects_is_never_asked_for(name: str) -> None:
    made = world()
    lost = view("uid-lost", RequestState.ANSWERED, metadata={"name": name, "namespace": NAMESPACE})
    made.store.bridges.event(ALPHA, POD_UID, lost)
    assert made.store.bridges.orphans((NAMESPACE, name)) == []


async def test_made_up_requests_are_kept_up_to_a_number_and_without_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge_events, "MAX_UNKNOWN", 5)
    made = world(request_json(name="other", uid="uid-other"))
    made.store.instances.observe(instance_json(version="11", spec={"queue": {"maxPending": 5}}))
    for number in range(30):
        uid, metadata = f"uid-{number}", {"name": f"n{number}", "namespace": NAMESPACE, "more": "x" * 1000}
        made.store.bridges.event(ALPHA, POD_UID, structs.replace(answered(uid), metadata=metadata))
    claimed = [number for number in range(30) if made.store.bridges.orphans((NAMESPACE, f"n{number}"))]
    assert claimed == list(range(10))
    made.store.requests.observe(request_json(name="n3", uid="uid-3"))
    snapshot = made.store.requests.snapshot((NAMESPACE, "n3"))
    assert snapshot is not None
    assert snapshot.bridge_view is not None
    assert snapshot.bridge_view.response is None
    assert snapshot.bridge_view.metadata == {"name": "n3", "namespace": NAMESPACE}


async def test_an_answer_that_is_stored_is_not_kept_while_its_bridge_will_not_have_it_acknowledged() -> None:
    made = world()
    made.store.bridges.event(ALPHA, POD_UID, answered(result="x" * 1000))
    made.store.requests.observe(request_json(version="21", status=final_status(ended=NOW + seconds(1))))
    snapshot = made.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.bridge_view is not None
    assert (snapshot.bridge_view.id, snapshot.bridge_view.response) == (UID, None)
