"""watch/request_failures.py: what the store keeps of an action that fails."""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.controller.model.snapshots import ActionFailure
from efrit.controller.store.requests import MAX_SENTENCE_CHARS, SENTENCE_KEPT
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiRefused, BridgeUnreachable, NoSpace, QueueFull
from efrit.protocol import RequestState
from tests.unit.controller.factory import CONFIG, NOW, instance_json, request_json, seconds, view

ALPHA = ("team", "alpha")
WORK = ("team", "work")
UID = "uid-work"


class World:
    """A store with a clock that the test sets."""

    def __init__(self) -> None:
        self.time = NOW
        self.store = Store(WorkQueue(), CONFIG, self.now)

    def now(self) -> datetime:
        return self.time


def world() -> World:
    made = World()
    made.store.instances.observe(instance_json())
    made.store.requests.observe(request_json())
    return made


def failure(of: World) -> ActionFailure | None:
    snapshot = of.store.requests.snapshot(WORK)
    assert snapshot is not None
    return snapshot.failure


async def test_a_failure_that_goes_on_is_counted_from_its_beginning() -> None:
    given = world()
    began = given.now()
    given.store.requests.action_failed(WORK, UID, "Submit", NoSpace("the volume is full"))
    given.time += seconds(5)
    given.store.requests.action_failed(WORK, UID, "Submit", NoSpace("the volume is full, still"))

    known = failure(given)
    assert known is not None
    assert (known.first, known.last, known.sentence) == (began, given.now(), "the volume is full")


async def test_a_failure_of_another_kind_is_told_in_its_own_words_after_a_while() -> None:
    given = world()
    given.store.requests.action_failed(WORK, UID, "Submit", QueueFull("it is full"))
    told = []
    for _ in range(3):
        given.time += SENTENCE_KEPT - timedelta(seconds=4)
        given.store.requests.action_failed(WORK, UID, "Submit", BridgeUnreachable("gone"))
        known = failure(given)
        assert known is not None
        told.append(known.code)

    assert told == ["QueueFull", "Unreachable", "Unreachable"]


async def test_only_refusals_are_counted() -> None:
    given = world()
    for refused in (False, True, True, False):
        given.store.requests.action_failed(
            WORK, UID, "StoreResult", ApiRefused("403: no", sentence="no"), refused=refused
        )

    known = failure(given)
    assert known is not None
    assert (known.refusals, known.sentence) == (2, "no")


async def test_a_result_that_is_stored_ends_its_failure() -> None:
    given = world()
    given.store.requests.action_failed(WORK, UID, "StoreResult", ApiRefused("no"), refused=True)

    given.store.requests.result_stored(WORK, UID)

    assert failure(given) is None


async def test_a_bridge_that_answers_ends_the_failure_of_a_call_to_it() -> None:
    given = world()
    given.store.requests.action_failed(WORK, UID, "Submit", NoSpace("full"))

    given.store.bridges.view(ALPHA, view())

    assert failure(given) is None


async def test_what_another_bridge_tells_does_not_end_the_failure_of_a_call() -> None:
    given = world()
    given.store.requests.action_failed(WORK, UID, "Submit", NoSpace("full"))

    given.store.bridges.view(("team", "neighbour"), view())

    assert failure(given) is not None


async def test_a_late_view_does_not_end_the_failure_to_read_an_answer() -> None:
    given = world()
    given.store.bridges.view(ALPHA, view(state=RequestState.ANSWERED, attempt=1, response_bytes=100_000))
    given.store.requests.action_failed(WORK, UID, "FetchAnswer", BridgeUnreachable("gone"))

    given.store.bridges.view(ALPHA, view(state=RequestState.RUNNING, attempt=1))

    assert failure(given) is not None


async def test_an_answer_without_its_text_does_not_end_the_failure_to_read_it() -> None:
    given = world()
    given.store.requests.action_failed(WORK, UID, "FetchAnswer", BridgeUnreachable("gone"))

    given.store.bridges.view(ALPHA, view(state=RequestState.ANSWERED, response_bytes=100_000))

    assert failure(given) is not None


async def test_a_failure_of_an_earlier_request_of_the_name_is_ignored() -> None:
    given = world()

    given.store.requests.action_failed(WORK, "uid-before", "Submit", NoSpace("full"))

    assert failure(given) is None


async def test_a_long_sentence_is_kept_up_to_its_bound() -> None:
    given = world()

    given.store.requests.action_failed(WORK, UID, "Submit", NoSpace("x" * 100_000))

    known = failure(given)
    assert known is not None
    assert len(known.sentence) == MAX_SENTENCE_CHARS
