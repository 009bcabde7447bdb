"""store/: what is taken in, what is remembered, and which keys are looked at because of it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Any

import pytest

from efrit.controller.model import names
from efrit.controller.model.keys import WorkKey
from efrit.controller.model.snapshots import Handover
from efrit.controller.store.backlog import rank
from efrit.controller.store.bridge_events import ORPHAN_GRACE
from efrit.controller.store.instances import FAILURES_TOLD
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol import DiskProblem, DiskStats, RequestState, RequestView, Reset
from tests.unit.controller.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
    answered,
    final_status,
    instance_json,
    plan_json,
    request,
    request_json,
    seconds,
    stats,
    view,
)
from tests.unit.controller.test_work_queue import running
from tests.unit.controller.virtual_time import elapse, on_virtual_time

ALPHA = (NAMESPACE, "alpha")
WORK = (NAMESPACE, "work")
UID = "uid-work"
SOON = 0.001


class World:
    """A store over a real queue; the wall clock follows the loop's."""

    def __init__(self) -> None:
        self.queue = WorkQueue()
        self.store = Store(self.queue, CONFIG, self.now, asyncio.get_running_loop().time)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=asyncio.get_running_loop().time())

    async def looks(self, within: float = SOON) -> set[tuple[str, str]]:
        """Kind and name of everything that is looked at within this time."""
        seen: set[WorkKey] = set()

        async def look(key: WorkKey) -> None:
            seen.add(key)

        task = asyncio.create_task(self.queue.run(look, 1))
        await elapse(within)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert {key.namespace for key in seen} <= {NAMESPACE, "other"}
        return {(key.kind.removeprefix("Efrit"), key.name) for key in seen}

    async def settle(self) -> None:
        await self.looks()

    def open_bridge(
        self, *views: RequestView, queue_id: str = QUEUE_ID, pod_uid: str = POD_UID, **figures: Any
    ) -> None:
        """Tell what a bridge tells at the start of its stream."""
        self.store.bridges.event(ALPHA, pod_uid, Reset(queue_id=queue_id, epoch="e"))
        for each in views:
            self.store.bridges.event(ALPHA, pod_uid, each)
        self.store.bridges.event(ALPHA, pod_uid, stats(queue_id=queue_id, **figures))


def child(
    kind: str = "pod",
    *,
    uid: str = POD_UID,
    name: str = "efrit-alpha-0",
    of: str = "alpha",
    version: str | None = None,
    owner: str | None = None,
    **status: Any,
) -> Json:
    """A child of an instance; pods belong to the StatefulSet `ss`, if not to `owner`."""
    meta: Json = {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": {"efrit.dev/instance": of}}
    by_default = "ss" if name.endswith("-0") else f"uid-{of}"
    meta["ownerReferences"] = [{"uid": owner or by_default, "controller": True}]
    if version is not None:
        meta["resourceVersion"] = version
    return {"kind": kind, "metadata": meta, "spec": {}, "status": status}


# Objects and their versions.


@on_virtual_time
async def test_a_new_instance_is_looked_at() -> None:
    world = World()

    world.store.instances.observe(instance_json())

    assert await world.looks() == {("Instance", "alpha")}
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.instance.metadata.uid == "uid-alpha"


@on_virtual_time
async def test_an_older_version_of_an_instance_is_ignored() -> None:
    world = World()
    world.store.instances.observe(instance_json(version="12", generation=2))

    world.store.instances.observe(instance_json(version="9", generation=1))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.instance.metadata.generation == 2


@on_virtual_time
async def test_a_request_is_first_seen_once_whatever_is_told_of_it_later() -> None:
    world = World()
    world.store.requests.observe(request_json(version="100"))
    await elapse(5)

    world.store.requests.observe(request_json(version="101", cancel=True))

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.seen_for == timedelta(seconds=5)


@on_virtual_time
async def test_an_older_version_of_a_request_is_ignored_so_that_the_controller_reads_its_own_writes() -> None:
    world = World()
    world.store.requests.observe(request_json(version="100"))
    world.store.requests.observe(request_json(version="102", status=final_status()))

    world.store.requests.observe(request_json(version="99"))

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.request.status.phase == "Succeeded"
    assert world.store.requests.open_uids() == {}


@on_virtual_time
async def test_versions_are_compared_as_numbers() -> None:
    world = World()
    world.store.requests.observe(request_json(version="9"))

    world.store.requests.observe(request_json(version="10", status=final_status()))

    assert world.store.requests.final_uids() == [(WORK, UID)]


@on_virtual_time
async def test_versions_that_are_no_numbers_are_all_taken_in() -> None:
    world = World()
    world.store.requests.observe(request_json(version="b"))

    world.store.requests.observe(request_json(version="a", status=final_status()))

    assert world.store.requests.final_uids() == [(WORK, UID)]


@pytest.mark.parametrize("broken", [{"spec": {"type": "dance", "content": "x"}}, {"status": {"phase": "Lost"}}])
def test_an_object_that_cannot_be_read_changes_nothing(broken: Json) -> None:
    @on_virtual_time
    async def read() -> None:
        world = World()
        world.store.requests.observe(request_json() | broken)
        world.store.instances.observe(instance_json() | {"spec": {"operatingMode": "Dreaming"}})
        assert await world.looks() == set()
        assert world.store.counts() == (0, 0)

    read()


@on_virtual_time
async def test_a_request_made_anew_under_its_name_starts_afresh() -> None:
    world = World()
    world.store.requests.observe(request_json(uid="first", version="5"))
    world.store.handovers.absent(WORK, "first", QUEUE_ID)

    world.store.requests.observe(request_json(uid="second", version="90"))

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert (snapshot.request.metadata.uid, snapshot.handover) == ("second", None)
    assert world.store.requests.open_uids() == {WORK: "second"}


@on_virtual_time
async def test_news_of_an_earlier_request_of_the_name_are_ignored() -> None:
    world = World()
    world.store.requests.observe(request_json(uid="second"))

    world.store.requests.observe(request_json(uid="first", version="19"))
    world.store.requests.left(request_json(uid="first"))
    world.store.handovers.absent(WORK, "first", QUEUE_ID)
    world.store.handovers.turned_away(WORK, "first", "no")
    world.store.handovers.handed_over(ALPHA, WORK, "first")
    world.store.requests.gone(WORK, "first")

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert (snapshot.request.metadata.uid, snapshot.gone, snapshot.handover) == ("second", False, None)
    assert not world.store.requests.must_verify(WORK)


@pytest.mark.parametrize("deletion_seen", [False, True])
@on_virtual_time
async def test_an_instance_made_anew_under_its_name_forgets_its_refusal(deletion_seen: bool) -> None:
    world = World()
    world.store.instances.observe(instance_json(uid="first"))
    world.store.children.observe_pod(child())
    world.store.instances.refused(ALPHA, "first", 1, "exceeded quota")
    world.store.instances.explained(ALPHA, "some problem")
    if deletion_seen:
        world.store.instances.gone(ALPHA, "first")
        world.store.instances.drop(ALPHA)

    world.store.instances.observe(instance_json(uid="second", version="11"))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.facts.refused, snapshot.facts.problem) == (None, None)


@on_virtual_time
async def test_what_became_of_the_children_of_a_former_instance_says_nothing_about_the_one_of_its_name() -> None:
    world = World()
    world.store.instances.observe(instance_json(uid="first"))
    world.store.instances.observe(instance_json(uid="second", version="11"))
    await world.settle()

    world.store.instances.refused(ALPHA, "first", 1, "exceeded quota")
    assert not world.store.instances.applied(ALPHA, "first", 1, "digest")
    assert not any(world.store.instances.failed(ALPHA, "first", 1, "a webhook") for _ in range(FAILURES_TOLD))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    facts = snapshot.facts
    assert (facts.refused, facts.applied_generation, facts.applied_digest) == (None, 0, None)
    assert await world.looks() == set()


@on_virtual_time
async def test_a_changed_instance_is_looked_at_with_its_requests_and_those_without_a_target() -> None:
    world = World()
    world.store.requests.observe(request_json("bound"))
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    world.store.requests.observe(request_json("elsewhere", target="beta"))
    await world.settle()

    world.store.instances.observe(instance_json())

    assert await world.looks() == {("Instance", "alpha"), ("Request", "bound"), ("Request", "free")}


@on_virtual_time
async def test_a_deleted_instance_is_looked_at_with_its_requests() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.instances.left(instance_json())

    assert await world.looks() == {("Instance", "alpha"), ("Request", "work")}
    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.target is None
    assert world.store.instances.snapshot(ALPHA) is None


@on_virtual_time
async def test_news_of_an_earlier_instance_of_the_name_are_ignored() -> None:
    world = World()
    world.store.instances.observe(instance_json(uid="second"))
    await world.settle()

    world.store.instances.observe(instance_json(uid="first", version="8"))
    world.store.instances.left(instance_json(uid="first", version="9"))

    assert await world.looks() == set()
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.instance.metadata.uid == "second"


@on_virtual_time
async def test_an_instance_that_was_never_known_is_forgotten_in_silence() -> None:
    world = World()

    world.store.instances.left(instance_json())

    assert await world.looks() == set()


# Leaving the watched selection.


@on_virtual_time
async def test_an_open_request_that_left_the_selection_must_be_verified() -> None:
    world = World()
    world.store.requests.observe(request_json())

    world.store.requests.left(request_json())

    assert world.store.requests.must_verify(WORK)
    assert ("Request", "work") in await world.looks()


@on_virtual_time
async def test_a_request_that_left_by_mistake_is_open_again_once_verified() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.store.requests.left(request_json())

    world.store.requests.verification_begins(WORK, UID)
    world.store.requests.found(WORK, UID, request_json())

    assert not world.store.requests.must_verify(WORK)
    assert not world.store.requests.finished_with(WORK)


@pytest.mark.parametrize("kind", ["EfritRequest", "EfritPlan"])
@on_virtual_time
async def test_an_object_that_leaves_the_selection_while_it_is_asked_about_is_asked_about_again(kind: str) -> None:
    world = World()
    objects, obj = world.store.of(kind), (request_json if kind == "EfritRequest" else plan_json)("same")
    key, uid = (NAMESPACE, "same"), "uid-same"
    objects.observe(obj)
    objects.left(obj)
    objects.verification_begins(key, uid)
    await world.settle()

    objects.left(obj)
    objects.found(key, uid, obj)

    assert objects.must_verify(key) == uid
    assert (kind.removeprefix("Efrit"), "same") in await world.looks()


@on_virtual_time
async def test_a_final_request_that_left_needs_no_verification_and_is_finished_with() -> None:
    world = World()
    world.store.requests.observe(request_json(status=final_status()))
    assert not world.store.requests.finished_with(WORK)

    world.store.requests.left(request_json())

    assert not world.store.requests.must_verify(WORK)
    assert world.store.requests.finished_with(WORK)


@on_virtual_time
async def test_a_final_request_with_a_time_to_live_is_not_kept_either() -> None:
    world = World()
    world.store.requests.observe(request_json(status=final_status(), ttlSecondsAfterFinished=60))

    world.store.requests.left(request_json())

    assert world.store.requests.finished_with(WORK)


@on_virtual_time
async def test_a_final_request_is_kept_until_its_answer_is_acknowledged() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(answered())
    world.store.requests.observe(request_json(version="21", status=final_status()))
    world.store.requests.left(request_json())
    assert not world.store.requests.finished_with(WORK)

    world.store.bridges.acknowledged(ALPHA, UID)

    assert world.store.requests.finished_with(WORK)


@on_virtual_time
async def test_a_request_that_is_gone_is_looked_at_so_that_its_work_is_stopped() -> None:
    world = World()
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.requests.gone(WORK, UID)

    assert await world.looks() == {("Request", "work")}
    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.gone
    assert world.store.requests.open_uids() == {}


@on_virtual_time
async def test_a_request_that_is_gone_is_finished_with_once_its_queue_is_rid_of_it() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    world.store.requests.gone(WORK, UID)
    assert not world.store.requests.finished_with(WORK)

    world.store.bridges.acknowledged(ALPHA, UID)

    assert world.store.requests.finished_with(WORK)


@on_virtual_time
async def test_a_dropped_request_leaves_nothing_behind() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())

    world.store.requests.drop(WORK)
    world.store.requests.drop(WORK)

    assert world.store.requests.snapshot(WORK) is None
    assert world.store.requests.finished_with(WORK)
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.open_requests == 0


# Load, activity, targets.


@on_virtual_time
async def test_only_open_requests_count_as_load() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    for number in range(3):
        world.store.requests.observe(request_json(f"open-{number}"))
    world.store.requests.observe(request_json("done", status=final_status()))

    snapshot = world.store.instances.snapshot(ALPHA)

    assert snapshot is not None
    assert (snapshot.open_requests, snapshot.load) == (3, 3)
    assert world.store.counts() == (1, 3)


@pytest.mark.parametrize(("queue", "unfinished"), [({"ephemeral": True}, 1), ({"storage": {}}, 0)])
@on_virtual_time
async def test_a_request_recorded_on_an_ephemeral_queue_is_unfinished_until_it_is_final(
    queue: Json, unfinished: int
) -> None:
    world = World()
    world.store.instances.observe(instance_json("alpha", spec={"queue": queue}))
    recorded = {"phase": "Queued", "queueID": QUEUE_ID, "instanceName": "alpha"}
    counts = []
    for version, status in (("1", {}), ("2", recorded), ("3", final_status())):
        made = request_json(status=status)
        made["metadata"]["resourceVersion"] = version
        world.store.requests.observe(made)
        found = world.store.instances.snapshot(ALPHA)
        assert found is not None
        counts.append(found.unfinished)
    assert counts == [0, unfinished, 0]


@on_virtual_time
async def test_the_last_activity_is_the_latest_creation_or_end_of_a_request() -> None:
    world = World()
    world.store.instances.observe(instance_json())

    world.store.requests.observe(request_json("one", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("two", created=NOW - seconds(90), status=final_status(ended=NOW)))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.facts.last_activity == NOW


@on_virtual_time
async def test_the_end_of_the_last_request_looks_at_an_instance_that_may_fall_asleep() -> None:
    world = World()
    world.store.instances.observe(instance_json(spec={"idle": {"suspendAfterSeconds": 60}}))
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.requests.observe(request_json(version="21", status=final_status()))

    assert ("Instance", "alpha") in await world.looks(within=2)


@on_virtual_time
async def test_a_request_by_selector_sees_the_instances_of_its_namespace_with_all_the_labels() -> None:
    world = World()
    both = {"a": "1", "b": "2"}
    world.store.instances.observe(instance_json("match", labels={**both, "c": "3"}))
    world.store.instances.observe(instance_json("half", labels={"a": "1"}))
    world.store.instances.observe(instance_json("abroad", labels=both, namespace="other"))
    world.store.requests.observe(request_json(target=None, selector={"matchLabels": both}))

    snapshot = world.store.requests.snapshot(WORK)

    assert snapshot is not None
    assert [each.instance.metadata.name for each in snapshot.candidates] == ["match"]


@on_virtual_time
async def test_a_request_by_pool_sees_the_members_of_the_pool() -> None:
    world = World()
    world.store.instances.observe(instance_json("member", labels={names.POOL_LABEL: "big"}))
    world.store.instances.observe(instance_json("stranger", labels={names.POOL_LABEL: "small"}))
    world.store.requests.observe(request_json(target=None, poolRef={"name": "big"}))

    snapshot = world.store.requests.snapshot(WORK)

    assert snapshot is not None
    assert [each.instance.metadata.name for each in snapshot.candidates] == ["member"]


@on_virtual_time
async def test_a_request_that_names_nothing_has_no_candidates() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json(target=None))

    snapshot = world.store.requests.snapshot(WORK)

    assert snapshot is not None
    assert snapshot.candidates == ()


@on_virtual_time
async def test_a_bound_request_belongs_to_the_instance_in_its_status() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    selector = {"matchLabels": {"a": "b"}}

    world.store.requests.observe(request_json(target=None, selector=selector, status={"instanceName": "alpha"}))

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.target is not None
    assert snapshot.target.open_requests == 1


@on_virtual_time
async def test_a_request_without_room_for_its_status_is_remembered_as_such() -> None:
    def status_too_large() -> bool:
        snapshot = world.store.requests.snapshot(WORK)
        assert snapshot is not None
        return snapshot.reduced_status

    world = World()
    world.store.requests.observe(request_json())
    world.store.requests.status_too_large(WORK, "of an earlier request")
    assert not status_too_large()
    world.store.requests.status_too_large(WORK, UID)
    assert status_too_large()


# Which requests news of an instance concerns.

FIGURES: Json = {"queue": {"pending": 3, "processed": 7}, "lastActivityTime": "2026-03-01T12:00:00Z"}
READY: Json = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-03-01T12:00:00Z",
}
BOTH_REQUESTS = {("Request", "work"), ("Request", "unbound")}


async def _told(*versions: Json) -> set[tuple[str, str]]:
    """What is looked at because of the last of these versions of an instance."""
    world = World()
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json("unbound", target=None, selector={"matchLabels": {"a": "b"}}))
    for number, version in enumerate(versions):
        await world.settle()
        # A look at a request takes back what it was assumed to be bound to, which must not lose it.
        world.store.requests.assume((NAMESPACE, "unbound"), None)
        world.store.instances.observe(instance_json(version=str(10 + number), **version))
    return await world.looks()


@pytest.mark.parametrize(
    "after",
    [
        {"generation": 2},
        {"uid": "made-anew"},
        {"labels": {"a": "b"}},
        {"deleting": True},
        {"status": {"suspendedIdle": True}},
        {"status": {"conditions": [READY]}},
    ],
    ids=lambda after: next(iter(after)),
)
@on_virtual_time
async def test_a_change_that_requests_may_wait_for_is_looked_at_by_all_of_them(after: Json) -> None:
    assert await _told({}, after) == {("Instance", "alpha")} | BOTH_REQUESTS


@on_virtual_time
async def test_an_instance_that_appears_is_looked_at_by_all_that_may_wait_for_it() -> None:
    assert await _told({}) == {("Instance", "alpha")} | BOTH_REQUESTS


@on_virtual_time
async def test_new_figures_of_an_instance_concern_no_request() -> None:
    before = {"status": {"conditions": [READY]}}
    queue: Json = {**READY, "type": "QueueHealthy", "reason": "Working"}
    after = {"status": {"conditions": [{**READY, "message": "moved"}, queue], **FIGURES}}

    assert await _told(before, after) == {("Instance", "alpha")}


@on_virtual_time
async def test_an_unbound_request_is_no_more_looked_at_for_others_once_it_is_bound_final_or_gone() -> None:
    world = World()
    selector: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}}
    for name in ("bound", "final", "gone"):
        world.store.requests.observe(request_json(name, target=None, **selector))
    world.store.requests.observe(
        request_json("bound", target=None, version="21", status={"instanceName": "x"}, **selector)
    )
    world.store.requests.observe(request_json("final", target=None, version="21", status=final_status(), **selector))
    world.store.requests.gone((NAMESPACE, "gone"), "uid-gone")
    await world.settle()

    world.store.instances.observe(instance_json())

    assert await world.looks() == {("Instance", "alpha")}


@on_virtual_time
async def test_figures_alone_are_a_reason_to_look_twice_a_second_at_most() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()
    looks = 0

    async def look(key: WorkKey) -> None:
        nonlocal looks
        looks += 1

    async with running(world.queue, look):
        for number in range(1000):
            world.store.bridges.event(ALPHA, POD_UID, stats(processed=number))
            await elapse(0.01)
        assert 15 <= looks <= 21
        await elapse(1)

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.bridge.stats is not None
    assert snapshot.bridge.stats.processed == 999


@on_virtual_time
async def test_a_view_that_is_told_again_is_no_reason_to_look() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, view())

    assert await world.looks() == set()


@on_virtual_time
async def test_a_bridge_that_does_not_answer_stays_one_when_its_stream_begins_anew() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.answering(ALPHA, "no answer.")
    assert ("Instance", "alpha") in await world.looks()
    world.open_bridge()

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.bridge.unresponsive == "no answer."
    world.store.bridges.closed(ALPHA)
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.bridge.unresponsive is None


@on_virtual_time
async def test_every_open_request_is_looked_at_again_within_a_sweep() -> None:
    world = World()
    for number in range(20):
        world.store.requests.observe(request_json(f"r{number}"))
    world.store.requests.observe(request_json("done", status=final_status()))
    await world.settle()

    world.store.requests.requeue_open(60)

    early = await world.looks(30)
    late = await world.looks(30)
    assert early
    assert late
    assert early | late == {("Request", f"r{number}") for number in range(20)}


@on_virtual_time
async def test_the_children_of_all_instances_are_applied_again_spread_over_the_period() -> None:
    world = World()
    for number in range(20):
        world.store.instances.observe(instance_json(f"i{number}"))
    await world.settle()

    world.store.instances.resync_all(600)

    early, late = await world.looks(300), await world.looks(300)
    assert early
    assert late
    assert early | late == {("Resync", f"i{number}") for number in range(20)}


# Order and back-pressure.


def test_older_requests_go_first() -> None:
    assert rank(request("b", created=NOW - seconds(1))) < rank(request("a"))


def test_a_point_of_priority_is_worth_a_minute_of_waiting() -> None:
    assert rank(request("a", priority=1)) < rank(request("b", created=NOW - seconds(59)))
    assert rank(request("a", priority=1)) > rank(request("b", created=NOW - seconds(61)))


def test_equal_requests_go_by_name() -> None:
    assert rank(request("a")) < rank(request("b"))


def full(world: World, *, room: int) -> None:
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    world.open_bridge(pending=10 - room)


def ahead(world: World, name: str) -> int:
    snapshot = world.store.requests.snapshot((NAMESPACE, name))
    assert snapshot is not None
    return snapshot.ahead


@on_virtual_time
async def test_all_that_waits_is_looked_at_when_the_queue_volume_fills_up_and_when_it_has_room_again() -> None:
    world = World()
    full(world, room=10)
    for name in ("a", "b"):
        world.store.requests.observe(request_json(name, uid=f"uid-{name}"))
    await world.settle()
    for disk in (DiskStats(problem=DiskProblem.FULL), DiskStats()):
        world.store.bridges.event(ALPHA, POD_UID, stats(disk=disk, pending=10))
        assert {("Request", "a"), ("Request", "b")} <= await world.looks()


@on_virtual_time
async def test_requests_that_wait_longer_are_ahead_and_priority_jumps_the_line() -> None:
    world = World()
    full(world, room=0)
    for name, age, priority in [("old", 90, 0), ("new", 10, 0), ("urgent", 0, 2)]:
        world.store.requests.observe(request_json(name, created=NOW - seconds(age), priority=priority))

    assert {name: ahead(world, name) for name in ("urgent", "old", "new")} == {"urgent": 0, "old": 1, "new": 2}


@on_virtual_time
async def test_requests_the_bridge_has_are_not_ahead() -> None:
    world = World()
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    world.store.requests.observe(request_json("there", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("here"))
    world.open_bridge(view("uid-there"), pending=10)

    assert ahead(world, "here") == 0


@on_virtual_time
async def test_nobody_is_ahead_while_there_is_room_for_all() -> None:
    world = World()
    full(world, room=10)
    world.store.requests.observe(request_json("old", created=NOW - seconds(60)))
    world.store.requests.observe(request_json("new"))

    assert ahead(world, "new") == 0


@on_virtual_time
async def test_room_on_the_queue_looks_at_those_who_are_next() -> None:
    world = World()
    world.store.instances.observe(instance_json(spec={"queue": {"ephemeral": True, "maxPending": 10}}))
    queued = [f"queued-{number}" for number in range(8)]
    for name in queued:
        world.store.requests.observe(request_json(name))
    for number in range(5):
        world.store.requests.observe(request_json(f"work-{number}", created=NOW - seconds(60 - number)))
    world.open_bridge(*(view(f"uid-{name}") for name in queued), pending=10)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=8))

    assert await world.looks() == {("Instance", "alpha"), ("Request", "work-0"), ("Request", "work-1")}


@on_virtual_time
async def test_figures_look_at_no_request_where_none_is_held_back() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view(), pending=1)
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=1, processed=7))

    assert await world.looks() == {("Instance", "alpha")}


# The bridge's stream.


def bridge_of(world: World) -> Any:
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    return snapshot.bridge


@on_virtual_time
async def test_a_bridge_counts_as_connected_only_when_its_whole_picture_is_there() -> None:
    world = World()
    world.store.instances.observe(instance_json())

    world.store.bridges.event(ALPHA, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
    assert not bridge_of(world).connected
    world.store.bridges.event(ALPHA, POD_UID, stats())

    assert bridge_of(world).connected
    assert (bridge_of(world).queue_id, bridge_of(world).pod_uid) == (QUEUE_ID, POD_UID)


@on_virtual_time
async def test_a_connected_bridge_looks_at_everything_that_waits_for_it() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    await world.settle()

    world.open_bridge()

    assert await world.looks() == {("Instance", "alpha"), ("Request", "work"), ("Request", "free")}


@on_virtual_time
async def test_a_reset_forgets_what_the_bridge_told_before() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(view())

    world.open_bridge()

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.bridge_view is None


@on_virtual_time
async def test_what_a_resumed_stream_does_not_repeat_is_still_known() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    world.store.bridges.lost(ALPHA, POD_UID, "reset by peer")
    assert not bridge_of(world).connected

    world.store.bridges.event(ALPHA, POD_UID, stats(pending=1))

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert bridge_of(world).connected
    assert bridge_of(world).problem is None
    assert snapshot.bridge_view == view()


@on_virtual_time
async def test_a_view_looks_at_its_request() -> None:
    world = World()
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.bridges.event(ALPHA, POD_UID, view(state=RequestState.RUNNING))

    assert await world.looks() == {("Request", "work")}


@on_virtual_time
async def test_an_answer_is_not_replaced_by_one_without_its_text() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(answered(result="2"))

    world.store.bridges.view(ALPHA, view(state=RequestState.ANSWERED, response_bytes=70_000))

    assert known_view(world) == answered(result="2")


@pytest.mark.parametrize(
    ("known", "late"),
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
def test_the_late_reply_to_a_submission_does_not_undo_what_the_stream_told(
    known: RequestView, late: RequestView
) -> None:
    @on_virtual_time
    async def reply() -> None:
        world = World()
        world.store.requests.observe(request_json())
        world.open_bridge(known)
        world.store.bridges.view(ALPHA, late)
        assert known_view(world) == known

    reply()


@on_virtual_time
async def test_work_that_goes_back_to_the_queue_for_another_attempt_is_queued() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(view(state=RequestState.RUNNING, attempt=1))

    world.store.bridges.event(ALPHA, POD_UID, view(attempt=1))

    assert known_view(world) == view(attempt=1)


def known_view(world: World) -> RequestView | None:
    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    return snapshot.bridge_view


@on_virtual_time
async def test_a_lost_bridge_is_told_once_and_with_its_problem() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.lost(ALPHA, POD_UID, "refused")
    assert await world.looks() == {("Instance", "alpha")}
    world.store.bridges.lost(ALPHA, POD_UID, "refused")

    assert await world.looks() == set()
    assert (bridge_of(world).connected, bridge_of(world).problem) == (False, "refused")


@on_virtual_time
async def test_the_loss_of_an_earlier_pods_bridge_does_not_touch_that_of_the_present_one() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(uid="new"))
    world.open_bridge(pod_uid="new")

    world.store.bridges.lost(ALPHA, "old", "refused")

    assert bridge_of(world).connected


@on_virtual_time
async def test_the_bridge_of_a_new_pod_that_cannot_be_reached_is_told() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.open_bridge(pod_uid="old")
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child(uid="new"))

    world.store.bridges.lost(ALPHA, "new", "certificate verify failed")

    assert (bridge_of(world).pod_uid, bridge_of(world).problem) == ("new", "certificate verify failed")


@on_virtual_time
async def test_a_connection_closed_on_purpose_is_no_problem() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.open_bridge()
    await world.settle()

    world.store.bridges.closed(ALPHA)
    world.store.bridges.closed(ALPHA)
    world.store.bridges.closed((NAMESPACE, "unknown"))

    assert await world.looks() == {("Instance", "alpha")}
    assert (bridge_of(world).connected, bridge_of(world).problem, bridge_of(world).pod_uid) == (False, None, None)


# Which queue has a request.


def handover(world: World) -> Handover | None:
    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    return snapshot.handover


@on_virtual_time
async def test_the_queue_a_request_was_handed_to_is_remembered() -> None:
    world = World()
    world.open_bridge()
    world.store.requests.observe(request_json())

    world.store.handovers.handed_over(ALPHA, WORK, UID)

    assert handover(world) == Handover(QUEUE_ID)


@on_virtual_time
async def test_a_queue_that_tells_of_a_request_has_it() -> None:
    world = World()
    world.store.requests.observe(request_json())

    world.open_bridge(view())

    assert handover(world) == Handover(QUEUE_ID)


@on_virtual_time
async def test_a_queue_that_told_of_a_request_before_it_was_known_has_it() -> None:
    world = World()
    world.open_bridge(view())

    world.store.requests.observe(request_json())

    assert handover(world) == Handover(QUEUE_ID)


@on_virtual_time
async def test_a_replaced_volume_does_not_make_forget_which_queue_had_the_request() -> None:
    world = World()
    world.store.requests.observe(request_json())
    world.open_bridge(view())

    world.open_bridge(queue_id="queue-2")

    assert handover(world) == Handover(QUEUE_ID)


@on_virtual_time
async def test_a_queue_that_does_not_know_a_request_looks_at_it() -> None:
    world = World()
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.handovers.absent(WORK, UID, QUEUE_ID)

    assert handover(world) == Handover(QUEUE_ID, absent=True)
    assert await world.looks() == {("Request", "work")}


@on_virtual_time
async def test_a_request_a_bridge_will_never_take_is_looked_at_with_the_bridges_words() -> None:
    world = World()
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.handovers.turned_away(WORK, UID, "too large")

    assert handover(world) == Handover("", absent=True, refused="too large")
    assert await world.looks() == {("Request", "work")}


# Work whose request is not known.


def foreign(name: object = "lost", namespace: str = NAMESPACE, uid: str = "uid-lost") -> RequestView:
    return view(uid, metadata={"name": name, "namespace": namespace})


@on_virtual_time
async def test_work_without_a_request_is_looked_into_after_a_while() -> None:
    world = World()

    world.open_bridge(foreign())

    assert ("Request", "lost") not in await world.looks(ORPHAN_GRACE.total_seconds() - 1)
    assert ("Request", "lost") in await world.looks(2)
    assert world.store.bridges.orphans((NAMESPACE, "lost")) == [(ALPHA, "uid-lost")]


@on_virtual_time
async def test_work_is_claimed_by_its_request_when_it_is_seen() -> None:
    world = World()
    world.open_bridge(foreign())

    world.store.requests.observe(request_json("lost"))

    assert world.store.bridges.orphans((NAMESPACE, "lost")) == []


@pytest.mark.parametrize(
    "told",
    [view("uid-lost"), foreign(namespace="other"), foreign(name=7), view("uid-lost", metadata={"name": "lost"})],
    ids=["no metadata", "another namespace", "no name", "no namespace"],
)
def test_work_of_somebody_else_is_left_alone(told: RequestView) -> None:
    @on_virtual_time
    async def tell() -> None:
        world = World()
        world.open_bridge(told)
        assert await world.looks(60) == {("Instance", "alpha")}

    tell()


@on_virtual_time
async def test_work_that_was_looked_into_is_forgotten() -> None:
    world = World()
    world.open_bridge(foreign())

    world.store.bridges.orphan_settled((NAMESPACE, "lost"), ALPHA, "uid-lost")

    assert world.store.bridges.orphans((NAMESPACE, "lost")) == []


@on_virtual_time
async def test_work_whose_answer_is_acknowledged_is_not_looked_into_any_more() -> None:
    world = World()
    world.open_bridge(foreign())

    world.store.bridges.acknowledged(ALPHA, "uid-lost")

    assert world.store.bridges.orphans((NAMESPACE, "lost")) == []


# Children.


@on_virtual_time
async def test_a_pod_a_statefulset_and_a_claim_each_look_at_their_instance() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    await world.settle()

    for observe, obj in (
        (world.store.children.observe_pod, child(phase="Running", podIP="10.0.0.1")),
        (world.store.children.observe_statefulset, child("StatefulSet", name="efrit-alpha", uid="ss")),
        (world.store.children.observe_claim, child("PersistentVolumeClaim", name="efrit-alpha-queue", phase="Bound")),
    ):
        observe(obj)
        assert await world.looks() == {("Instance", "alpha")}

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is not None
    assert snapshot.pod.ip == "10.0.0.1"
    assert snapshot.statefulset is not None
    assert [each.phase for each in snapshot.claims] == ["Bound"]


@on_virtual_time
async def test_children_that_are_gone_are_forgotten() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    pod, claim = child(), child(name="efrit-alpha-queue", phase="Bound")
    world.store.children.observe_pod(pod)
    world.store.children.observe_statefulset(child(name="efrit-alpha"))
    world.store.children.observe_claim(claim)

    world.store.children.forget_pod(pod)
    world.store.children.forget_statefulset(child(name="efrit-alpha"))
    world.store.children.forget_claim(claim)

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.pod, snapshot.statefulset, snapshot.claims) == (None, None, ())


@on_virtual_time
async def test_the_end_of_an_earlier_pod_does_not_forget_the_present_one() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child(uid="new"))

    world.store.children.forget_pod(child(uid="old"))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is not None


def _pod_of(world: World) -> str | None:
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    return snapshot.pod.uid if snapshot.pod else None


@on_virtual_time
async def test_only_the_pod_that_the_statefulset_of_the_instance_owns_is_believed() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))

    world.store.children.observe_pod(child(uid="stranger", owner="another set"))
    assert _pod_of(world) is None
    world.store.children.observe_pod(child(uid="ours"))
    assert _pod_of(world) == "ours"
    world.store.children.observe_pod(child(uid="another name", name="impostor-0"))
    world.store.children.forget_pod(child(uid="ours", name="impostor-0"))
    assert _pod_of(world) == "ours"


@on_virtual_time
async def test_a_statefulset_that_the_instance_does_not_own_is_not_its_statefulset() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss", owner="a tenant's"))
    world.store.children.observe_pod(child(uid="stranger"))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.statefulset, snapshot.pod) == (None, None)
    world.store.children.observe_statefulset(child(name="efrit-impostor", uid="ss"))
    assert _pod_of(world) is None


@on_virtual_time
async def test_a_pod_that_stops_is_believed_after_its_statefulset_is_gone() -> None:
    world = World()
    world.store.children.observe_pod(child(uid="ours"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.instances.observe(instance_json())

    world.store.children.forget_statefulset(child(name="efrit-alpha", uid="ss"))
    assert _pod_of(world) == "ours"
    for number in range(10):
        world.store.children.observe_statefulset(child(name="efrit-alpha", uid=f"ss{number}"))
    assert _pod_of(world) is None


@on_virtual_time
async def test_late_news_of_a_child_change_nothing() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    claim = "efrit-alpha-queue"
    world.store.children.observe_pod(child(uid="new", version="12", owner="new", podIP="10.0.0.2"))
    world.store.children.observe_statefulset(child(uid="new", name="efrit-alpha", version="12"))
    world.store.children.observe_claim(child(uid="new", name=claim, version="12", phase="Bound"))
    await world.settle()

    # Each object has a stream of events of its own: those of the earlier ones may come later.
    world.store.children.observe_pod(child(uid="old", version="9", podIP="10.0.0.1"))
    world.store.children.forget_pod(child(uid="old", version="10"))
    world.store.children.observe_pod(child(uid="new", version="11"))
    for take_in in (world.store.children.observe_statefulset, world.store.children.forget_statefulset):
        take_in(child(uid="old", name="efrit-alpha", version="9"))
    for take_in in (world.store.children.observe_claim, world.store.children.forget_claim):
        take_in(child(uid="old", name=claim, version="9", phase="Pending"))

    assert await world.looks() == set()
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is not None
    assert (snapshot.pod.uid, snapshot.pod.ip) == ("new", "10.0.0.2")
    assert snapshot.statefulset is not None
    assert snapshot.statefulset.uid == "new"
    assert [(each.uid, each.phase) for each in snapshot.claims] == [("new", "Bound")]


@on_virtual_time
async def test_a_child_that_is_gone_does_not_come_back_by_late_news() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(version="11"))
    world.store.children.forget_pod(child(version="13"))

    world.store.children.observe_pod(child(version="12"))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is None


@on_virtual_time
async def test_children_of_nobody_are_ignored() -> None:
    world = World()
    stray = {"metadata": {"name": "x", "namespace": NAMESPACE, "uid": "u"}}

    for take_in in (
        world.store.children.observe_pod,
        world.store.children.forget_pod,
        world.store.children.observe_statefulset,
        world.store.children.forget_statefulset,
        world.store.children.observe_claim,
        world.store.children.forget_claim,
    ):
        take_in(stray)

    assert await world.looks() == set()


@on_virtual_time
async def test_a_claim_that_only_repeats_itself_looks_at_nothing() -> None:
    world = World()
    claim = child(name="efrit-alpha-queue", phase="Bound")
    world.store.children.observe_claim(claim)
    await world.settle()

    world.store.children.observe_claim(claim)

    assert await world.looks() == set()


@on_virtual_time
async def test_a_stopping_pod_looks_at_the_requests_that_wait_for_it() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    await world.settle()
    stopping: Any = child()
    stopping["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    world.store.children.observe_pod(stopping)

    assert await world.looks() == {("Instance", "alpha"), ("Request", "work")}


@on_virtual_time
async def test_the_explanation_of_an_earlier_pod_is_not_that_of_the_next() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(uid="old"))
    world.store.instances.explained(ALPHA, "no such image")

    world.store.children.observe_pod(child(uid="new"))

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.facts.problem is None


@on_virtual_time
async def test_children_a_list_did_not_have_are_forgotten() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(uid="ghost"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="set"))
    await world.settle()

    world.store.children.forget({"ghost"})

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.pod is None
    assert snapshot.statefulset is not None
    assert await world.looks() == {("Instance", "alpha")}
    world.store.children.forget({"set"})
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.statefulset is None


@on_virtual_time
async def test_the_children_that_are_known_can_be_told_apart_from_later_ones() -> None:
    world = World()
    world.store.children.observe_pod(child(uid="pod"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="set"))

    assert world.store.children.uids() == {"pod", "set"}


# Applying children and writing the status.


@on_virtual_time
async def test_a_refusal_is_kept_with_its_time_until_an_apply_succeeds() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    await elapse(5)
    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")
    assert ("Instance", "alpha") in await world.looks()
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.facts.refused, snapshot.facts.refused_generation, snapshot.facts.refused_time) == (
        "exceeded quota",
        1,
        NOW + seconds(5),
    )

    world.store.instances.applied(ALPHA, "uid-alpha", 1)

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.facts.refused, snapshot.facts.applied_generation) == (None, 1)
    assert await world.looks() == {("Instance", "alpha")}


@on_virtual_time
async def test_what_was_accepted_before_a_refusal_or_of_an_earlier_instance_says_nothing() -> None:
    def accepted() -> int:
        snapshot = world.store.instances.snapshot(ALPHA)
        assert snapshot is not None
        return snapshot.facts.applied_generation

    world = World()
    world.store.instances.observe(instance_json())
    world.store.instances.applied(ALPHA, "uid-alpha", 1)
    world.store.instances.refused(ALPHA, "uid-alpha", 2, "no")
    assert accepted() == 0
    world.store.instances.applied(ALPHA, "uid-alpha", 3)
    assert accepted() == 3
    world.store.instances.observe(instance_json(uid="another"))
    assert accepted() == 0


@on_virtual_time
async def test_a_refusal_that_repeats_itself_is_looked_at_so_that_it_is_tried_again() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")
    await world.settle()

    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")

    assert await world.looks() == {("Instance", "alpha")}


@on_virtual_time
async def test_failures_in_a_row_are_taken_for_a_refusal_and_a_success_between_starts_the_count_anew() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    almost = [world.store.instances.failed(ALPHA, "uid-alpha", 1, "a webhook") for _ in range(FAILURES_TOLD - 1)]
    world.store.instances.applied(ALPHA, "uid-alpha", 1)
    again = [world.store.instances.failed(ALPHA, "uid-alpha", 1, "a webhook") for _ in range(FAILURES_TOLD)]

    assert almost + again == [False] * (2 * FAILURES_TOLD - 2) + [True]
    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert (snapshot.facts.refused, snapshot.facts.applied_generation) == ("a webhook", 0)


@pytest.mark.parametrize("end", ["applied", "refused"])
def test_a_resync_lasts_until_the_children_were_applied_or_refused(end: str) -> None:
    @on_virtual_time
    async def resync() -> None:
        world = World()
        world.store.instances.observe(instance_json())
        world.store.instances.resync(ALPHA)
        assert resyncing(world)
        if end == "applied":
            world.store.instances.applied(ALPHA, "uid-alpha", 1)
        else:
            world.store.instances.refused(ALPHA, "uid-alpha", 1, "no")
        assert not resyncing(world)

    def resyncing(world: World) -> bool:
        snapshot = world.store.instances.snapshot(ALPHA)
        assert snapshot is not None
        return snapshot.facts.resync

    resync()


@on_virtual_time
async def test_the_time_of_the_last_status_write_is_remembered() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    await elapse(7)

    world.store.instances.status_written(ALPHA)

    snapshot = world.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.facts.stats_written == NOW + seconds(7)


@on_virtual_time
async def test_an_explanation_that_only_repeats_itself_looks_at_nothing() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.instances.explained(ALPHA, "no such image")
    await world.settle()

    world.store.instances.explained(ALPHA, "no such image")

    assert await world.looks() == set()


@on_virtual_time
async def test_asking_about_an_unknown_request_makes_nothing_up() -> None:
    world = World()

    assert world.store.requests.snapshot(WORK) is None
    assert not world.store.requests.must_verify(WORK)
    world.store.requests.found(WORK, UID, None)
    assert world.store.bridges.orphans(WORK) == []
    assert world.store.instances.keys() == []


@on_virtual_time
async def test_the_keys_of_instances_include_those_of_which_only_children_are_left() -> None:
    world = World()
    world.store.children.observe_pod(child())

    assert world.store.instances.keys() == [ALPHA]
    assert world.store.counts() == (0, 0)


# Bindings that are being written.


def load_of(world: World, key: tuple[str, str]) -> int:
    snapshot = world.store.instances.snapshot(key)
    assert snapshot is not None
    return snapshot.load


@on_virtual_time
async def test_a_binding_that_is_being_written_counts_as_load() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))

    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    assert load_of(world, ALPHA) == 1


@on_virtual_time
async def test_a_binding_that_was_not_written_is_taken_back() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    world.store.requests.assume((NAMESPACE, "free"), None)

    assert load_of(world, ALPHA) == 0


@on_virtual_time
async def test_a_binding_that_was_written_counts_once() -> None:
    world = World()
    world.store.instances.observe(instance_json())
    free = request_json("free", target=None, selector={"matchLabels": {"a": "b"}})
    world.store.requests.observe(free)
    world.store.requests.assume((NAMESPACE, "free"), ALPHA)

    world.store.requests.observe({**free, "status": {"instanceName": "alpha"}})
    world.store.requests.assume((NAMESPACE, "free"), None)

    assert load_of(world, ALPHA) == 1


# How far requests have come, and sessions.


@on_virtual_time
async def test_when_a_status_last_told_progress_is_remembered() -> None:
    world = World()

    def told() -> datetime | None:
        snapshot = world.store.requests.snapshot(WORK)
        assert snapshot is not None
        return snapshot.progress_written

    world.store.requests.observe(request_json(status={"phase": "Running"}))
    assert told() is None
    world.store.requests.observe(request_json(version="21", status={"phase": "Running", "progress": {"step": 1}}))
    first = told()
    assert first == world.now()
    await elapse(5)
    world.store.requests.observe(request_json(version="22", status={"phase": "Running", "progress": {"step": 1}}))
    assert told() == first, "nothing new was told"
    world.store.requests.progress_dropped(WORK, "another")
    assert told() == first
    world.store.requests.progress_dropped(WORK, UID)
    assert told() == world.now()


@on_virtual_time
async def test_the_instance_of_a_session_is_remembered_and_its_request_looked_at() -> None:
    world = World()

    world.store.requests.observe(request_json(target=None, selector={"matchLabels": {"a": "b"}}))
    await world.settle()

    world.store.requests.session_found(WORK, "another", "beta")
    assert await world.looks() == set()
    world.store.requests.session_found(WORK, UID, "alpha")

    snapshot = world.store.requests.snapshot(WORK)
    assert snapshot is not None
    assert snapshot.session_home == "alpha"
    assert await world.looks() == {("Request", "work")}
