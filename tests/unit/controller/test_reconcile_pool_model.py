"""Pools, their requests and claims under any order of events: what must hold once nothing is left to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efrit.api.request import MAX_PREEMPTIONS
from tests.unit.controller.pool_model import PoolWorld

Event = tuple[str, tuple[Any, ...], dict[str, Any]]
WHICH = st.integers(0, 7)
SIZES: list[dict[str, Any]] = [
    {"replicas": 0},
    {"replicas": 1},
    {"replicas": 3},
    {"autoscaling": {"minReplicas": 0, "maxReplicas": 3, "scaleDown": {"stabilizationSeconds": 0}}},
    {"autoscaling": {"minReplicas": 1, "maxReplicas": 2, "scaleDown": {"stabilizationSeconds": 5}}},
]
CHANGES = [
    *SIZES,
    {"placement": {"maxLoadPerInstance": 1}},
    {"placement": {"maxLoadPerInstance": 3, "strategy": "Packed"}},
    {"fairness": {"weights": {"a": 3}}},
    {"fairness": {"maxRunningPerFlow": 1}},
    {"preemption": "LowerPriority"},
    {"preemption": "LowerPriority", "fairness": {"maxRunningPerFlow": 1}},
    {"template": {"metadata": {"labels": {"version": "two"}}}},
    {"template": {"metadata": {"labels": {"version": "three"}}}, "updateStrategy": {"type": "OnReplenish"}},
]


def event(name: str, *arguments: Any, **options: Any) -> st.SearchStrategy[Event]:
    return st.builds(lambda *values, **named: (name, values, named), *arguments, **options)


def let_happen(world: PoolWorld, events: list[Event]) -> None:
    """Let the events happen, then all that follows; what must hold is checked wherever nothing is left to do."""
    for place, (name, arguments, options) in enumerate(events):
        getattr(world, name)(*arguments, **options)
        if name == "settle":
            assert world.check() == [], events[: place + 1]
    world.settle()


BURST = event("request", st.sampled_from("aaab"), st.sampled_from([-1, 0, 0, 2]))
URGENT = event("request", st.sampled_from("ab"), st.sampled_from([0, 1, 5, 1000]), st.just("IfInterrupted"))
EVENTS = st.one_of(
    BURST,
    BURST,
    BURST,
    URGENT,
    event("begin_run", WHICH),
    event("begin_run", WHICH),
    event("end_run", WHICH),
    event("end_request", WHICH),
    event("end_request", WHICH),
    event("serve", WHICH),
    event("serve", WHICH),
    event("delete_request", WHICH),
    event("fall_silent", WHICH),
    event("delete_member", WHICH),
    event("change_pool", st.sampled_from(CHANGES)),
    event("claim", st.sampled_from(["Recycle", "Return"])),
    event("release", WHICH),
    event("delete_claim", WHICH),
    event("die_at", st.integers(0, 3), after=st.booleans()),
    event("start"),
    event("settle"),
    event("settle"),
    event("settle"),
    event("wait", st.integers(1, 90)),
)


@settings(max_examples=250)
@given(events=st.lists(EVENTS, min_size=5, max_size=40))
def test_whatever_happens_no_work_waits_beside_room_and_nobody_has_more_than_is_theirs(
    events: list[Event],
) -> None:
    world = PoolWorld()
    let_happen(world, events)
    assert world.check() == [], events


@pytest.mark.parametrize("write", range(8))
@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_at_any_write_leaves_nothing_that_the_next_one_does_not_finish(
    write: int, after: bool
) -> None:
    world = PoolWorld()
    world.die_at(write, after=after)
    world.settle()
    for which in range(2):
        world.serve(which)
    for flow in "abab":
        world.request(flow, 0)
    world.claim("Return")
    world.die_at(write, after=after)
    world.settle()
    world.serve(0)
    world.settle()
    assert world.check() == []
    assert len(world.waiting()) == 0


INTERRUPTIONS = st.one_of(
    URGENT,
    URGENT,
    URGENT,
    event("begin_run", WHICH),
    event("begin_run", WHICH),
    event("settle"),
    event("settle"),
    event("end_run", WHICH),
    event("end_request", WHICH),
    event("delete_request", WHICH),
    event("serve", WHICH),
    event("fall_silent", WHICH),
    event("delete_member", WHICH),
    event("change_pool", st.sampled_from(CHANGES)),
    event("claim", st.sampled_from(["Recycle", "Return"])),
    event("die_at", st.integers(0, 5), after=st.booleans()),
    event("start"),
    event("wait", st.integers(1, 90)),
)


@settings(max_examples=250)
@given(events=st.lists(INTERRUPTIONS, min_size=10, max_size=50))
def test_work_that_is_interrupted_for_other_work_runs_in_one_place_and_has_one_answer(
    events: list[Event],
) -> None:
    world = PoolWorld()
    world.change_pool({"replicas": 2, "preemption": "LowerPriority", "placement": {"maxLoadPerInstance": 1}})
    world.settle()
    for which in range(2):
        world.serve(which)
    let_happen(world, events)
    assert world.check() == [], events


@pytest.mark.parametrize("write", range(12))
@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_dies_while_it_interrupts_work_for_other_work_is_continued(write: int, after: bool) -> None:
    world = PoolWorld()
    world.change_pool({"replicas": 1, "preemption": "LowerPriority", "placement": {"maxLoadPerInstance": 1}})
    world.settle()
    world.serve(0)
    world.settle()
    world.request("a", 0, "IfInterrupted")
    world.settle()
    world.begin_run(0)
    world.settle()
    (long,) = world.open("EfritRequest")

    world.request("a", 5)
    world.die_at(write, after=after)
    world.settle()
    assert world.check() == []
    assert world.waiting().keys() == {long}
    (urgent,) = world.open("EfritRequest").keys() - {long}
    assert world.objects["EfritRequest", long]["status"]["preemption"]["count"] == 1

    world.begin_run(0)
    world.end_run(0)
    world.settle()
    assert world.objects["EfritRequest", urgent]["status"]["result"] == uid_of(world, urgent)
    assert world.waiting() == {}
    world.begin_run(0)
    world.end_run(0)
    world.settle()
    assert world.check() == []
    assert world.open("EfritRequest") == {}
    assert world.objects["EfritRequest", long]["status"]["result"] == f"{uid_of(world, long)}.1"


def test_a_request_is_interrupted_five_times_and_then_runs_to_its_end() -> None:
    world = PoolWorld()
    world.change_pool({"replicas": 1, "preemption": "LowerPriority", "placement": {"maxLoadPerInstance": 1}})
    world.settle()
    world.serve(0)
    world.settle()
    world.request("a", 0, "IfInterrupted")
    world.settle()
    (long,) = world.open("EfritRequest")
    for times in (*range(1, MAX_PREEMPTIONS + 1), MAX_PREEMPTIONS):
        world.begin_run(0)
        world.wait(60)
        world.request("a", 1000)
        world.settle()
        assert world.check() == []
        assert world.objects["EfritRequest", long]["status"]["preemption"]["count"] == times
        world.begin_run(0)
        world.end_run(0)
        world.settle()
    assert world.objects["EfritRequest", long]["status"]["phase"] == "Succeeded"
    assert world.objects["EfritRequest", long]["status"]["result"] == f"{uid_of(world, long)}.{MAX_PREEMPTIONS}"


def uid_of(world: PoolWorld, name: str) -> str:
    uid: str = world.objects["EfritRequest", name]["metadata"]["uid"]
    return uid
