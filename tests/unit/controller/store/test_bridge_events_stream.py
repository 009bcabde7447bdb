"""store/: what a bridge reports, which queue has a request, and work whose request is not known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from efrit.controller.model.snapshots import Handover
from efrit.controller.store.bridge_events import MAX_EARLY_ANSWERS, MAX_EARLY_INSTANCES, ORPHAN_GRACE
from efrit.controller.store.store import Store
from efrit.protocol import Progress, RequestState
from efrit.protocol.events import Reset
from efrit.protocol.view import RequestView
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    POD_UID,
    QUEUE_ID,
    Json,
    answered,
    final_status,
    instance_json,
    request_json,
    stats,
    view,
)
from tests.unit.controller.store.world import ALPHA, SOON, UID, WORK, World, child

pytestmark = pytest.mark.virtual_time


async def test_a_bridge_counts_as_connected_only_when_its_whole_picture_is_there(world: World) -> None:
    world.store.instances.observe(instance_json())

    world.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
    assert not world.instance().bridge.connected
    world.store.bridges.event(ALPHA, POD_UID, stats())

    assert world.instance().bridge.connected
    assert (world.instance().bridge.queue_id, world.instance().bridge.pod_uid) == (QUEUE_ID, POD_UID)


async def test_a_connected_bridge_requeues_everything_that_waits_for_it(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    await world.settle()

    world.open_bridge()

    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "work"), ("Request", "free")}


async def test_a_reset_forgets_what_the_bridge_reported_before(world: World) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(view())

    world.open_bridge()

    assert world.request().bridge_view is None


async def test_what_a_resumed_stream_does_not_repeat_is_still_known(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    world.store.bridges.bridge_lost(ALPHA, POD_UID, "reset by peer")
    assert not world.instance().bridge.connected

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=1))

    assert world.instance().bridge.connected
    assert world.instance().bridge.problem is None
    assert world.request().bridge_view == view()


RUNS = view(state=RequestState.RUNNING, attempt=1)
CHAT = view(state=RequestState.RUNNING, attempt=1, progress=Progress(step=1))
FOR_A_POOL: Json = {"target": None, "poolRef": {"name": "crew"}, "status": {"instanceName": "alpha"}}


@pytest.mark.parametrize(
    ("reported", "fields", "submitting", "pause"),
    [
        (RUNS, {}, False, CONFIG.running_after),
        (CHAT, {}, False, None),
        (RUNS, {"cancel": True}, False, None),
        (RUNS, FOR_A_POOL, False, None),
        (RUNS, {"status": final_status()}, False, None),
        (view(), {}, True, CONFIG.queued_after),
        (view(), {}, False, None),
        (answered(result="2"), {}, True, None),
    ],
    ids=[
        "runs",
        "runs and tells of it",
        "runs though cancelled",
        "runs for a pool",
        "runs though final",
        "queued",
        "queued long ago",
        "answered",
    ],
)
async def test_a_view_requeues_its_request_and_one_that_its_status_does_not_report_yet_a_while_later(
    world: World, reported: RequestView, fields: Json, submitting: bool, pause: timedelta | None
) -> None:
    world.store.requests.observe(request_json(**fields))
    world.open_bridge()
    world.store.requests._records[WORK].submitting = submitting
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, reported)

    assert world.request().bridge_view == reported
    soon = {key for key in await world.due_keys() if key[0] == "Request"}
    assert soon == (set() if pause is not None else {("Request", "work")})
    if pause is not None:
        assert ("Request", "work") in await world.due_keys(pause.total_seconds())


async def test_an_answer_is_not_replaced_by_one_without_its_text(world: World) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(answered(result="2"))

    world.store.bridges.view(ALPHA, view(state=RequestState.ANSWERED, response_bytes=70_000))

    assert world.request().bridge_view == answered(result="2")


@pytest.mark.parametrize(
    ("request_view", "late"),
    [
        (view(state=RequestState.ANSWERED, attempt=1, response_bytes=70_000), view()),
        (
            view(state=RequestState.ANSWERED, attempt=1, response_bytes=70_000),
            view(state=RequestState.RUNNING, attempt=1),
        ),
        (view(state=RequestState.RUNNING, attempt=1), view()),
    ],
    ids=["queued after answered", "running after answered", "queued after running"],
)
async def test_the_late_reply_to_a_submission_does_not_undo_what_the_stream_reported(
    world: World, request_view: RequestView, late: RequestView
) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(request_view)
    world.store.bridges.request_submitted(ALPHA, late)
    assert world.request().bridge_view == request_view


@pytest.mark.parametrize(
    ("reply", "within", "due"),
    [
        (view(), SOON, set()),
        (view(), CONFIG.queued_after.total_seconds() + SOON, {("Request", "work")}),
        (RUNS, SOON, set()),
        (RUNS, CONFIG.running_after.total_seconds() + SOON, {("Request", "work")}),
        (answered(result="2"), SOON, {("Request", "work")}),
    ],
    ids=["queued", "queued for a while", "running", "running for a while", "answered"],
)
async def test_a_reply_that_brings_no_end_brings_the_request_back_once_it_has_lasted(
    world: World, reply: RequestView, within: float, due: set[tuple[str, str]]
) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.request_submitted(ALPHA, reply)

    assert world.request().bridge_view == reply
    assert await world.due_keys(within) == due


@pytest.mark.parametrize("is_final", [True, False])
async def test_an_acknowledgement_brings_back_what_is_still_open(world: World, is_final: bool) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(answered(result="2"))
    if is_final:
        world.store.requests.observe(request_json(version="21", status=final_status()))
    await world.settle()

    world.store.bridges.answer_acknowledged(ALPHA, UID)

    assert await world.due_keys() == (set() if is_final else {("Request", "work")})


async def test_work_that_goes_back_to_the_queue_for_another_attempt_is_queued(world: World) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(view(state=RequestState.RUNNING, attempt=1))

    world.store.bridges.event(ALPHA, POD_UID, view(attempt=1))

    assert world.request().bridge_view == view(attempt=1)


async def test_a_lost_bridge_is_reported_once_and_with_its_problem(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    for due in ({("Instance", "alpha")}, set()):
        world.store.bridges.bridge_lost(ALPHA, POD_UID, "refused")
        assert await world.due_keys() == due

    assert (world.instance().bridge.connected, world.instance().bridge.problem) == (False, "refused")


async def test_the_loss_of_an_earlier_pods_bridge_does_not_touch_that_of_the_present_one(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(uid="new"))
    world.open_bridge(pod_uid="new")

    world.store.bridges.bridge_lost(ALPHA, "old", "refused")

    assert world.instance().bridge.connected


async def test_the_bridge_of_a_new_pod_that_cannot_be_reached_is_reported(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge(pod_uid="old")
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child(uid="new"))

    world.store.bridges.bridge_lost(ALPHA, "new", "certificate verify failed")

    bridge = world.instance().bridge
    assert (bridge.pod_uid, bridge.problem) == ("new", "certificate verify failed")


async def test_a_connection_closed_on_purpose_is_no_problem(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    for key in (ALPHA, ALPHA, (NAMESPACE, "unknown")):
        world.store.bridges.bridge_disconnected(key)

    assert await world.due_keys() == {("Instance", "alpha")}
    bridge = world.instance().bridge
    assert (bridge.connected, bridge.problem, bridge.pod_uid) == (False, None, None)


ABSENT = Handover(QUEUE_ID, absent=True)
REFUSED = Handover("", absent=True, refused="too large")
HAS = Handover(QUEUE_ID)
Step = Callable[[World], object]


def observe_request(world: World) -> None:
    world.store.requests.observe(request_json())


def reports(world: World) -> None:
    world.open_bridge(view())


@pytest.mark.parametrize(
    ("steps", "handover"),
    [
        (
            [World.open_bridge, observe_request, lambda world: world.store.handovers.handed_over(ALPHA, WORK, UID)],
            HAS,
        ),
        ([observe_request, reports], HAS),
        ([reports, observe_request], HAS),
        ([observe_request, reports, lambda world: world.open_bridge(queue_id="queue-2")], HAS),
        ([observe_request, lambda world: world.store.handovers.absent(WORK, UID, QUEUE_ID)], ABSENT),
        ([observe_request, lambda world: world.store.handovers.bridge_refused(WORK, UID, "too large")], REFUSED),
    ],
    ids=[
        "it was handed over",
        "the queue tells of it",
        "the queue reported it before it was known",
        "the volume is replaced",
        "the queue does not know it",
        "the bridge will never take it",
    ],
)
async def test_which_queue_has_a_request_is_remembered(world: World, steps: list[Step], handover: Handover) -> None:
    for step in steps:
        await world.settle()
        step(world)

    assert world.request().handover == handover
    if handover.absent:
        assert await world.due_keys() == {("Request", "work")}


def foreign(name: object = "lost", namespace: str = NAMESPACE, uid: str = "uid-lost") -> RequestView:
    return view(uid, metadata={"name": name, "namespace": namespace})


async def test_work_without_a_request_is_checked_after_a_while(world: World) -> None:
    world.open_bridge(foreign())

    assert ("Request", "lost") not in await world.due_keys(ORPHAN_GRACE.total_seconds() - 1)
    assert ("Request", "lost") in await world.due_keys(2)
    assert world.store.bridges.orphans((NAMESPACE, "lost")) == [(ALPHA, "uid-lost")]


def unknown_answer(number: int) -> RequestView:
    return view(f"uid-{number}", RequestState.ANSWERED, metadata={"name": f"n{number}", "namespace": NAMESPACE})


async def test_the_request_of_an_answer_is_looked_for_at_once_while_the_first_list_is_read(world: World) -> None:
    world.open_bridge(unknown_answer(0), foreign())

    due = await world.due_keys()

    assert ("Request", "n0") in due
    assert ("Request", "lost") not in due


async def test_after_the_first_list_the_request_of_an_answer_is_looked_for_after_a_while(world: World) -> None:
    world.store.first_list_complete(NAMESPACE)
    world.open_bridge(unknown_answer(0))

    assert ("Request", "n0") not in await world.due_keys()
    assert ("Request", "n0") in await world.due_keys(ORPHAN_GRACE.total_seconds())


async def test_a_few_answers_of_a_few_instances_are_looked_into_at_once(world: World) -> None:
    instances = [(NAMESPACE, f"i{number}") for number in range(MAX_EARLY_INSTANCES + 1)]
    for place, instance in enumerate(instances):
        numbers = range(100 * place, 100 * place + MAX_EARLY_ANSWERS + 3)
        world.open_bridge(*map(unknown_answer, numbers), of=instance)

    due = await world.due_names("Request")

    assert len(due) == MAX_EARLY_INSTANCES * MAX_EARLY_ANSWERS
    assert "n0" in due
    assert f"n{MAX_EARLY_ANSWERS}" not in due
    assert f"n{100 * MAX_EARLY_INSTANCES}" not in due


@pytest.mark.parametrize(
    "request_view",
    [view("uid-lost"), foreign(namespace="other"), foreign(name=7), view("uid-lost", metadata={"name": "lost"})],
    ids=["no metadata", "another namespace", "no name", "no namespace"],
)
async def test_work_of_somebody_else_is_left_alone(world: World, request_view: RequestView) -> None:
    world.open_bridge(request_view)
    assert await world.due_keys(60) == {("Instance", "alpha")}


@pytest.mark.parametrize(
    "end",
    [
        lambda store: store.requests.observe(request_json("lost")),
        lambda store: store.bridges.orphan_settled((NAMESPACE, "lost"), ALPHA, "uid-lost"),
        lambda store: store.bridges.answer_acknowledged(ALPHA, "uid-lost"),
    ],
    ids=["its request is seen", "it was checked", "its answer is acknowledged"],
)
async def test_work_without_a_request_is_checked_until(world: World, end: Callable[[Store], object]) -> None:
    world.open_bridge(foreign())

    end(world.store)

    assert world.store.bridges.orphans((NAMESPACE, "lost")) == []
