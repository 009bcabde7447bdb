"""decide/rollout.py: when a changed pod template may replace a running pod, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from efrit.controller.decide.rollout import Update, decide_update
from efrit.controller.manifests import Identity, build
from efrit.controller.model.config import RolloutLimits
from efrit.controller.model.rollout import RolloutView, UpdateCause, UpdateSlot
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView, ContainerView, PodView
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    Json,
    condition_json,
    connected,
    instance,
    pod,
    ready,
    seconds,
    statefulset,
    stats,
)

LIMITS = RolloutLimits(
    max_concurrent=3, max_concurrent_per_namespace=2, max_hold=seconds(600), progress_deadline=seconds(120)
)
LIMITED = replace(CONFIG, rollout=LIMITS)
RELEASE = {"template_hash": "old", "release_hash": "old"}
SPEC = {"template_hash": "old", "spec_hash": "old"}
BUSY = connected(bridge_stats=stats(processing=1))
END_OF_TIME = datetime.max.replace(tzinfo=UTC)
EMACS_CRASHES = (ContainerView("bridge", running=True), ContainerView("emacs", waiting_reason="CrashLoopBackOff"))

World = Callable[..., InstanceSnapshot]
Decide = Callable[..., Update]


def updated_status(status: str, reason: str, ago: float = 0, ready: str = "True") -> Json:
    """Return a status whose condition Updated has been this for so many seconds."""
    since = NOW - seconds(ago)
    return {
        "conditions": [
            condition_json("Updated", status, reason, since),
            condition_json("Ready", ready, "Ready", since),
        ]
    }


@pytest.fixture
def world(identity: Identity) -> World:
    """Return a snapshot whose StatefulSet is as wanted, but for the fields given."""

    def made(current: Json | None = None, status: Json | None = None, **fields: Any) -> InstanceSnapshot:
        efrit_instance = instance(status=status or updated_status("True", "UpToDate", 3600))
        children = build(efrit_instance, LIMITED, identity, 1, NOW)
        fields = {"config": LIMITED, "controller_started": NOW - seconds(3600)} | fields
        return ready(efrit_instance, statefulset=statefulset(children, **(current or {})), **fields)

    return made


@pytest.fixture
def decide(identity: Identity) -> Decide:
    def decided(snapshot: InstanceSnapshot, now: datetime = NOW, replicas: int = 1) -> Update:
        children = build(snapshot.instance, LIMITED, identity, replicas, NOW)
        return decide_update(snapshot, children, replicas, now)

    return decided


def slots(count: int, namespace: str = "elsewhere", *, succeeded: int = 1, **fields: Any) -> RolloutView:
    """Return a view with so many updates of other instances under way."""
    defaults: Json = {"since": NOW - seconds(1), "cause": UpdateCause.RELEASE}
    under_way = tuple(UpdateSlot(namespace, f"n{number}", **(defaults | fields)) for number in range(count))
    return RolloutView(under_way, succeeded=succeeded)


# What is no update of a running pod.


def test_a_template_that_is_applied_is_up_to_date(world: World, decide: Decide) -> None:
    update = decide(world())

    assert (update.status, update.reason) == ("True", "UpToDate")


def test_a_first_statefulset_is_applied_whatever_others_do(world: World, decide: Decide) -> None:
    instance_snapshot = replace(world(rollout=slots(9)), statefulset=None)

    assert decide(instance_snapshot).apply


@pytest.mark.parametrize(("current", "desired"), [(0, 1), (1, 0), (0, 0)], ids=["resumed", "suspended", "asleep"])
def test_suspending_and_resuming_take_the_template_at_once(
    world: World, decide: Decide, current: int, desired: int
) -> None:
    instance_snapshot = world({**RELEASE, "replicas": current}, rollout=slots(9), bridge=BUSY)

    update = decide(instance_snapshot, replicas=desired)

    assert (update.apply, update.started, update.reason) == (True, None, "UpToDate")


# Idleness must be proven.


UNPROVEN: dict[str, Json] = {
    "a request runs": {"bridge": BUSY},
    "a request is about to be claimed": {"bridge": connected(bridge_stats=stats(pending=1))},
    "a request is on its way": {"unfinished": 1},
    "its requests are not listed yet": {"listed": False},
    "nothing was heard in this process": {"bridge": BridgeView()},
    "the stream is broken": {"bridge": replace(connected(), connected=False, lost_since=NOW - seconds(599))},
    "the figures are those of an earlier pod": {
        "bridge": connected(pod_uid="an earlier pod"),
        "controller_started": NOW,
    },
}


@pytest.mark.parametrize("fields", UNPROVEN.values(), ids=UNPROVEN)
@pytest.mark.parametrize("change", [RELEASE, SPEC], ids=["release", "spec"])
def test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle(
    world: World, decide: Decide, fields: Json, change: Json
) -> None:
    fields = {"controller_started": NOW - seconds(30)} | fields

    update = decide(world(change, **fields))

    assert (update.status, update.reason, update.apply, update.reserve) == ("False", "UpdateHeld", False, None)


@pytest.mark.parametrize(("change", "cause"), [(RELEASE, "Release"), (SPEC, "Spec")])
def test_the_update_of_an_idle_instance_begins_with_its_status(
    world: World, decide: Decide, change: Json, cause: str
) -> None:
    update = decide(world(change))

    assert (update.status, update.reason, update.apply, update.reserve) == ("Unknown", "UpdateDraining", False, cause)


def test_an_update_that_has_begun_is_applied_while_nothing_runs(world: World, decide: Decide) -> None:
    update = decide(world(RELEASE, updated_status("Unknown", "UpdateDraining")))

    assert (update.apply, update.started, update.trial) == (True, NOW, True)


def test_an_update_that_has_begun_still_interrupts_nothing(world: World, decide: Decide) -> None:
    update = decide(world(RELEASE, updated_status("Unknown", "UpdateDraining", 10_000), bridge=BUSY))

    assert (update.apply, update.reason) == (False, "UpdateDraining")


def test_a_template_that_an_older_operator_applied_was_changed_by_the_release(world: World, decide: Decide) -> None:
    older = {"template_hash": "old", "spec_hash": None, "release_hash": None}

    assert decide(world(older)).reserve == UpdateCause.RELEASE


@pytest.mark.parametrize(
    "broken",
    [
        pod(phase="Failed"),
        pod(phase="Pending", ip=None, containers=()),
        pod(containers=EMACS_CRASHES),
        pod(containers=(ContainerView("bridge", waiting_reason="ImagePullBackOff"), ContainerView("emacs"))),
    ],
    ids=["ended", "pending", "crash loop", "no image"],
)
@pytest.mark.parametrize("change", [RELEASE, SPEC], ids=["release", "spec"])
def test_a_pod_in_which_nothing_can_run_is_repaired_at_once(
    world: World, decide: Decide, broken: PodView, change: Json
) -> None:
    failed = RolloutView(slots=slots(9).slots, failed=((NAMESPACE, "beta"),))

    update = decide(world(change, pod=broken, bridge=BridgeView(), rollout=failed))

    assert (update.apply, update.started) == (True, None)


@pytest.mark.parametrize("change", [RELEASE, SPEC], ids=["release", "spec"])
def test_a_pod_whose_bridge_sees_emacs_is_not_broken_because_the_kubelet_is_late(
    world: World, decide: Decide, change: Json
) -> None:
    starting = pod(phase="Pending", containers=(ContainerView("bridge", running=True), ContainerView("emacs")))

    update = decide(world(change, pod=starting, bridge=BUSY))

    assert (update.apply, update.reason) == (False, "UpdateHeld")


@pytest.mark.parametrize("absent", [None, pod(deleting=True)], ids=["no pod", "a pod that is stopping"])
def test_between_two_pods_the_user_gets_the_change_at_once_and_a_release_waits_for_its_turn(
    world: World, decide: Decide, absent: PodView | None
) -> None:
    fields = {"pod": absent, "bridge": BridgeView(), "rollout": slots(9)}

    assert decide(world(SPEC, **fields)).apply
    assert decide(world(RELEASE, **fields)).reason == "UpdateQueued"


# The time limit.


def test_holding_is_counted_from_the_condition_so_that_a_restart_of_the_controller_does_not_begin_anew(
    world: World, decide: Decide
) -> None:
    instance_snapshot = world(
        RELEASE, updated_status("False", "UpdateHeld", 599), bridge=BUSY, controller_started=NOW
    )

    assert (decide(instance_snapshot).reason, decide(instance_snapshot).requeue_after) == ("UpdateHeld", seconds(1))
    late = decide(instance_snapshot, NOW + seconds(1))
    assert (late.reason, late.apply, late.reserve) == ("UpdateDraining", False, UpdateCause.RELEASE)


def test_no_change_is_held_for_as_long_as_the_clock_was_set_back(world: World, decide: Decide) -> None:
    held = updated_status("False", "UpdateHeld", -3600)
    assert decide(world(RELEASE, held, bridge=BUSY)).reason == "UpdateDraining"


def test_a_change_without_figures_is_applied_once_the_bridge_was_silent_for_the_whole_time(
    world: World, decide: Decide
) -> None:
    silent = replace(connected(), connected=False, lost_since=NOW - seconds(600))
    begun = world(RELEASE, updated_status("Unknown", "UpdateDraining"), bridge=silent)

    assert (
        decide(world(RELEASE, updated_status("False", "UpdateHeld", 600), bridge=silent)).reserve
        == UpdateCause.RELEASE
    )
    assert decide(begun).apply
    assert not decide(replace(begun, bridge=replace(silent, lost_since=NOW - seconds(599)))).apply
    assert not decide(replace(begun, controller_started=NOW - seconds(599))).apply


# Few at a time.


FEW: dict[str, tuple[RolloutView, str]] = {
    "below the bound of the release": (slots(2), "UpdateDraining"),
    "at the bound of the release": (slots(3), "UpdateQueued"),
    "below the bound of the namespace": (slots(1, NAMESPACE), "UpdateDraining"),
    "at the bound of the namespace": (slots(2, NAMESPACE), "UpdateQueued"),
    "changes of other users in other namespaces": (slots(9, cause=UpdateCause.SPEC), "UpdateDraining"),
    "updates nobody follows any more": (slots(3, since=NOW - seconds(240)), "UpdateDraining"),
    "updates that take their time": (slots(3, since=NOW - seconds(239)), "UpdateQueued"),
    "instances that do not come to rest": (slots(3, since=NOW - seconds(120), draining=True), "UpdateDraining"),
    "instances that come to rest": (slots(3, since=NOW - seconds(119), draining=True), "UpdateQueued"),
    "updates that begin in the future": (slots(3, since=NOW + seconds(240)), "UpdateDraining"),
    "updates that begin at the end of time": (slots(3, since=END_OF_TIME), "UpdateDraining"),
}


@pytest.mark.parametrize(("view", "reason"), FEW.values(), ids=FEW)
def test_few_instances_are_updated_at_a_time(world: World, decide: Decide, view: RolloutView, reason: str) -> None:
    assert decide(world(RELEASE, rollout=view)).reason == reason


TRIED: dict[str, tuple[Json, RolloutView, str]] = {
    "the second instance, in another namespace": (RELEASE, slots(1, succeeded=0), "UpdateDraining"),
    "a third instance": (RELEASE, slots(2, succeeded=0), "UpdateQueued"),
    "a second instance of one namespace": (RELEASE, slots(1, NAMESPACE, succeeded=0), "UpdateQueued"),
    "a second instance once one has survived": (RELEASE, slots(1, NAMESPACE, succeeded=1), "UpdateDraining"),
    "beside a change of the user's": (
        RELEASE,
        slots(1, NAMESPACE, succeeded=0, cause=UpdateCause.SPEC),
        "UpdateDraining",
    ),
    "a change of the user's": (SPEC, slots(1, NAMESPACE, succeeded=0), "UpdateDraining"),
}


@pytest.mark.parametrize(("change", "view", "reason"), TRIED.values(), ids=TRIED)
def test_a_release_that_nobody_has_survived_yet_reaches_two_instances(
    world: World, decide: Decide, change: Json, view: RolloutView, reason: str
) -> None:
    many = replace(LIMITS, max_concurrent=9, max_concurrent_per_namespace=9)

    assert decide(world(change, rollout=view, config=replace(CONFIG, rollout=many))).reason == reason


def test_a_time_at_the_end_of_time_on_the_statefulset_stops_no_decision(world: World, decide: Decide) -> None:
    forged = {"update_started": END_OF_TIME}

    assert (
        decide(world(forged, updated_status("Unknown", "Updating", ready="False"), bridge=BridgeView())).reason
        == "Updating"
    )


def test_a_pod_that_started_at_the_end_of_time_stops_no_decision(world: World, decide: Decide) -> None:
    assert decide(world(RELEASE, bridge=BridgeView(), pod=pod(started=END_OF_TIME))).reason == "UpdateHeld"


def test_a_user_waits_only_for_the_own_namespace(world: World, decide: Decide) -> None:
    assert decide(world(SPEC, rollout=slots(9))).reason == "UpdateDraining"
    assert decide(world(SPEC, rollout=slots(2, NAMESPACE))).reason == "UpdateQueued"


def test_an_instance_does_not_wait_for_itself(world: World, decide: Decide) -> None:
    own = RolloutView((UpdateSlot(NAMESPACE, "alpha", NOW, UpdateCause.RELEASE),))
    few = replace(LIMITS, max_concurrent=1, max_concurrent_per_namespace=1)

    assert decide(world(RELEASE, rollout=own, config=replace(CONFIG, rollout=few))).reason == "UpdateDraining"


def test_a_busy_instance_is_not_drained_before_its_turn(world: World, decide: Decide) -> None:
    overdue = updated_status("False", "UpdateHeld", 10_000)

    assert decide(world(RELEASE, overdue, bridge=BUSY, rollout=slots(3))).reason == "UpdateQueued"


# The end of an update.


UPDATING: Json = {"update_started": NOW - seconds(60), "update_trial": True}


def test_an_update_is_followed_until_the_new_pod_is_ready(world: World, decide: Decide) -> None:
    instance_snapshot = world(UPDATING, updated_status("Unknown", "Updating"), pod=pod(template_hash="old"))
    assert instance_snapshot.statefulset is not None

    update = decide(instance_snapshot)
    assert (update.status, update.reason, update.requeue_after) == ("Unknown", "Updating", seconds(60))
    new = pod("new", template_hash=instance_snapshot.statefulset.template_hash)
    done = decide(replace(instance_snapshot, pod=new, bridge=connected(pod_uid="new")))
    assert (done.status, done.reason) == ("True", "UpToDate")


def test_an_update_that_takes_too_long_has_failed(world: World, decide: Decide) -> None:
    instance_snapshot = world(UPDATING, updated_status("Unknown", "Updating"), pod=None, bridge=BridgeView())

    update = decide(instance_snapshot, NOW + seconds(60))

    assert (update.status, update.reason) == ("False", "UpdateFailed")
    assert "has not processed" not in update.message


def test_an_update_that_kubernetes_does_not_begin_says_so_soon_and_once_it_has_failed(
    world: World, decide: Decide
) -> None:
    instance_snapshot = world(UPDATING, updated_status("Unknown", "Updating"), pod=pod(template_hash="old"))
    assert instance_snapshot.statefulset is not None
    statefulset = replace(instance_snapshot.statefulset, update_started=NOW)
    waits = replace(instance_snapshot, statefulset=replace(statefulset, taken_up=False))
    said, late = "has not processed StatefulSet efrit-alpha", waits.config.explain_after
    deadline = waits.config.rollout.progress_deadline

    begun = decide(waits)
    assert (begun.reason, said in begun.message, begun.requeue_after) == ("Updating", False, late)
    updating = decide(waits, NOW + late)
    assert (updating.reason, said in updating.message) == ("Updating", True)
    assert updating.requeue_after == deadline - late
    assert said not in decide(replace(waits, statefulset=statefulset), NOW + late).message
    failed_update = decide(waits, NOW + deadline)
    assert (failed_update.reason, said in failed_update.message) == ("UpdateFailed", True)


def test_an_instance_that_was_ready_after_its_update_has_not_failed_it_when_it_falls_ill_later(
    world: World, decide: Decide
) -> None:
    ill = world(UPDATING, updated_status("True", "UpToDate"), pod=pod(containers=EMACS_CRASHES), bridge=BridgeView())

    assert decide(ill, NOW + timedelta(days=1)).reason == "UpToDate"


def test_a_change_that_is_taken_back_while_it_waits_is_up_to_date(world: World, decide: Decide) -> None:
    assert (
        decide(world(UPDATING, updated_status("False", "UpdateHeld"), bridge=BUSY), NOW + seconds(999)).reason
        == "UpToDate"
    )


# A release that instances do not survive.


def failed(*namespaces: str, succeeded: int = 0) -> RolloutView:
    return RolloutView(failed=tuple((namespace, "beta") for namespace in namespaces), succeeded=succeeded)


FAILED: dict[str, tuple[RolloutView, bool]] = {
    "the first one failed": (failed("elsewhere"), True),
    "one namespace failed, another did not": (failed("elsewhere", succeeded=1), False),
    "two namespaces failed": (failed("elsewhere", "and-there", succeeded=9), True),
    "the own namespace failed": (failed(NAMESPACE, succeeded=9), True),
    "it is the one that failed": (RolloutView(failed=((NAMESPACE, "alpha"),)), False),
}


@pytest.mark.parametrize(("view", "stopped"), FAILED.values(), ids=FAILED)
def test_a_release_that_fails_is_not_rolled_out_further(
    world: World, decide: Decide, view: RolloutView, stopped: bool
) -> None:
    assert (decide(world(RELEASE, rollout=view)).reason == "UpdateStopped") is stopped


def test_a_failed_release_does_not_reach_an_instance_between_two_pods(world: World, decide: Decide) -> None:
    update = decide(world(RELEASE, pod=None, bridge=BridgeView(), rollout=failed("elsewhere")))

    assert (update.apply, update.reason) == (False, "UpdateStopped")


def test_a_change_by_its_user_is_made_although_the_release_is_stopped(world: World, decide: Decide) -> None:
    assert decide(world(SPEC, rollout=failed(NAMESPACE))).reserve == UpdateCause.SPEC


def test_an_instance_that_drains_serves_again_when_the_release_is_stopped(world: World, decide: Decide) -> None:
    draining = world(RELEASE, updated_status("Unknown", "UpdateDraining"), bridge=BUSY, rollout=failed("elsewhere"))

    assert (decide(draining).status, decide(draining).reason) == ("False", "UpdateStopped")


def test_other_tenants_are_not_named(world: World, decide: Decide) -> None:
    assert "beta" not in decide(world(RELEASE, rollout=failed("elsewhere"))).message
    assert "elsewhere" not in decide(world(RELEASE, rollout=failed("elsewhere"))).message
    assert "EfritInstance beta" in decide(world(RELEASE, rollout=failed(NAMESPACE))).message


def test_a_failed_instance_that_its_user_changes_stays_in_doubt_until_it_is_ready(
    world: World, decide: Decide
) -> None:
    changed = {**UPDATING, **SPEC}
    instance_snapshot = world(
        changed, updated_status("False", "UpdateFailed"), pod=pod(containers=EMACS_CRASHES), bridge=BridgeView()
    )

    update = decide(instance_snapshot)

    assert (update.apply, update.started, update.trial) == (True, NOW - seconds(60), True)


def test_only_an_instance_that_was_ready_puts_the_release_in_doubt(world: World, decide: Decide) -> None:
    ill = updated_status("Unknown", "UpdateDraining", ready="False")

    assert not decide(world(RELEASE, ill)).trial
    assert not decide(world(SPEC, updated_status("Unknown", "UpdateDraining"))).trial


def test_a_refused_change_leaves_the_instance_at_work(world: World, identity: Identity) -> None:
    instance_snapshot = world(RELEASE, updated_status("Unknown", "UpdateDraining"))
    children = build(instance_snapshot.instance, LIMITED, identity, 1, NOW)

    update = decide_update(instance_snapshot, children, 1, NOW, refused=True)

    assert (update.status, update.reason, update.apply) == ("False", "UpdateRefused", False)
