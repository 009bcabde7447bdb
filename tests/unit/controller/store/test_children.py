"""store/: the pod, the StatefulSet and the claims of an instance."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.decide.explanation import LATE
from efrit.protocol.times import parse_time
from tests.support.factory import NAMESPACE, POD_UID, instance_json, request_json
from tests.unit.controller.store.world import ALPHA, World, child
from tests.unit.controller.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


async def test_a_pod_a_statefulset_and_a_claim_each_requeue_their_instance(world: World) -> None:
    world.store.instances.observe(instance_json())
    await world.settle()

    for observe, obj in (
        (world.store.children.observe_pod, child(phase="Running", podIP="10.0.0.1")),
        (world.store.children.observe_statefulset, child("StatefulSet", name="efrit-alpha", uid="ss")),
        (world.store.children.observe_claim, child("PersistentVolumeClaim", name="efrit-alpha-queue", phase="Bound")),
    ):
        observe(obj)
        assert await world.due_keys() == {("Instance", "alpha")}

    snapshot = world.instance()
    assert snapshot.pod is not None
    assert snapshot.pod.ip == "10.0.0.1"
    assert snapshot.statefulset is not None
    assert [claim.phase for claim in snapshot.claims] == ["Bound"]


async def test_children_that_are_gone_are_forgotten(world: World) -> None:
    world.store.instances.observe(instance_json())
    pod, claim = child(), child(name="efrit-alpha-queue", phase="Bound")
    world.store.children.observe_pod(pod)
    world.store.children.observe_statefulset(child(name="efrit-alpha"))
    world.store.children.observe_claim(claim)

    world.store.children.forget_pod(pod)
    world.store.children.forget_statefulset(child(name="efrit-alpha"))
    world.store.children.forget_claim(claim)

    snapshot = world.instance()
    assert (snapshot.pod, snapshot.statefulset, snapshot.claims) == (None, None, ())


async def test_the_end_of_an_earlier_pod_does_not_forget_the_present_one(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child(uid="new"))

    world.store.children.forget_pod(child(uid="old"))

    assert world.instance().pod is not None


async def test_only_the_pod_that_the_statefulset_of_the_instance_owns_is_believed(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))

    world.store.children.observe_pod(child(uid="stranger", owner="another set"))
    assert world.pod_uid() is None
    world.store.children.observe_pod(child(uid="ours"))
    assert world.pod_uid() == "ours"
    world.store.children.observe_pod(child(uid="another name", name="impostor-0"))
    world.store.children.forget_pod(child(uid="ours", name="impostor-0"))
    assert world.pod_uid() == "ours"


async def test_a_statefulset_that_the_instance_does_not_own_is_not_its_statefulset(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss", owner="a tenant's"))
    world.store.children.observe_pod(child(uid="stranger"))

    snapshot = world.instance()
    assert (snapshot.statefulset, snapshot.pod) == (None, None)
    world.store.children.observe_statefulset(child(name="efrit-impostor", uid="ss"))
    assert world.pod_uid() is None


async def test_a_pod_that_stops_is_believed_after_its_statefulset_is_gone(world: World) -> None:
    world.store.children.observe_pod(child(uid="ours"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.instances.observe(instance_json())

    world.store.children.forget_statefulset(child(name="efrit-alpha", uid="ss"))
    assert world.pod_uid() == "ours"
    for number in range(10):
        world.store.children.observe_statefulset(child(name="efrit-alpha", uid=f"ss{number}"))
    assert world.pod_uid() is None


async def test_late_news_of_a_child_change_nothing(world: World) -> None:
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

    assert await world.due_keys() == set()
    snapshot = world.instance()
    assert snapshot.pod is not None
    assert snapshot.statefulset is not None
    assert (snapshot.pod.uid, snapshot.pod.ip, snapshot.statefulset.uid) == ("new", "10.0.0.2", "new")
    assert [(claim.uid, claim.phase) for claim in snapshot.claims] == [("new", "Bound")]


async def test_a_child_that_is_gone_does_not_come_back_by_late_news(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(version="11"))
    world.store.children.forget_pod(child(version="13"))

    world.store.children.observe_pod(child(version="12"))

    assert world.instance().pod is None


async def test_children_of_nobody_are_ignored(world: World) -> None:
    stray = {"metadata": {"name": "x", "namespace": NAMESPACE, "uid": "u"}}

    for kind in ("pod", "statefulset", "claim"):
        getattr(world.store.children, f"observe_{kind}")(stray)
        getattr(world.store.children, f"forget_{kind}")(stray)

    assert await world.due_keys() == set()


async def test_a_claim_that_only_repeats_itself_requeues_nothing(world: World) -> None:
    claim = child(name="efrit-alpha-queue", phase="Bound")
    world.store.children.observe_claim(claim)
    await world.settle()

    world.store.children.observe_claim(claim)

    assert await world.due_keys() == set()


async def test_a_stopping_pod_requeues_the_requests_that_wait_for_it(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.requests.observe(request_json())
    await world.settle()
    stopping: Any = child()
    stopping["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"

    world.store.children.observe_pod(stopping)

    assert await world.due_keys() == {("Instance", "alpha"), ("Request", "work")}


async def test_the_explanation_of_an_earlier_pod_is_not_that_of_the_next(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child(uid="old"))
    world.store.instances.explained(ALPHA, "old", "no such image")
    assert world.instance().facts.problem == "no such image"

    world.store.children.observe_pod(child(uid="new"))

    assert world.instance().facts.problem is None
    # The answer to what was asked about the pod before.
    world.store.instances.explained(ALPHA, "old", "no such image")
    assert world.instance().facts.problem is None


@pytest.mark.parametrize("how", ["event", "sweep"])
async def test_the_explanation_of_a_pod_that_is_gone_is_not_why_there_is_none(world: World, how: str) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    pod = child(uid="old")
    pod["metadata"]["creationTimestamp"] = "2026-03-01T12:00:00Z"
    world.store.children.observe_pod(pod)
    world.store.instances.explained(ALPHA, "old", "no such image")

    if how == "event":
        world.store.children.forget_pod(pod)
    else:
        world.store.children.forget({"old"})

    facts = world.instance().facts
    assert (facts.problem, facts.explained_time, facts.pod_awaited) == (None, None, world.now())
    assert facts.events_after == parse_time("2026-03-01T12:00:00Z")
    # The answer to what was asked while it was there.
    world.store.instances.explained(ALPHA, "old", "no such image")
    assert world.instance().facts.problem is None
    world.store.instances.explained(ALPHA, None, "exceeded quota")
    assert world.instance().facts.problem == "exceeded quota"


async def test_why_there_was_no_pod_before_an_instance_slept_is_not_why_there_is_none_when_it_wakes(
    world: World,
) -> None:
    def scale(replicas: int, version: str) -> None:
        scaled = child(name="efrit-alpha", uid="ss", version=version)
        scaled["spec"]["replicas"] = replicas
        world.store.children.observe_statefulset(scaled)

    world.store.instances.observe(instance_json())
    scale(1, "1")
    world.store.instances.explained(ALPHA, None, "exceeded quota")
    scale(1, "2")
    assert world.instance().facts.problem == "exceeded quota"

    scale(0, "3")
    assert world.instance().facts.problem is None
    await elapse(3600)
    scale(1, "4")

    facts = world.instance().facts
    assert (facts.problem, facts.explained_time, facts.pod_awaited) == (None, None, world.now())


async def test_what_events_said_before_an_instance_slept_is_not_why_there_is_no_pod_when_it_wakes(
    world: World,
) -> None:
    world.store.instances.observe(instance_json())
    for version, replicas in enumerate((1, 0, 1), 1):
        await elapse(3600)
        scaled = child(name="efrit-alpha", uid="ss", version=str(version))
        scaled["spec"]["replicas"] = replicas
        world.store.children.observe_statefulset(scaled)
    assert world.instance().facts.events_after == world.now() - LATE


@pytest.mark.parametrize("pod_first", [True, False])
async def test_a_controller_that_starts_while_there_is_no_pod_leaves_out_events_of_before_the_last_one(
    world: World, pod_first: bool
) -> None:
    started = {"startTime": "2026-03-01T12:00:00Z"}
    pod = child(uid="new")
    pod["metadata"]["creationTimestamp"] = "2026-03-01T13:00:00Z"
    if pod_first:
        world.store.children.observe_pod(pod)
    world.store.instances.observe(instance_json(status=started))
    hour = 13 if pod_first else 12
    assert world.instance().facts.events_after == parse_time(f"2026-03-01T{hour}:00:00Z")
    # Of what this process itself writes nothing follows.
    world.store.instances.observe(instance_json(version="11", status={"startTime": "2026-03-01T14:00:00Z"}))
    assert world.instance().facts.events_after == parse_time(f"2026-03-01T{hour}:00:00Z")


async def test_a_pod_that_runs_is_kept_from_starting_by_nothing(world: World) -> None:
    containers = [{"name": "emacs", "state": {"running": {}}}]
    world.store.instances.observe(instance_json())
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="ss"))
    world.store.children.observe_pod(child())
    world.store.instances.explained(ALPHA, POD_UID, 'configmap "first" not found')
    assert world.instance().facts.problem

    world.store.children.observe_pod(child(containerStatuses=containers))

    assert world.instance().facts.problem is None
    # Its event is there for an hour.
    world.store.instances.explained(ALPHA, POD_UID, 'configmap "first" not found')
    assert world.instance().facts.problem is None


async def test_children_a_list_did_not_have_are_forgotten(world: World) -> None:
    world.store.instances.observe(instance_json())
    world.store.children.observe_pod(child(uid="stale"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="set"))
    await world.settle()

    world.store.children.forget({"stale"})

    snapshot = world.instance()
    assert snapshot.pod is None
    assert snapshot.statefulset is not None
    assert await world.due_keys() == {("Instance", "alpha")}
    world.store.children.forget({"set"})
    assert world.instance().statefulset is None


async def test_children_that_one_list_has_left_out_are_taken_in_as_they_are_by_the_next(world: World) -> None:
    """A list of the past has none of what came since; the next one has it, in the version that is known."""
    world.store.instances.observe(instance_json())
    children = world.store.children
    pod = child(uid="pod", version="7", phase="Running", podIP="10.0.0.1")
    statefulset = child("StatefulSet", name="efrit-alpha", uid="ss", version="8")
    claim = child("PersistentVolumeClaim", name="efrit-alpha-queue", uid="claim", version="9", phase="Bound")
    listed = (
        (children.observe_statefulset, statefulset),
        (children.observe_pod, pod),
        (children.observe_claim, claim),
    )
    for observe, obj in listed:
        observe(obj)

    children.forget(children.uids())
    before = world.instance()
    for observe, obj in listed:
        observe({**obj, "metadata": {**obj["metadata"], "resourceVersion": "6"}})
    assert (before.pod, before.statefulset, before.claims) == (None, None, ())
    assert world.instance() == before, "an earlier version comes late"
    for observe, obj in listed:
        observe(obj)

    after = world.instance()
    assert after.pod is not None
    assert after.statefulset is not None
    assert [view.phase for view in after.claims] == ["Bound"]


async def test_a_claim_that_was_not_found_once_is_taken_in_as_it_is_by_the_next_list(world: World) -> None:
    world.store.instances.observe(instance_json())
    claim = child("PersistentVolumeClaim", name="efrit-alpha-queue", uid="claim", version="9", phase="Bound")
    world.store.children.observe_claim(claim)

    world.store.children.claim_gone(ALPHA, "efrit-alpha-queue")
    assert world.instance().claims == ()
    world.store.children.observe_claim(claim)

    assert [view.uid for view in world.instance().claims] == ["claim"]


async def test_the_children_that_are_known_are_distinguished_from_later_ones(world: World) -> None:
    world.store.children.observe_pod(child(uid="pod"))
    world.store.children.observe_statefulset(child(name="efrit-alpha", uid="set"))

    assert world.store.children.uids() == {"pod", "set"}
