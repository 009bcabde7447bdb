"""watch/bridge_news.py and a bridge that lies: it changes nothing of others' and fills no memory."""

from __future__ import annotations

import pytest

from efrit.controller.watch import bridge_news
from efrit.protocol import RequestState, Reset
from tests.unit.controller.factory import (
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
from tests.unit.controller.virtual_time import on_virtual_time
from tests.unit.controller.watch.test_store import ALPHA, UID, WORK, World

LIAR = ("elsewhere", "liar")
NEIGHBOUR = (NAMESPACE, "neighbour")


def world(request: dict[str, object] | None = None) -> World:
    made = World()
    made.store.observe_instance(instance_json())
    made.store.observe_request(request or request_json())
    made.store.bridge_event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
    made.store.bridge_event(ALPHA, POD_UID, stats())
    return made


@pytest.mark.parametrize("liar", [LIAR, NEIGHBOUR])
@on_virtual_time
async def test_a_bridge_says_nothing_about_a_request_of_another_instance(liar: tuple[str, str]) -> None:
    made = world()
    before = made.store.request_snapshot(WORK)
    made.store.bridge_event(liar, "pod", Reset(queue_id="false", epoch="e"))
    made.store.bridge_event(liar, "pod", answered())
    made.store.bridge_event(liar, "pod", stats(queue_id="false"))
    assert made.store.request_snapshot(WORK) == before
    assert made.store.unclaimed(WORK) is None


@on_virtual_time
async def test_another_namespace_cannot_claim_a_request_that_is_bound_to_nobody_yet() -> None:
    made = world(request_json(target=None, selector={"matchLabels": {"a": "b"}}))
    before = made.store.request_snapshot(WORK)
    made.store.bridge_event(LIAR, "pod", view(state=RequestState.RUNNING, attempt=1))
    assert made.store.request_snapshot(WORK) == before


@pytest.mark.parametrize("name", ["../../secrets/x", "a/b", "A", "", "a" * 254, "a\nb", "..", "é"])
@on_virtual_time
async def test_a_name_that_is_no_objects_is_never_asked_for(name: str) -> None:
    made = world()
    lost = view("uid-lost", RequestState.ANSWERED, metadata={"name": name, "namespace": NAMESPACE})
    made.store.bridge_event(ALPHA, POD_UID, lost)
    assert made.store.unclaimed((NAMESPACE, name)) is None


@on_virtual_time
async def test_made_up_requests_are_kept_up_to_a_number_and_without_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge_news, "MOST_UNKNOWN", 5)
    made = world(request_json(name="other", uid="uid-other"))
    made.store.observe_instance(instance_json(version="11", spec={"queue": {"maxPending": 5}}))
    for number in range(30):
        uid, metadata = f"uid-{number}", {"name": f"n{number}", "namespace": NAMESPACE, "more": "x" * 1000}
        made.store.bridge_event(ALPHA, POD_UID, answered(uid).model_copy(update={"metadata": metadata}))
    claimed = [number for number in range(30) if made.store.unclaimed((NAMESPACE, f"n{number}"))]
    assert claimed == list(range(10))
    made.store.observe_request(request_json(name="n3", uid="uid-3"))
    snapshot = made.store.request_snapshot((NAMESPACE, "n3"))
    assert snapshot is not None
    assert snapshot.bridge_view is not None
    assert snapshot.bridge_view.response is None
    assert snapshot.bridge_view.metadata == {"name": "n3", "namespace": NAMESPACE}


@on_virtual_time
async def test_an_answer_that_is_stored_is_not_kept_while_its_bridge_will_not_have_it_acknowledged() -> None:
    made = world()
    made.store.bridge_event(ALPHA, POD_UID, answered(result="x" * 1000))
    made.store.observe_request(request_json(version="21", status=final_status(ended=NOW + seconds(1))))
    snapshot = made.store.request_snapshot(WORK)
    assert snapshot is not None
    assert snapshot.bridge_view is not None
    assert (snapshot.bridge_view.id, snapshot.bridge_view.response) == (UID, None)
