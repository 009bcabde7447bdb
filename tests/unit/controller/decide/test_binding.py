"""decide/binding.py: requests of a selector or pool whose instance's node is lost, or whose member leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.api.pool import PlacementStrategy
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import Bind, ConfirmHandover, Decision, Placed, RequeueAfter
from efrit.controller.model.snapshots import Handover, InstanceSnapshot, PoolPlace, RequestSnapshot
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from tests.support.factory import (
    CONFIG,
    NOW,
    QUEUE_ID,
    Json,
    away,
    condition,
    condition_json,
    instance,
    instance_json,
    pod,
    ready,
    request,
    request_json,
    seconds,
    snapshot,
    written,
)

LATER = NOW + seconds(60)


def lost_status(reason: str = "NodeLost") -> Json:
    return {"conditions": [condition_json("Ready", "False", reason)]}


def lost(**fields: Any) -> InstanceSnapshot:
    return away(instance("lost", status=lost_status()), pod=pod(deleting=True), **fields)


def bound(**fields: Any) -> Any:
    selector = {"matchLabels": {"team": "a"}}
    return request(**{"target": None, "selector": selector, "status": {"instanceName": "lost"}, **fields})


def moved(request_snapshot: RequestSnapshot) -> str:
    name: str = written(decide_request(request_snapshot, LATER))["instanceName"]
    return name


OTHERS = (lost(), ready(instance("busy"), open_requests=3), ready(instance("quiet")), away(instance("asleep")))


def test_a_request_that_was_never_handed_over_moves_to_the_least_loaded_other_instance() -> None:
    request_snapshot = snapshot(bound(), lost(), candidates=OTHERS)

    status = written(decide_request(request_snapshot, LATER))

    assert (status["instanceName"], status["reason"]) == ("quiet", "Pending")
    assert condition(status, "Complete")[2] == "Bound to another instance: the node of EfritInstance lost is lost."


def test_a_request_older_than_the_controller_moves_if_the_lost_instance_was_closed() -> None:
    request_snapshot = snapshot(bound(), lost(), candidates=OTHERS, listed_at_start=True)

    assert moved(request_snapshot) == "lost"
    assert moved(replace(request_snapshot, target=lost(closed_before=True))) == "quiet"


@pytest.mark.parametrize(
    "change",
    [
        {"handover": Handover(QUEUE_ID)},
        {"request": bound(status={"instanceName": "lost", "queueID": QUEUE_ID})},
        {"request": bound(status={"instanceName": "lost", "handover": "Possible"})},
        {"request": request(target="lost")},
        {"request": bound(type="chat", session={"id": "s"})},
        {"target": away(instance("lost", status=lost_status("Rolling")), pod=pod(deleting=True))},
        {"candidates": (lost(), away(instance("asleep")))},
    ],
    ids=["handed over", "on a queue", "marked", "named", "a session", "not lost", "nobody else is ready"],
)
def test_any_other_request_stays(change: Any) -> None:
    request_snapshot = snapshot(bound(), lost(), candidates=OTHERS)

    assert moved(replace(request_snapshot, **change)) == "lost"


EPHEMERAL: Json = {"queue": {"ephemeral": True}}


@pytest.mark.parametrize(
    ("chosen", "queue"),
    [
        (ready(instance(spec=EPHEMERAL)), QUEUE_ID),
        (ready(instance()), None),
        (ready(instance(spec=EPHEMERAL), handover_id="another"), None),
        (ready(instance(spec={"queue": {"ephemeral": True, "maxPending": 3}}), open_requests=2), QUEUE_ID),
        (ready(instance(spec={"queue": {"ephemeral": True, "maxPending": 3}}), open_requests=3), None),
    ],
    ids=["an ephemeral queue", "a queue that outlives its pod", "not open yet", "room for one", "held back"],
)
def test_the_ephemeral_queue_that_gets_a_request_next_is_recorded_with_its_instance(
    chosen: InstanceSnapshot, queue: str | None
) -> None:
    unbound = request(target=None, selector={"matchLabels": {"team": "a"}})
    status = written(decide_request(snapshot(unbound, candidates=(chosen,)), NOW))
    assert (status["instanceName"], status.get("queueID")) == ("alpha", queue)


SELECTED: Json = {"target": None, "selector": {"matchLabels": {"team": "a"}}}
WAITED: Json = {"phase": "Pending", "reason": "InstanceNotReady"}


@pytest.mark.parametrize(
    ("chosen", "recorded"),
    [
        (ready(instance()), {"instanceName": "alpha", "conditions": []}),
        (ready(instance(spec=EPHEMERAL)), {"instanceName": "alpha", "queueID": QUEUE_ID, "conditions": []}),
    ],
    ids=["a queue on storage", "an ephemeral queue"],
)
def test_of_a_request_that_is_handed_over_at_once_nothing_is_written_but_where_it_goes(
    chosen: InstanceSnapshot, recorded: Json
) -> None:
    assert written(decide_request(snapshot(request(**SELECTED), candidates=(chosen,)), NOW)) == recorded


@pytest.mark.parametrize(
    ("status", "chosen"),
    [
        (WAITED, ready(instance())),
        ({"conditions": [condition_json("Complete", "False", "InstanceNotReady")]}, ready(instance())),
        ({}, ready(instance(), handover_id="another")),
        ({}, ready(instance(spec={"queue": {"maxPending": 3}}), open_requests=3)),
        ({}, away(instance(status={"suspendedIdle": True}))),
    ],
    ids=["a reason before", "conditions before", "not open yet", "held back", "asleep"],
)
def test_a_request_that_has_waited_or_is_to_wait_says_that_it_is_bound(
    status: Json, chosen: InstanceSnapshot
) -> None:
    bound_status = written(decide_request(snapshot(request(**SELECTED, status=status), candidates=(chosen,)), NOW))

    assert (bound_status["instanceName"], bound_status["phase"], bound_status["reason"]) == (
        "alpha",
        "Pending",
        "Pending",
    )
    assert condition(bound_status, "Complete")[2] == "Bound to an instance."


def test_a_request_that_was_bound_without_a_word_says_later_what_it_waits_for() -> None:
    without_a_word = request(**SELECTED, status={"instanceName": "alpha"})

    status = written(decide_request(snapshot(without_a_word, away(instance())), LATER))

    assert (status["phase"], status["reason"]) == ("Pending", "InstanceNotReady")


def test_the_store_shows_the_other_instances_to_a_request_whose_node_is_lost() -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    labels = {"team": "a"}
    store.instances.observe(instance_json("quiet", labels=labels))
    store.instances.observe(instance_json("lost", labels=labels))
    selector = {"matchLabels": labels}
    store.requests.observe(request_json(target=None, selector=selector, status={"instanceName": "lost"}))

    def candidates() -> set[str]:
        request_snapshot = store.requests.snapshot(("team", "work"))
        assert request_snapshot is not None
        return {candidate.instance.metadata.name for candidate in request_snapshot.candidates}

    assert candidates() == set()
    store.instances.observe(instance_json("lost", labels=labels, version="11", status=lost_status()))
    assert candidates() == {"quiet", "lost"}


def leaving(name: str | None = "goes", **counts: Any) -> PoolPlace:
    return PoolPlace("crew", PlacementStrategy.SPREAD, 2, **{"awake": 2, **counts}, leaves=name)


def of_pool(**given: Any) -> Any:
    return request(**{"target": None, "poolRef": {"name": "crew"}, "status": {"instanceName": "goes"}, **given})


GOES = ready(instance("goes"))
FREE = (GOES, ready(instance("free")))


def test_a_request_that_a_leaving_member_was_never_handed_goes_to_another() -> None:
    actions = decide_request(snapshot(of_pool(), GOES, candidates=FREE, pool=leaving()), LATER)

    status = written(actions)
    assert (status["instanceName"], status["reason"]) == ("free", "Pending")
    assert condition(status, "Complete")[2] == "Bound to another instance: EfritInstance goes leaves the pool."
    assert isinstance(actions[0], ConfirmHandover)


def test_a_request_of_a_member_that_is_gone_goes_to_another_or_waits_for_one() -> None:
    gone = snapshot(of_pool(), None, candidates=FREE[1:], pool=leaving())
    assert moved(gone) == "free"
    waiting = decide_request(replace(gone, candidates=(), pool=leaving(awake=0)), LATER)
    assert written(waiting)["reason"] == "Backpressure"
    assert any(isinstance(action, RequeueAfter) for action in waiting)


@pytest.mark.parametrize(
    "change",
    [
        {"pool": leaving(None)},
        {"pool": leaving(awake=0)},
        {"candidates": (GOES,)},
        {"handover": Handover(QUEUE_ID)},
        {"request": of_pool(status={"instanceName": "goes", "queueID": QUEUE_ID})},
        {"request": of_pool(status={"instanceName": "goes", "handover": "Possible"})},
        {"request": of_pool(type="chat", session={"id": "s"})},
        {"opened_by_other": True},
    ],
    ids=["stays", "no room", "nobody else", "handed over", "on a queue", "marked", "a session", "opened by another"],
)
def test_any_other_request_of_a_leaving_member_stays(change: Any) -> None:
    given = replace(snapshot(of_pool(), GOES, candidates=FREE, pool=leaving()), **change)

    assert not [action for action in decide_request(given, LATER) if isinstance(action, Bind)]


def placed(request_snapshot: RequestSnapshot) -> Placed | None:
    """Return what a decision says of the placement, for the metrics."""
    (bind,) = [action for action in decide_request(request_snapshot, LATER) if isinstance(action, Bind)]
    return bind.placed


def test_a_binding_says_how_the_member_was_chosen_and_how_long_the_request_waited_for_its_first() -> None:
    new = snapshot(of_pool(status={}), None, candidates=FREE[1:], pool=leaving(None))
    asleep = away(instance("asleep", status={"suspendedIdle": True}))

    assert placed(new) == Placed(("team", "crew"), Decision.AWAKE, seconds(60))
    sleeping = replace(new, candidates=(asleep,), pool=leaving(None, awake=0, asleep=1))
    assert placed(sleeping) == Placed(("team", "crew"), Decision.WOKEN, seconds(60))
    leaves = snapshot(of_pool(), GOES, candidates=FREE, pool=leaving())
    assert placed(leaves) == Placed(("team", "crew"), Decision.MOVED, None)
    continues = snapshot(
        continued({}), None, candidates=(WITH_SESSION,), pool=preferring(None), session_instance="goes"
    )
    assert placed(continues) == Placed(("team", "crew"), Decision.SESSION_HOME, seconds(60))
    gone = replace(continues, candidates=FREE[1:])
    assert placed(gone) == Placed(("team", "crew"), Decision.SESSION_LEFT, seconds(60))
    no_pool = snapshot(bound(), lost(), candidates=OTHERS)
    assert placed(no_pool) is None


# A request that continues a session which a member of its pool has.

PREFERRED = seconds(60)
WITH_SESSION = away(instance("goes", spec={"model": {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}}}))
TIMED_OUT = NOW + PREFERRED


def continued(status: Json | None = None, **spec: Any) -> Any:
    return of_pool(
        type="chat", session={"id": "s-1"}, status={"instanceName": "goes"} if status is None else status, **spec
    )


def preferring(name: str | None = "goes") -> PoolPlace:
    return replace(leaving(name), affinity_wait=PREFERRED)


def test_a_session_is_left_once_its_member_has_been_away_for_as_long_as_the_pool_waits() -> None:
    given = snapshot(continued(), WITH_SESSION, candidates=(WITH_SESSION, FREE[1]), pool=preferring())

    early = decide_request(given, TIMED_OUT - seconds(1))
    assert not [action for action in early if isinstance(action, Bind)]
    assert RequeueAfter(seconds(1)) in early

    status = written(decide_request(given, TIMED_OUT))
    assert (status["instanceName"], status["sessionLeft"]) == ("free", "s-1")
    assert (
        "where a new session begins: EfritInstance goes, which has session s-1, is away"
        in (condition(status, "Complete")[2])
    )


def test_a_session_stays_with_its_member_where_the_pool_requires_it_or_nobody_else_has_room() -> None:
    given = snapshot(continued(), WITH_SESSION, candidates=(WITH_SESSION, FREE[1]), pool=leaving())
    for kept in (given, replace(given, candidates=(WITH_SESSION,), pool=preferring())):
        assert not [action for action in decide_request(kept, LATER) if isinstance(action, Bind)]


def test_a_session_of_a_member_that_is_gone_is_left_at_once() -> None:
    bound_before = snapshot(continued(), None, candidates=FREE[1:], pool=preferring())
    never_bound = snapshot(continued({}), None, candidates=FREE[1:], pool=preferring(None), session_instance="gone")
    for given in (bound_before, never_bound):
        status = written(decide_request(given, NOW))
        assert (status["instanceName"], status["sessionLeft"]) == ("free", "s-1")
    required = replace(never_bound, pool=leaving(None))
    assert condition(written(decide_request(required, NOW)), "Complete")[1] == "Rejected"


def test_a_session_that_was_left_is_left_once_and_the_request_moves_as_any_other() -> None:
    left = continued({"instanceName": "goes", "sessionLeft": "s-1"})
    given = snapshot(left, GOES, candidates=FREE, pool=preferring())

    status = written(decide_request(given, NOW))
    assert (status["instanceName"], status.get("sessionLeft", "s-1")) == ("free", "s-1")
    assert condition(status, "Complete")[2] == "Bound to another instance: EfritInstance goes leaves the pool."


def test_a_session_that_is_found_on_its_member_is_not_left() -> None:
    given = snapshot(
        continued({}), None, candidates=(WITH_SESSION, FREE[1]), pool=preferring(None), session_instance="goes"
    )

    status = written(decide_request(given, TIMED_OUT))
    assert (status["instanceName"], status.get("sessionLeft")) == ("goes", None)
