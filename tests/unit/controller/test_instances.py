"""decide/instances.py: children, connection, idleness and status of one instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from efrit.controller.decide.instances import RETRY_REFUSED, decide_instance
from efrit.controller.manifests import Identity, build
from efrit.controller.model.actions import (
    Action,
    ApplyChildren,
    ConfirmIdle,
    ConnectBridge,
    Delete,
    DisconnectBridge,
    PatchStatus,
    PauseHandover,
    ReadWarningEvents,
    Record,
    RequeueAfter,
    ReserveUpdate,
    ResumeHandover,
)
from efrit.controller.model.rollout import UpdateCause
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView
from efrit.protocol import ModelKey
from tests.unit.controller.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    Json,
    away,
    changed,
    condition,
    connected,
    emacs,
    instance,
    of_kind,
    pod,
    ready,
    seconds,
    statefulset,
    stats,
    the,
    written,
)

KEY = (NAMESPACE, "alpha")
LOSABLE = {"idle": {"suspendAfterSeconds": 60, "deleteAfterSeconds": 600}}
SUSPENDED = {"operatingMode": "Suspended"}
ASLEEP = {"suspendedIdle": True}

Decide = Callable[..., list[Action]]


@pytest.fixture
def decide(identity: Identity) -> Decide:
    def decided(given: InstanceSnapshot, now: datetime = NOW) -> list[Action]:
        return decide_instance(given, identity, now)

    return decided


@pytest.fixture
def applied(identity: Identity) -> Callable[..., InstanceSnapshot]:
    """Give a snapshot the StatefulSet that its children would leave behind."""

    def with_children(given: InstanceSnapshot, replicas: int = 1, **fields: Any) -> InstanceSnapshot:
        made = statefulset(build(given.instance, CONFIG, identity, replicas, NOW), replicas)
        accepted = given.instance.metadata.generation
        return changed(given, statefulset=replace(made, **fields), applied_generation=accepted)

    return with_children


def settled(given: InstanceSnapshot, actions: list[Action], **fields: Any) -> InstanceSnapshot:
    """The snapshot after the written status has come back from the API server."""
    status = written(actions)
    json: Json = given.instance.model_dump(mode="json", by_alias=True, exclude_none=True)
    renewed = type(given.instance).model_validate({**json, "status": status})
    return changed(given, instance=renewed, **fields)


def replicas(actions: list[Action]) -> int:
    (found,) = [each for each in the(actions, ApplyChildren).manifests if each["kind"] == "StatefulSet"]
    return int(found["spec"]["replicas"])


# Children.


def test_a_new_instance_gets_its_children(decide: Decide) -> None:
    apply = the(decide(away()), ApplyChildren)

    assert (apply.instance, apply.generation) == (KEY, 1)
    assert [each["kind"] for each in apply.manifests] == [
        "ServiceAccount",
        "Secret",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PersistentVolumeClaim",
        "StatefulSet",
    ]


def test_children_that_are_as_wanted_are_not_applied(decide: Decide, applied: Any) -> None:
    assert of_kind(decide(applied(ready())), ApplyChildren) == []


def test_a_resync_applies_children_that_are_as_wanted(decide: Decide, applied: Any) -> None:
    assert of_kind(decide(applied(changed(ready(), resync=True))), ApplyChildren)


@pytest.mark.parametrize("changed", [{"replicas": 0}, {"children_hash": "other"}, {"children_hash": None}])
def test_children_that_differ_are_applied(decide: Decide, applied: Any, changed: Json) -> None:
    assert of_kind(decide(applied(ready(), **changed)), ApplyChildren)


def test_an_instance_that_is_being_deleted_is_left_alone(decide: Decide) -> None:
    assert decide(ready(instance(deleting=True))) == []


# A changed pod template: what waits and what does not. When it may be applied is the matter of test_rollout.py.


def busy(**fields: Any) -> InstanceSnapshot:
    return ready(bridge=connected(told=stats(processing=1)), **fields)


def kinds(actions: list[Action]) -> list[str]:
    return [each["kind"] for apply in of_kind(actions, ApplyChildren) for each in apply.manifests]


def test_a_changed_pod_template_waits_for_running_work_and_everything_else_does_not(
    decide: Decide, applied: Any
) -> None:
    given = applied(busy(), template_hash="old", children_hash="old")

    actions = decide(given)

    assert kinds(actions) == [
        "ServiceAccount",
        "Secret",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PersistentVolumeClaim",
    ]
    assert condition(written(actions), "Ready")[:2] == ("True", "Ready")
    assert condition(written(actions), "Updated") == (
        "False",
        "UpdateHeld",
        "The changed pod template waits for the running requests to end.",
    )


def test_what_was_applied_beside_a_held_statefulset_is_not_applied_again(
    decide: Decide, applied: Any, identity: Identity
) -> None:
    digest = build(instance(), CONFIG, identity, 1, NOW).digest
    given = applied(busy(applied_digest=digest), template_hash="old", children_hash="old")

    assert of_kind(decide(given), ApplyChildren) == []


def test_the_status_says_that_an_update_begins_before_the_template_is_applied(decide: Decide, applied: Any) -> None:
    given = applied(ready(), template_hash="old")

    first = decide(given)
    second = decide(settled(given, first))

    assert first[0] == ReserveUpdate(KEY, UpdateCause.RELEASE)
    assert kinds(first) == []
    assert condition(written(first), "Updated")[:2] == ("Unknown", "UpdateDraining")
    assert kinds(second) == ["StatefulSet"]


def test_a_resync_of_a_busy_instance_leaves_its_statefulset_for_an_idle_moment(decide: Decide, applied: Any) -> None:
    given = changed(applied(busy()), resync=True)

    assert "StatefulSet" not in kinds(decide(given))
    assert "StatefulSet" in kinds(decide(replace(given, bridge=connected())))


def test_an_instance_that_fails_its_update_says_so_once_in_an_event(decide: Decide, applied: Any) -> None:
    broken = ready(pod=pod(template_hash="old"), bridge=BridgeView())
    given = applied(broken, update_started=NOW - seconds(600), update_trial=True)

    first = decide(given)
    again = decide(settled(given, first))

    assert [each.reason for each in of_kind(first, Record)] == ["UpdateFailed"]
    assert condition(written(first), "Updated")[:2] == ("False", "UpdateFailed")
    assert of_kind(again, Record) == []


def test_a_change_that_leaves_the_pod_alone_does_not_wait(decide: Decide, applied: Any) -> None:
    assert of_kind(decide(applied(busy(), children_hash="old")), ApplyChildren)


def test_suspending_does_not_wait_for_running_work(decide: Decide, applied: Any) -> None:
    given = replace(applied(busy()), instance=instance(spec=SUSPENDED))

    assert replicas(decide(given)) == 0


# Refused children.


def refused(ago: float, **fields: Any) -> InstanceSnapshot:
    return away(refused="exceeded quota", refused_generation=1, refused_time=NOW - seconds(ago), **fields)


def test_a_refused_child_is_not_applied_at_once_again(decide: Decide) -> None:
    actions = decide(refused(ago=10))

    assert of_kind(actions, ApplyChildren) == []
    assert RETRY_REFUSED - seconds(10) in [each.after for each in of_kind(actions, RequeueAfter)]


def test_a_refused_child_is_applied_again_after_half_a_minute(decide: Decide) -> None:
    assert of_kind(decide(refused(ago=30)), ApplyChildren)


def test_a_refused_child_is_applied_again_when_the_spec_changes(decide: Decide) -> None:
    assert of_kind(decide(refused(ago=1, given=instance(generation=2))), ApplyChildren)


def test_a_resync_applies_a_refused_child_again(decide: Decide) -> None:
    assert of_kind(decide(changed(refused(ago=1), resync=True)), ApplyChildren)


def test_a_refused_spec_that_was_taken_back_is_applied_though_the_statefulset_never_changed(
    decide: Decide, applied: Any
) -> None:
    given = applied(ready(instance(generation=3)))
    given = changed(given, refused="no such port", refused_generation=2, refused_time=NOW, applied_generation=0)

    assert of_kind(decide(given), ApplyChildren)


TOLD: Json = {"type": "Ready", "status": "True", "message": "", "lastTransitionTime": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("observed", "reason", "applies"),
    [
        (3, "Ready", False),
        # Somebody else may have applied a part of the generation between.
        (2, "Ready", True),
        (3, "ChildRefused", True),
    ],
)
def test_a_new_controller_believes_a_statefulset_that_the_status_vouches_for(
    decide: Decide, applied: Any, observed: int, reason: str, applies: bool
) -> None:
    status = {"observedGeneration": observed, "conditions": [{**TOLD, "reason": reason}]}
    given = changed(applied(ready(instance(generation=3, status=status))), applied_generation=0)

    assert bool(of_kind(decide(given), ApplyChildren)) is applies


def test_a_refused_child_is_told_in_status_and_event(decide: Decide) -> None:
    actions = decide(refused(ago=1))

    assert condition(written(actions), "Ready")[:2] == ("False", "ChildRefused")
    event = the(actions, Record)
    assert (event.type, event.reason) == ("Warning", "ChildRefused")
    assert "exceeded quota" in event.message


def test_a_refused_child_is_told_of_a_suspended_instance_too(decide: Decide) -> None:
    status = written(decide(refused(ago=1, given=instance(spec=SUSPENDED))))

    assert condition(status, "Ready")[:2] == ("False", "ChildRefused")
    assert condition(status, "Suspended")[:2] == ("True", "Suspended")
    assert status["phase"] == "NotReady"


def test_an_instance_that_cannot_be_suspended_is_not_called_so(decide: Decide) -> None:
    stuck = ready(instance(spec=SUSPENDED), refused="no", refused_generation=1, refused_time=NOW)
    status = written(decide(stuck))

    assert condition(status, "Ready")[:2] == ("False", "ChildRefused")
    assert condition(status, "Suspended")[:2] == ("False", "Suspending")


# The connection to the bridge.


def test_a_pod_with_an_address_is_connected_to(decide: Decide) -> None:
    assert the(decide(ready()), ConnectBridge) == ConnectBridge(KEY, "uid-alpha", "pod-uid-1", "10.1.2.3", 8443)


def test_a_stopping_pod_stays_connected_for_its_last_answers(decide: Decide) -> None:
    assert of_kind(decide(ready(pod=pod(deleting=True))), ConnectBridge)


@pytest.mark.parametrize("gone", [None, pod(ip=None), pod(phase="Failed"), pod(phase="Succeeded")])
def test_the_connection_to_a_pod_that_is_gone_is_closed(decide: Decide, gone: Any) -> None:
    assert the(decide(ready(pod=gone)), DisconnectBridge).instance == KEY


def test_where_no_connection_was_none_is_closed(decide: Decide) -> None:
    actions = decide(away())

    assert of_kind(actions, ConnectBridge) == []
    assert of_kind(actions, DisconnectBridge) == []


# Suspending on request.


def test_a_suspended_instance_is_scaled_to_zero(decide: Decide) -> None:
    actions = decide(ready(instance(spec=SUSPENDED)))

    assert replicas(actions) == 0
    status = written(actions)
    assert condition(status, "Ready")[:2] == ("False", "Suspending")
    assert condition(status, "Suspended")[:2] == ("False", "Suspending")
    assert status["phase"] == "Pending"


def test_a_suspended_instance_without_a_pod_says_so(decide: Decide) -> None:
    actions = decide(away(instance(spec=SUSPENDED)))

    status = written(actions)
    assert status["phase"] == "Suspended"
    assert condition(status, "Suspended")[:2] == ("True", "Suspended")
    assert condition(status, "QueueHealthy")[:2] == ("Unknown", "Unknown")
    assert (the(actions, Record).type, the(actions, Record).reason) == ("Normal", "Suspended")


def test_a_suspended_instance_stays_so_while_requests_wait(decide: Decide) -> None:
    assert replicas(decide(away(instance(spec=SUSPENDED), open_requests=3))) == 0


# Idleness.


def idle(ago: float, spec: Json | None = None, **fields: Any) -> InstanceSnapshot:
    given = instance(created=NOW - seconds(ago), spec=spec or LOSABLE)
    return ready(given, **fields)


def asleep(ago: float = 100, **fields: Any) -> InstanceSnapshot:
    return away(instance(created=NOW - seconds(ago), spec=LOSABLE, status=ASLEEP), **fields)


def test_an_idle_instance_is_suspended_after_its_time(decide: Decide) -> None:
    actions = decide(idle(60))

    assert replicas(actions) == 0
    assert written(actions)["suspendedIdle"] is True


def test_no_request_is_handed_over_from_before_the_pod_is_stopped(decide: Decide) -> None:
    for given in (idle(60), ready(instance(spec=SUSPENDED))):
        kinds = [type(each) for each in decide(given)]

        assert kinds.index(PauseHandover) < kinds.index(ApplyChildren)
        assert ResumeHandover not in kinds


def test_an_instance_that_is_not_stopped_after_all_gets_requests_again_once_it_is_scaled_up(decide: Decide) -> None:
    kinds = [type(each) for each in decide(asleep(open_requests=1, handover_paused=True))]

    assert kinds.index(ApplyChildren) < kinds.index(ResumeHandover)
    assert PauseHandover not in kinds


def test_the_hand_over_is_paused_once_and_resumed_once(decide: Decide) -> None:
    assert of_kind(decide(idle(60, handover_paused=True)), PauseHandover) == []
    assert of_kind(decide(idle(10)), ResumeHandover) == []


def test_idleness_never_rewrites_the_spec(decide: Decide) -> None:
    patch = the(decide(idle(60)), PatchStatus)

    assert set(patch.status) & {"spec", "operatingMode"} == set()


def test_an_instance_that_is_idle_for_less_looks_again_in_time(decide: Decide) -> None:
    actions = decide(idle(45))

    assert seconds(15) in [each.after for each in of_kind(actions, RequeueAfter)]
    assert replicas(actions) == 1
    assert "suspendedIdle" not in written(actions)


def test_a_sleeping_instance_stays_asleep(decide: Decide) -> None:
    actions = decide(asleep())

    assert replicas(actions) == 0
    assert condition(written(actions), "Suspended")[:2] == ("True", "SuspendedIdle")
    assert written(actions)["phase"] == "Suspended"


def test_a_sleeping_instance_stays_asleep_until_its_work_is_known(decide: Decide) -> None:
    assert replicas(decide(asleep(listed=False))) == 0


def test_a_request_wakes_a_sleeping_instance(decide: Decide) -> None:
    actions = decide(asleep(open_requests=1))

    assert replicas(actions) == 1
    assert "suspendedIdle" not in written(actions)


def test_an_instance_whose_idle_rules_are_taken_away_wakes_up(decide: Decide) -> None:
    given = away(instance(status=ASLEEP))

    first = decide(given)
    second = decide(settled(given, first))

    assert replicas(second) == 1


def test_an_instance_idle_for_too_long_is_deleted_after_a_last_check(decide: Decide) -> None:
    actions = decide(idle(600))

    assert [type(each) for each in actions] == [PauseHandover, ConfirmIdle, Delete, Record]
    assert the(actions, Delete) == Delete("EfritInstance", KEY, "uid-alpha", "10")
    assert the(actions, Record).reason == "IdleDeleted"


def test_an_instance_with_work_is_never_deleted(decide: Decide) -> None:
    assert of_kind(decide(idle(10_000, open_requests=1)), Delete) == []


def test_without_idle_rules_nothing_is_ever_suspended(decide: Decide) -> None:
    actions = decide(ready(instance(created=NOW - seconds(10**8))))

    assert replicas(actions) == 1
    assert of_kind(actions, RequeueAfter) == []


# Explanations of a slow start.


def test_a_pod_that_takes_long_to_appear_is_looked_into(decide: Decide) -> None:
    actions = decide(away(instance(created=NOW - seconds(4))))

    assert the(actions, ReadWarningEvents).instance == KEY
    assert seconds(5) in [each.after for each in of_kind(actions, RequeueAfter)]


def test_a_pod_may_take_some_seconds_to_appear_before_anybody_asks(decide: Decide) -> None:
    actions = decide(away(instance(created=NOW - seconds(1))))

    assert of_kind(actions, ReadWarningEvents) == []
    assert seconds(3) in [each.after for each in of_kind(actions, RequeueAfter)]


def test_the_start_of_a_pod_is_counted_from_its_creation(decide: Decide) -> None:
    starting = ready(pod=pod(created=NOW - seconds(1)), bridge=BridgeView())

    assert of_kind(decide(starting), ReadWarningEvents) == []


def test_a_ready_instance_is_not_looked_into(decide: Decide) -> None:
    assert of_kind(decide(ready()), ReadWarningEvents) == []


# The status.


def test_a_ready_instance_fills_the_whole_status(decide: Decide) -> None:
    given = ready(
        instance(generation=3),
        bridge=connected(told=stats(pending=1, processing=1, processed=9, succeeded=8, failed=1)),
        last_activity=NOW,
    )

    status = written(decide(given))

    assert {key: value for key, value in status.items() if key != "conditions"} == {
        "phase": "Ready",
        "observedGeneration": 3,
        "queue": {
            "pending": 1,
            "processing": 1,
            "processed": 9,
            "succeeded": 8,
            "failed": 1,
            "interrupted": 0,
            "averageProcessingSeconds": 0,
            "oldestPendingSeconds": 0,
        },
        "podName": "efrit-alpha-0",
        "emacsVersion": "30.1",
        "image": "example.org/efrit-emacs:30",
        "startTime": "2026-03-01T11:50:00Z",
        "lastActivityTime": "2026-03-01T12:00:00Z",
        "handover": {"state": "Open", "id": "handover-1"},
    }
    assert {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]} == {
        "Ready": ("True", "Ready"),
        "QueueHealthy": ("True", "Working"),
        "EmacsResponsive": ("True", "Responding"),
        "Suspended": ("False", "Running"),
        "Updated": ("True", "UpToDate"),
    }
    assert {each["observedGeneration"] for each in status["conditions"]} == {3}


def test_an_emacs_without_signs_of_life_is_told(decide: Decide) -> None:
    actions = decide(ready(bridge=connected(told=stats(emacs=emacs(responsive=False)))))

    status = written(actions)
    assert condition(status, "EmacsResponsive")[:2] == ("False", "NotResponding")
    assert (status["phase"], condition(status, "Ready")[0]) == ("NotReady", "False")
    assert the(actions, Record).reason == "NotResponding"


def test_a_starting_instance_is_pending_and_costs_no_event(decide: Decide) -> None:
    actions = decide(away(instance(created=NOW)))

    assert written(actions)["phase"] == "Pending"
    assert condition(written(actions), "EmacsResponsive")[:2] == ("Unknown", "Starting")
    assert of_kind(actions, Record) == []


def test_the_last_known_version_and_figures_outlive_the_pod(decide: Decide) -> None:
    given = ready()
    after = settled(given, decide(given), pod=None, bridge=BridgeView())

    status = written(decide(after))

    assert status["emacsVersion"] == "30.1"
    assert status["queue"]["processed"] == 0
    assert "podName" not in status


def test_an_unchanged_status_is_not_written(decide: Decide, applied: Any) -> None:
    given = applied(ready())
    after = settled(given, decide(given))

    assert of_kind(decide(after), PatchStatus) == []


def test_becoming_ready_is_an_event_once(decide: Decide) -> None:
    given = ready()
    first = decide(given)
    again = settled(given, first, bridge=connected(told=stats(processed=1)))

    assert the(first, Record).reason == "Ready"
    assert of_kind(decide(again), Record) == []


def test_figures_that_move_are_written_every_ten_seconds_at_most(decide: Decide) -> None:
    given = ready()
    moved = settled(
        given,
        decide(given),
        bridge=connected(told=stats(processed=1, succeeded=1)),
        stats_written=NOW - seconds(4),
    )

    early, late = decide(moved), decide(moved, NOW + seconds(6))

    assert of_kind(early, PatchStatus) == []
    assert seconds(6) in [each.after for each in of_kind(early, RequeueAfter)]
    assert written(late)["queue"]["processed"] == 1


def test_a_condition_that_changes_is_written_at_once(decide: Decide) -> None:
    given = ready()
    silent = settled(
        given,
        decide(given),
        bridge=connected(told=stats(emacs=emacs(responsive=False))),
        stats_written=NOW,
    )

    assert condition(written(decide(silent)), "Ready")[1] == "NotResponding"


def test_a_condition_keeps_its_transition_time_while_its_status_stays(decide: Decide) -> None:
    given = ready()
    moved = settled(given, decide(given), bridge=connected(told=stats(pending=1)))

    status = written(decide(moved, NOW + seconds(60)))

    assert {each["lastTransitionTime"] for each in status["conditions"]} == {"2026-03-01T12:00:00Z"}


def test_the_patch_is_bound_to_the_version_decided_about(decide: Decide) -> None:
    patch = the(decide(ready(instance(version="77"))), PatchStatus)

    assert (patch.kind, patch.key, patch.uid, patch.resource_version) == ("EfritInstance", KEY, "uid-alpha", "77")


def test_children_are_applied_before_the_status_is_written(decide: Decide) -> None:
    kinds = [type(each) for each in decide(ready())]

    assert kinds.index(ApplyChildren) < kinds.index(PatchStatus)


def test_a_new_controller_lets_a_ready_instance_be_ready_until_it_has_heard_from_its_pod(decide: Decide) -> None:
    known = ready(pod=pod(started=NOW - seconds(600)))
    known = settled(known, decide(known))

    assert of_kind(decide(replace(known, bridge=BridgeView())), PatchStatus) == []
    lost = replace(known, bridge=BridgeView(problem="connection refused"))
    assert condition(written(decide(lost)), "Ready")[0] == "False"
    other = replace(known, bridge=BridgeView(), pod=pod("new", started=NOW - seconds(5)))
    assert condition(written(decide(other)), "Ready")[0] == "False"


@pytest.mark.parametrize("spec", [{}, SUSPENDED], ids=["running", "suspended"])
def test_a_lost_node_is_told_with_a_warning_as_soon_as_the_grace_period_is_over(decide: Decide, spec: Json) -> None:
    stuck = pod(deleting=True, deletion_deadline=NOW, node="worker-1")
    given = ready(instance(spec=spec), pod=stuck, bridge=BridgeView())

    before, after = decide(given), decide(given, NOW + seconds(30))

    assert seconds(30) in [each.after for each in of_kind(before, RequeueAfter)]
    assert [each.reason for each in of_kind(before, Record)] == []
    assert condition(written(after), "Ready")[:2] == ("False", "NodeLost")
    assert [(each.type, each.reason) for each in of_kind(after, Record)] == [("Warning", "NodeLost")]


def with_key(key: ModelKey) -> InstanceSnapshot:
    model = {"model": {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "token"}}}
    return ready(instance(spec=model), bridge=connected(told=stats(emacs=emacs(model_key=key))))


def test_a_key_that_is_too_short_is_a_condition_and_one_event_and_evals_go_on(decide: Decide) -> None:
    given = with_key(ModelKey.TOO_SHORT)
    actions = decide(given)
    status = written(actions)
    assert condition(status, "ModelReady")[:2] == ("False", "KeyTooShort")
    assert condition(status, "Ready")[0] == "True"
    assert {each.reason for each in of_kind(actions, Record)} == {"Ready", "KeyTooShort"}

    again = settled(given, actions)
    assert of_kind(decide(again), Record) == []


def test_a_key_that_was_replaced_and_a_model_that_was_removed_change_the_condition(decide: Decide) -> None:
    given = with_key(ModelKey.TOO_SHORT)
    mended = settled(given, decide(given), bridge=with_key(ModelKey.USABLE).bridge)
    actions = decide(mended)
    assert condition(written(actions), "ModelReady")[:2] == ("True", "KeyRead")

    after = settled(mended, actions)
    spec = after.instance.spec.model_copy(update={"model": None})
    removed = decide(ready(after.instance.model_copy(update={"spec": spec})))
    assert "ModelReady" not in {each["type"] for each in written(removed)["conditions"]}
