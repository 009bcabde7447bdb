"""store/contents.py and store/packed_request.py: what is kept of a request, and how much of it."""

from __future__ import annotations

import pickle

import pytest

from efrit.api import EfritRequest
from efrit.controller.store.contents import ENTRY_BYTES, Contents
from efrit.controller.store.packed_request import PackedRequest, RecentRequests
from tests.support.factory import final_status, request_json, view
from tests.unit.controller.store.world import WORK, World

pytestmark = pytest.mark.virtual_time

LONG = "é" * 245_760


def test_contents_are_kept_within_their_bytes_and_the_least_recently_used_go_first() -> None:
    contents = Contents(max_bytes=3 * (ENTRY_BYTES + 1100))
    for name in "abc":
        contents.put(name, name * 1000)
    assert contents.get("a") is not None
    contents.put("d", "d" * 1000)

    assert [name for name in "abcd" if contents.get(name)] == ["a", "c", "d"]
    for name in "acd":
        contents.discard(name)
    assert (len(contents), contents.held_bytes) == (0, 0)


@pytest.mark.parametrize("sign", ["x", "é", "→", "😀"])
def test_a_content_counts_with_the_bytes_it_takes_in_memory(sign: str) -> None:
    contents = Contents()
    contents.put("u", sign * 1000)

    width = {"x": 1, "é": 1, "→": 2, "😀": 4}[sign]
    assert width * 1000 <= contents.held_bytes <= width * 1000 + 500


def test_the_newest_content_is_kept_whatever_its_size_because_it_is_about_to_be_sent() -> None:
    contents = Contents(max_bytes=10)
    contents.put("a", "a" * 100)
    contents.put("b", "b" * 100)

    assert contents.get("a") is None
    assert contents.get("b") == "b" * 100


def test_a_large_request_is_packed_into_two_kilobytes_and_unpacked_as_it_was_but_for_its_content() -> None:
    manifest = request_json(content=LONG, timeoutSeconds=60, priority=3, status={"phase": "Queued", "queueID": "q"})
    manifest["metadata"] |= {"annotations": {"last-applied": LONG}, "labels": {"a": "b"}}
    request = EfritRequest.model_validate(manifest)

    packed = PackedRequest.of(request)
    as_model = packed.unpack(LONG)
    packed.pack()

    assert len(pickle.dumps(packed)) < 2048
    assert packed.content_bytes == 2 * len(LONG)
    whole = packed.unpack(LONG)
    assert (whole.spec, whole.status, whole.key) == (request.spec, request.status, request.key)
    assert as_model == whole
    assert packed.unpack().spec.model_copy(update={"content": LONG}) == request.spec


def test_a_final_request_is_kept_without_its_answer() -> None:
    status = {**final_status(), "result": "x" * 30_000, "output": "x" * 8000, "error": {"code": "c", "message": "m"}}

    packed = PackedRequest.of(EfritRequest.model_validate(request_json(status=status)))
    packed.pack()

    assert len(pickle.dumps(packed)) < 2048
    assert packed.unpack().status.completion_time is not None


def test_only_the_last_requests_stay_models_and_one_that_is_forgotten_takes_no_place() -> None:
    recent = RecentRequests(limit=2)
    request = EfritRequest.model_validate(request_json())

    first, second, third = (recent.keep(request) for _ in range(3))
    recent.forget(second)
    recent.keep(request)

    assert [packed.unpack() is packed.unpack() for packed in (first, second, third)] == [False, True, True]
    assert first.unpack() == third.unpack()
    assert len(recent) == 2


async def test_a_request_that_is_replaced_or_done_takes_no_place_among_the_last(world: World) -> None:
    recent = world.store.requests._recent
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json(version="21", status=final_status()))
    assert len(recent) == 1
    world.store.requests.observe(request_json(version="22", uid="uid-other"))
    assert len(recent) == 1
    world.store.requests.drop(WORK)
    assert len(recent) == 0


async def test_no_record_holds_a_content_once_the_queue_has_the_request(world: World) -> None:
    world.store.requests.observe(request_json(content="(large)" * 1000))
    before = world.store.requests.snapshot(WORK)
    world.open_bridge(view())
    after = world.store.requests.snapshot(WORK)

    assert before is not None
    assert (before.request.spec.content, before.content_bytes) == ("(large)" * 1000, None)
    assert after is not None
    assert (len(after.request.spec.content) < 100, after.content_bytes) == (True, 7000)
