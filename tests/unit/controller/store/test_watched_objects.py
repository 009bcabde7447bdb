"""store/: instances and requests as they come, change and leave."""

from __future__ import annotations

from datetime import timedelta

import pytest

from efrit.controller.store.instances import MAX_REPORTED_FAILURES
from tests.support.factory import (
    NAMESPACE,
    QUEUE_ID,
    Json,
    answered,
    final_status,
    instance_json,
    plan_json,
    request_json,
    view,
)
from tests.unit.controller.store.world import ALPHA, UID, WORK, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


async def test_a_new_instance_is_reconciled(world: World) -> None:
    world.store.instances.observe(instance_json())

    assert await world.due_keys() == {("Instance", "alpha")}
    assert world.instance().instance.metadata.uid == "uid-alpha"


async def test_an_older_version_of_an_instance_is_ignored(world: World) -> None:
    world.store.instances.observe(instance_json(version="12", generation=2))

    world.store.instances.observe(instance_json(version="9", generation=1))

    assert world.instance().instance.metadata.generation == 2


async def test_a_request_is_first_seen_once_whatever_is_said_of_it_later(world: World) -> None:
    world.store.requests.observe(request_json(version="100"))
    await elapse(5)

    world.store.requests.observe(request_json(version="101", cancel=True))

    assert world.request().seen_for == timedelta(seconds=5)


async def test_an_older_version_of_a_request_is_ignored_so_that_the_controller_reads_its_own_writes(
    world: World,
) -> None:
    world.store.requests.observe(request_json(version="100"))
    world.store.requests.observe(request_json(version="102", status=final_status()))

    world.store.requests.observe(request_json(version="99"))

    assert world.request().request.status.phase == "Succeeded"
    assert world.store.requests.open_uids() == {}


@pytest.mark.parametrize(("first", "second"), [("9", "10"), ("b", "a")], ids=["as numbers", "not at all if none"])
async def test_versions_are_compared(world: World, first: str, second: str) -> None:
    world.store.requests.observe(request_json(version=first))

    world.store.requests.observe(request_json(version=second, status=final_status()))

    assert world.store.requests.final_uids() == [(WORK, UID)]


@pytest.mark.parametrize("broken", [{"spec": {"type": "dance", "content": "x"}}, {"status": {"phase": "Lost"}}])
async def test_an_object_that_cannot_be_read_changes_nothing(world: World, broken: Json) -> None:
    world.store.requests.observe(request_json() | broken)
    world.store.instances.observe(instance_json() | {"spec": {"operatingMode": "Dreaming"}})
    assert await world.due_keys() == set()
    assert world.store.counts() == (0, 0)


async def test_a_request_made_anew_under_its_name_starts_afresh(world: World) -> None:
    world.store.requests.observe(request_json(uid="first", version="5"))
    world.store.handovers.absent(WORK, "first", QUEUE_ID)

    world.store.requests.observe(request_json(uid="second", version="90"))

    snapshot = world.request()
    assert (snapshot.request.metadata.uid, snapshot.handover) == ("second", None)
    assert world.store.requests.open_uids() == {WORK: "second"}


async def test_news_of_an_earlier_request_of_the_name_are_ignored(world: World) -> None:
    world.store.requests.observe(request_json(uid="second"))

    world.store.requests.observe(request_json(uid="first", version="19"))
    world.store.requests.observe_left(request_json(uid="first"))
    world.store.handovers.absent(WORK, "first", QUEUE_ID)
    world.store.handovers.bridge_refused(WORK, "first", "no")
    world.store.handovers.handed_over(ALPHA, WORK, "first")
    world.store.requests.observe_gone(WORK, "first")

    snapshot = world.request()
    assert (snapshot.request.metadata.uid, snapshot.gone, snapshot.handover) == ("second", False, None)
    assert not world.store.requests.must_verify(WORK)


@pytest.mark.parametrize("deletion_seen", [False, True])
async def test_an_instance_made_anew_under_its_name_forgets_its_refusal(world: World, deletion_seen: bool) -> None:
    world.store.instances.observe(instance_json(uid="first"))
    world.store.children.observe_pod(child())
    world.store.instances.refused(ALPHA, "first", 1, "exceeded quota")
    world.store.instances.explained(ALPHA, None, "some problem")
    if deletion_seen:
        world.store.instances.observe_gone(ALPHA, "first")
        world.store.instances.drop(ALPHA)

    world.store.instances.observe(instance_json(uid="second", version="11"))

    snapshot = world.instance()
    assert (snapshot.facts.refused, snapshot.facts.problem) == (None, None)


async def test_what_became_of_the_children_of_a_former_instance_says_nothing_about_the_one_of_its_name(
    world: World,
) -> None:
    world.store.instances.observe(instance_json(uid="first"))
    world.store.instances.observe(instance_json(uid="second", version="11"))
    await world.settle()

    world.store.instances.refused(ALPHA, "first", 1, "exceeded quota")
    assert not world.store.instances.applied(ALPHA, "first", 1, "digest")
    assert not any(world.store.instances.failed(ALPHA, "first", 1, "a webhook") for _ in range(MAX_REPORTED_FAILURES))

    facts = world.instance().facts
    assert (facts.refused, facts.applied_generation, facts.applied_digest) == (None, 0, None)
    assert await world.due_keys() == set()


async def test_a_changed_instance_is_reconciled_with_its_requests_and_those_without_a_target(world: World) -> None:
    world.store.requests.observe(request_json("bound"))
    world.store.requests.observe(request_json("free", target=None, selector={"matchLabels": {"a": "b"}}))
    world.store.requests.observe(request_json("elsewhere", target="beta"))
    await world.settle()

    world.store.instances.observe(instance_json())

    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "bound"), ("Request", "free")}


async def test_a_deleted_instance_is_reconciled_with_its_requests(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.instances.observe_left(instance_json())

    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "work")}
    snapshot = world.request()
    assert snapshot.target is None
    assert world.store.instances.snapshot(ALPHA) is None


async def test_news_of_an_earlier_instance_of_the_name_are_ignored(world: World) -> None:
    world.store.instances.observe(instance_json(uid="second"))
    await world.settle()

    world.store.instances.observe(instance_json(uid="first", version="8"))
    world.store.instances.observe_left(instance_json(uid="first", version="9"))

    assert await world.due_keys() == set()
    assert world.instance().instance.metadata.uid == "second"


async def test_an_instance_that_was_never_known_is_forgotten_in_silence(world: World) -> None:
    world.store.instances.observe_left(instance_json())

    assert await world.due_keys() == set()


async def test_an_open_request_that_left_the_selection_must_be_verified(world: World) -> None:
    world.store.requests.observe(request_json())

    world.store.requests.observe_left(request_json())

    assert world.store.requests.must_verify(WORK)
    assert ("Request", "work") in await world.due_keys()


async def test_a_request_that_left_by_mistake_is_open_again_once_verified(world: World) -> None:
    world.store.requests.observe(request_json())
    world.store.requests.observe_left(request_json())

    world.store.requests.verification_begins(WORK, UID)
    world.store.requests.observe_verified(WORK, UID, request_json())

    assert not world.store.requests.must_verify(WORK)
    assert not world.store.requests.is_done(WORK)


@pytest.mark.parametrize("kind", ["EfritRequest", "EfritPlan"])
async def test_an_object_that_leaves_the_selection_while_it_is_asked_about_is_asked_about_again(
    world: World, kind: str
) -> None:
    objects, obj = world.store.of(kind), (request_json if kind == "EfritRequest" else plan_json)("same")
    key, uid = (NAMESPACE, "same"), "uid-same"
    objects.observe(obj)
    objects.observe_left(obj)
    objects.verification_begins(key, uid)
    await world.settle()

    objects.observe_left(obj)
    objects.observe_verified(key, uid, obj)

    assert objects.must_verify(key) == uid
    assert (kind.removeprefix("Efrit"), "same") in await world.due_keys()


@pytest.mark.parametrize("spec", [{}, {"ttlSecondsAfterFinished": 60}], ids=["kept", "with a time to live"])
async def test_a_final_request_that_left_needs_no_verification_and_is_finished_with(world: World, spec: Json) -> None:
    world.store.requests.observe(request_json(status=final_status(), **spec))
    assert not world.store.requests.is_done(WORK)

    world.store.requests.observe_left(request_json())

    assert not world.store.requests.must_verify(WORK)
    assert world.store.requests.is_done(WORK)


async def test_a_final_request_is_kept_until_its_answer_is_acknowledged(world: World) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(answered())
    world.store.requests.observe(request_json(version="21", status=final_status()))
    world.store.requests.observe_left(request_json())
    assert not world.store.requests.is_done(WORK)

    world.store.bridges.answer_acknowledged(ALPHA, UID)

    assert world.store.requests.is_done(WORK)


async def test_a_request_that_is_gone_is_reconciled_so_that_its_work_is_stopped(world: World) -> None:
    world.store.requests.observe(request_json())
    await world.settle()

    world.store.requests.observe_gone(WORK, UID)

    assert await world.due_keys() == {("Request", "work")}
    assert world.request().gone
    assert world.store.requests.open_uids() == {}


async def test_a_request_that_is_gone_is_finished_with_once_its_queue_is_rid_of_it(world: World) -> None:
    world.store.requests.observe(request_json())
    world.open_bridge(view())
    world.store.requests.observe_gone(WORK, UID)
    assert not world.store.requests.is_done(WORK)

    world.store.bridges.answer_acknowledged(ALPHA, UID)

    assert world.store.requests.is_done(WORK)


async def test_a_dropped_request_leaves_nothing_behind(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())

    world.store.requests.drop(WORK)
    world.store.requests.drop(WORK)

    assert world.store.requests.snapshot(WORK) is None
    assert world.store.requests.is_done(WORK)
    assert world.instance().open_requests == 0
