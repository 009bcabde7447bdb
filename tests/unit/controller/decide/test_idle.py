"""decide/idle.py: when an instance counts as idle, and what follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from efrit.controller.decide.idle import Idleness, idleness, suspension_reason
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView, ContainerView, PodView
from tests.support.factory import NOW, Json, away, connected, instance, pod, ready, seconds, stats

BOTH = {"suspendAfterSeconds": 60, "deleteAfterSeconds": 600}
SUSPEND = {"suspendAfterSeconds": 60}
DELETE = {"deleteAfterSeconds": 600}
ASLEEP = {"suspendedIdle": True}
LONG = 10_000

RUNNING = Idleness()
SLEEPS = Idleness(suspended=True)
DELETED = Idleness(delete=True)


def with_idle_rules(
    rules: Json, ago: float, *, status: Json | None = None, mode: str = "Running", **fields: object
) -> Json:
    made = instance(created=NOW - seconds(ago), spec={"idle": rules, "operatingMode": mode}, status=status)
    return {"efrit_instance": made, **fields}


def started(**fields: Any) -> PodView:
    return pod(containers=(ContainerView("emacs", running=True),), **fields)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(ready(**with_idle_rules(SUSPEND, 60)), SLEEPS, id="idle for long enough to sleep"),
        pytest.param(ready(**with_idle_rules(DELETE, 600)), DELETED, id="idle for long enough to go"),
        pytest.param(ready(**with_idle_rules(BOTH, 600)), DELETED, id="idle for long enough for both"),
        pytest.param(ready(**with_idle_rules(SUSPEND, 45)), Idleness(requeue_after=seconds(15)), id="to sleep soon"),
        pytest.param(
            ready(**with_idle_rules(BOTH, 45)), Idleness(requeue_after=seconds(15)), id="to sleep soon, to go later"
        ),
        pytest.param(ready(**with_idle_rules(DELETE, 590)), Idleness(requeue_after=seconds(10)), id="to go soon"),
        pytest.param(
            ready(**with_idle_rules(BOTH, 60)), Idleness(True, False, seconds(540)), id="falls asleep, to go later"
        ),
        pytest.param(
            away(**with_idle_rules(BOTH, 500, status=ASLEEP)),
            Idleness(True, False, seconds(100)),
            id="sleeps, to go later",
        ),
        pytest.param(away(**with_idle_rules(BOTH, 600, status=ASLEEP)), Idleness(True, True), id="sleeps, to go now"),
        pytest.param(
            away(**with_idle_rules(DELETE, 600, mode="Suspended")), DELETED, id="suspended by its owner, to go now"
        ),
        pytest.param(away(**with_idle_rules(SUSPEND, LONG, mode="Suspended")), RUNNING, id="suspended by its owner"),
        pytest.param(ready(instance(created=NOW - seconds(LONG))), RUNNING, id="without rules"),
        pytest.param(away(instance(status=ASLEEP)), RUNNING, id="its rules were taken away"),
    ],
)
def test_what_the_idle_rules_ask_for(snapshot: InstanceSnapshot, expected: Idleness) -> None:
    assert idleness(snapshot, NOW) == expected


@pytest.mark.parametrize(
    "work",
    [
        {"open_requests": 1},
        {"active_plans": 1},
        {"active_plans": 1, "suspended_plans": 3},
        {"bridge": connected(bridge_stats=stats(pending=1))},
        {"bridge": connected(bridge_stats=stats(processing=1))},
    ],
    ids=["an open request", "an open plan", "an open plan among suspended ones", "a queued file", "running work"],
)
@pytest.mark.parametrize("status", [{}, ASLEEP], ids=["running", "asleep"])
def test_an_instance_with_work_is_not_idle_and_wakes_up(work: Json, status: Json) -> None:
    assert idleness(ready(**with_idle_rules(BOTH, LONG, status=status, **work)), NOW) == RUNNING


def test_a_suspended_plan_lets_its_instance_sleep_but_not_go() -> None:
    assert idleness(ready(**with_idle_rules(BOTH, LONG, suspended_plans=1)), NOW) == SLEEPS
    assert idleness(away(**with_idle_rules(BOTH, LONG, status=ASLEEP, suspended_plans=1)), NOW) == SLEEPS
    assert idleness(ready(**with_idle_rules(DELETE, LONG, suspended_plans=1)), NOW) == RUNNING


@pytest.mark.parametrize(
    ("first_ready", "expected"),
    [(NOW - seconds(10), Idleness(requeue_after=seconds(50))), (NOW - seconds(60), SLEEPS), (None, SLEEPS)],
)
def test_an_instance_is_not_idle_for_the_time_it_takes_to_start(
    first_ready: datetime | None, expected: Idleness
) -> None:
    assert idleness(ready(**with_idle_rules(SUSPEND, LONG, first_ready=first_ready)), NOW) == expected


UNLISTED: Json = {"listed": False}
NEVER_HEARD = {"pod": started(), "bridge": BridgeView()}
OTHER_POD = {"pod": started(), "bridge": connected(pod_uid="an earlier pod")}
BROKEN = {"pod": started(), "bridge": BridgeView(False, "pod-uid-1", "q", stats(), "no answer")}
CRASHED = {"pod": pod(containers=(ContainerView("emacs", restarts=3, last_exit_code=1),)), "bridge": BridgeView()}
NO_REPORT = {"pod": pod(phase="Running", containers=()), "bridge": BridgeView()}
DRAINS = {"pod": started(deleting=True)}


@pytest.mark.parametrize(
    "unknown",
    [UNLISTED, NEVER_HEARD, OTHER_POD, BROKEN, CRASHED, NO_REPORT, DRAINS],
    ids=[
        "requests and plans are not listed",
        "the bridge was not heard by this process",
        "only the bridge of an earlier pod was heard",
        "the bridge fell silent",
        "the containers have run",
        "nothing is reported of the containers",
        "the pod is stopping",
    ],
)
@pytest.mark.parametrize(("status", "expected"), [({}, RUNNING), (ASLEEP, SLEEPS)], ids=["running", "asleep"])
def test_nothing_new_is_decided_before_all_work_is_known(unknown: Json, status: Json, expected: Idleness) -> None:
    assert idleness(ready(**with_idle_rules(BOTH, LONG, status=status, **unknown)), NOW) == expected


@pytest.mark.parametrize(
    "facts",
    [
        {"pod": None, "bridge": BridgeView()},
        {"pod": pod(phase="Pending", ip=None, unschedulable="0/3 nodes", containers=()), "bridge": BridgeView()},
        {
            "pod": pod(phase="Pending", containers=(ContainerView("emacs", waiting_reason="ImagePullBackOff"),)),
            "bridge": BridgeView(),
        },
        {"pod": pod(phase="Failed", containers=(ContainerView("emacs", restarts=1),)), "bridge": BridgeView()},
    ],
    ids=["no pod", "a pod no node takes", "an image that cannot be pulled", "an evicted pod"],
)
def test_where_nothing_can_run_no_bridge_needs_to_be_heard(facts: Json) -> None:
    assert idleness(ready(**with_idle_rules(DELETE, LONG, **facts)), NOW) == DELETED


def test_an_instance_without_a_pod_is_not_taken_for_idle_before_its_work_is_listed() -> None:
    assert idleness(away(**with_idle_rules(BOTH, LONG, **UNLISTED)), NOW) == RUNNING


@pytest.mark.parametrize(
    "recent",
    [{"last_activity": NOW - seconds(10)}, {"status": {"lastActivityTime": "2026-03-01T11:59:50Z"}}],
    ids=["seen by this process", "recorded in the status"],
)
def test_activity_starts_the_time_anew(recent: Json) -> None:
    assert idleness(ready(**with_idle_rules(SUSPEND, LONG, **recent)), NOW) == Idleness(requeue_after=seconds(50))


def test_a_clock_set_back_makes_nothing_idle() -> None:
    assert idleness(ready(**with_idle_rules(DELETE, -3600)), NOW).requeue_after == timedelta(seconds=600 + 3600)


def test_suspension_by_the_owner_is_distinguished_from_idleness() -> None:
    def reason(snapshot: InstanceSnapshot) -> str | None:
        return suspension_reason(snapshot, idleness(snapshot, NOW))

    assert reason(away(**with_idle_rules(SUSPEND, 10, status=ASLEEP, mode="Suspended"))) == "Suspended"
    assert reason(away(**with_idle_rules(SUSPEND, 10, status=ASLEEP))) == "SuspendedIdle"
    assert reason(away(**with_idle_rules(SUSPEND, 10, status=ASLEEP, open_requests=1))) is None
    assert reason(away(instance(status=ASLEEP))) is None
    assert reason(away()) is None
