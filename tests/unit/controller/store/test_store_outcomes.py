"""store/: what actions report: what was applied, refused and written, and how far requests have come."""

from __future__ import annotations

import pytest

from efrit.controller.decide.figures import TURN_KEPT
from efrit.controller.store.figures_pace import AT_ONCE, WRITES_A_SECOND
from efrit.controller.store.instances import MAX_REPORTED_FAILURES
from tests.support.factory import NAMESPACE, NOW, instance_json, request_json, seconds
from tests.unit.controller.store.world import ALPHA, UID, WORK, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


async def test_a_refusal_is_kept_with_its_time_until_an_apply_succeeds(world: World) -> None:
    world.store.instances.observe(instance_json())
    await elapse(5)
    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")
    assert ("Instance", "alpha") in await world.due_keys()
    facts = world.instance().facts
    assert (facts.refused, facts.refused_generation) == ("exceeded quota", 1)
    assert facts.refused_time == NOW + seconds(5)

    world.store.instances.applied(ALPHA, "uid-alpha", 1)

    facts = world.instance().facts
    assert (facts.refused, facts.applied_generation) == (None, 1)
    assert await world.due_keys() == {("Instance", "alpha")}


async def test_what_was_accepted_before_a_refusal_or_of_an_earlier_instance_says_nothing(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.applied(ALPHA, "uid-alpha", 1)
    world.store.instances.refused(ALPHA, "uid-alpha", 2, "no")
    assert world.instance().facts.applied_generation == 0
    world.store.instances.applied(ALPHA, "uid-alpha", 3)
    assert world.instance().facts.applied_generation == 3
    world.store.instances.observe(instance_json(uid="another"))
    assert world.instance().facts.applied_generation == 0


async def test_a_refusal_that_repeats_itself_is_reconciled_so_that_it_is_tried_again(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")
    await world.settle()

    world.store.instances.refused(ALPHA, "uid-alpha", 1, "exceeded quota")

    assert await world.due_keys() == {("Instance", "alpha")}


async def test_failures_in_a_row_are_taken_for_a_refusal_and_a_success_between_starts_the_count_anew(
    world: World,
) -> None:
    world.store.instances.observe(instance_json())
    almost = [
        world.store.instances.failed(ALPHA, "uid-alpha", 1, "a webhook") for _ in range(MAX_REPORTED_FAILURES - 1)
    ]
    world.store.instances.applied(ALPHA, "uid-alpha", 1)
    again = [world.store.instances.failed(ALPHA, "uid-alpha", 1, "a webhook") for _ in range(MAX_REPORTED_FAILURES)]

    assert almost + again == [False] * (2 * MAX_REPORTED_FAILURES - 2) + [True]
    facts = world.instance().facts
    assert (facts.refused, facts.applied_generation) == ("a webhook", 0)


@pytest.mark.parametrize("end", ["applied", "refused"])
async def test_a_resync_lasts_until_the_children_were_applied_or_refused(world: World, end: str) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.resync(ALPHA)
    assert world.instance().facts.resync
    if end == "applied":
        world.store.instances.applied(ALPHA, "uid-alpha", 1)
    else:
        world.store.instances.refused(ALPHA, "uid-alpha", 1, "no")
    assert not world.instance().facts.resync


async def test_the_time_of_the_last_status_write_is_remembered(world: World) -> None:
    world.store.instances.observe(instance_json())
    await elapse(7)

    world.store.instances.status_written(ALPHA)

    assert world.instance().facts.stats_written == NOW + seconds(7)


async def test_figures_of_many_instances_are_written_in_turn(world: World) -> None:
    other = (NAMESPACE, "other")
    for name in ("alpha", "other"):
        world.store.instances.observe(instance_json(name))
    for _ in range(AT_ONCE):
        assert not world.instance(deciding=True).figures_wait
        world.store.instances.status_written(other, figures_alone=True)
    assert world.instance(deciding=True).figures_wait
    for instance in [other] * (WRITES_A_SECOND - 1) + [ALPHA]:
        world.store.instances.take_figures_turn(instance)
    await world.settle()

    assert world.instance().facts.figures_turn == NOW + seconds(1)
    await elapse(0.9)
    assert ("Instance", "alpha") not in await world.due_keys()
    await elapse(0.1)
    assert ("Instance", "alpha") in await world.due_keys()

    world.store.instances.status_written(ALPHA, figures_alone=True)
    assert world.instance().facts.figures_turn is None


async def test_figures_whose_turn_has_passed_take_one_when_they_are_written(world: World) -> None:
    """Those of many instances would else come together after an API server that was away."""
    others = [(NAMESPACE, f"m{number}") for number in range(AT_ONCE)]
    world.store.instances.observe(instance_json("alpha"))
    for instance in others:
        world.store.instances.observe(instance_json(instance[1]))
        world.store.instances.take_figures_turn(instance)
    await elapse((TURN_KEPT + seconds(1)).total_seconds())
    assert not world.instance(deciding=True).figures_wait

    for instance in others:
        world.store.instances.status_written(instance, figures_alone=True)

    assert world.instance(deciding=True).figures_wait


async def test_a_status_that_says_more_than_figures_takes_no_turn(world: World) -> None:
    world.store.instances.observe(instance_json())
    for _ in range(2 * AT_ONCE):
        world.store.instances.status_written(ALPHA)
    assert not world.instance(deciding=True).figures_wait


async def test_an_explanation_that_only_repeats_itself_requeues_nothing(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.instances.explained(ALPHA, None, "no such image")
    await world.settle()

    world.store.instances.explained(ALPHA, None, "no such image")

    assert await world.due_keys() == set()


async def test_asking_about_an_unknown_request_makes_nothing_up(world: World) -> None:
    assert world.store.requests.snapshot(WORK) is None
    assert not world.store.requests.must_verify(WORK)
    world.store.requests.observe_verified(WORK, UID, None)
    assert world.store.bridges.orphans(WORK) == []
    assert world.store.instances.keys() == []


async def test_the_keys_of_instances_include_those_of_which_only_children_are_left(world: World) -> None:
    world.store.children.observe_pod(child())

    assert world.store.instances.keys() == [ALPHA]
    assert world.store.counts() == (0, 0)


async def test_when_a_status_last_reported_progress_is_remembered(world: World) -> None:
    world.store.requests.observe(request_json(status={"phase": "Running"}))
    assert world.request().progress_written is None
    world.store.requests.observe(request_json(version="21", status={"phase": "Running", "progress": {"step": 1}}))
    first = world.request().progress_written
    assert first == world.now()
    await elapse(5)
    world.store.requests.observe(request_json(version="22", status={"phase": "Running", "progress": {"step": 1}}))
    assert world.request().progress_written == first, "nothing new was reported"
    world.store.requests.progress_dropped(WORK, "another")
    assert world.request().progress_written == first
    world.store.requests.progress_dropped(WORK, UID)
    assert world.request().progress_written == world.now()


async def test_the_instance_of_a_session_is_remembered_and_its_request_reconciled(world: World) -> None:
    world.store.requests.observe(request_json(target=None, selector={"matchLabels": {"a": "b"}}))
    await world.settle()

    world.store.requests.session_found(WORK, "another", "beta")
    assert await world.due_keys() == set()
    world.store.requests.session_found(WORK, UID, "alpha")

    assert world.request().session_instance == "alpha"
    assert await world.due_keys() == {("Request", "work")}
