"""store/handovers.py: what may be handed over, and when an instance may be closed."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from efrit.controller.store.packed_request import MAX_MODELS, PackedRequest
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from tests.support.factory import CONFIG, NOW, POD_UID, Json, instance_json, request_json, view

ALPHA = ("team", "alpha")
WORK = ("team", "work")
UID = "uid-work"


def new_store(*, listed: bool = True, requests: int = 1, **status: Any) -> Store:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    store.instances.observe(instance_json(status=status))
    if listed:
        store.first_list_complete(None)
    for number in range(requests):
        store.requests.observe(request_json(f"work{number or ''}"))
    return store


def handover_id(store: Store) -> str:
    snapshot = store.instances.snapshot(ALPHA)
    assert snapshot is not None
    return snapshot.facts.handover_id


def open_store(**options: Any) -> Store:
    store = new_store(**options)
    store.instances.observe(instance_json(version="11", status=_open(handover_id(store))))
    return store


def _open(of: str) -> Json:
    return {"handover": {"state": "Open", "id": of}}


@pytest.mark.parametrize("status", [{}, {"handover": {"state": "Closed"}}, _open("of another process")])
def test_nothing_is_handed_over_under_an_id_that_is_not_stored(status: Json) -> None:
    store = new_store(**status)

    assert not store.handovers.submit_begins(ALPHA, WORK, UID, handover_id(store))


def test_a_request_is_handed_over_under_the_stored_id_only() -> None:
    store = open_store()

    assert not store.handovers.submit_begins(ALPHA, WORK, UID, "an earlier one")
    assert not store.handovers.submit_begins(ALPHA, WORK, "uid-before", handover_id(store))
    assert store.handovers.submit_begins(ALPHA, WORK, UID, handover_id(store))


async def test_an_instance_is_not_closed_while_a_request_is_being_handed_over() -> None:
    store = open_store()
    store.handovers.submit_begins(ALPHA, WORK, UID, handover_id(store))

    assert not store.handovers.close_begins(ALPHA)
    store.handovers.submit_ended(ALPHA, WORK, UID)
    assert store.handovers.close_begins(ALPHA)


async def test_a_hand_over_that_outlasts_its_request_and_its_instance_is_not_counted_for_the_next_one() -> None:
    store = open_store()
    store.handovers.submit_begins(ALPHA, WORK, UID, handover_id(store))
    store.requests.observe_gone(WORK, UID)
    store.instances.observe_gone(ALPHA, "uid-alpha")
    store.instances.drop(ALPHA)

    store.handovers.submit_ended(ALPHA, WORK, UID)
    store.instances.observe(instance_json(uid="another", version="30"))

    snapshot = store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.unfinished == 0


def test_an_instance_is_not_closed_before_a_request_that_it_may_have_is_marked() -> None:
    store = open_store()
    store.handovers.handed_over(ALPHA, WORK, UID)
    assert not store.handovers.may_close(ALPHA)

    store.requests.observe(request_json(version="21", status={"handover": "Possible"}))

    assert store.handovers.may_close(ALPHA)


def test_an_instance_is_not_closed_before_all_requests_are_listed() -> None:
    store = new_store(listed=False, requests=0)
    assert not store.handovers.may_close(ALPHA)

    store.first_list_complete(None)

    assert store.handovers.may_close(ALPHA)


def test_an_instance_with_a_pod_is_not_closed() -> None:
    store = open_store()
    meta = {"name": "efrit-alpha-0", "namespace": "team", "uid": POD_UID, "labels": {"efrit.dev/instance": "alpha"}}
    store.children.observe_pod({"metadata": meta, "spec": {}, "status": {"phase": "Running"}})

    assert not store.handovers.may_close(ALPHA)


def test_nothing_more_is_handed_over_once_closed_is_about_to_be_written() -> None:
    store = open_store()
    before = handover_id(store)

    assert store.handovers.close_begins(ALPHA)

    assert handover_id(store) != before
    assert not store.handovers.submit_begins(ALPHA, WORK, UID, before)
    assert not store.handovers.submit_begins(ALPHA, WORK, UID, handover_id(store))


def test_a_closed_instance_speaks_for_all_requests_listed_at_the_start() -> None:
    store = new_store(listed=False, handover={"state": "Closed"})
    store.first_list_complete(None)
    snapshot = store.requests.snapshot(WORK)

    assert snapshot is not None
    assert snapshot.target is not None
    assert (snapshot.listed_at_start, snapshot.target.facts.closed_before) == (True, True)


@pytest.mark.parametrize("deletion_seen", [False, True])
def test_an_instance_made_anew_under_its_name_is_not_closed_by_the_record_of_the_former(deletion_seen: bool) -> None:
    store = new_store(handover={"state": "Closed"})
    before = handover_id(store)
    if deletion_seen:
        store.instances.observe_gone(ALPHA, "uid-alpha")

    store.instances.observe(instance_json(uid="another", version="11"))

    snapshot = store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.facts.closed_before, snapshot.facts.handover_id != before) == (False, True)


def test_what_the_bridge_reports_is_marked_before_the_instance_is_closed() -> None:
    store = open_store()
    store.bridges.view(ALPHA, view())

    assert not store.handovers.may_close(ALPHA)


def test_whether_an_instance_may_be_closed_is_known_without_unpacking_thousands_of_requests() -> None:
    store, unpacked = open_store(requests=MAX_MODELS + 20), 0

    def called(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal unpacked
        unpacked += event == "call" and frame.f_code is PackedRequest.unpack.__code__

    sys.setprofile(called)
    try:
        may_close = store.handovers.may_close(ALPHA)
    finally:
        sys.setprofile(None)
    assert (may_close, unpacked) == (True, 0)
