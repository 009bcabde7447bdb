"""decide/instances.py: children, connection, idleness and status of one instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from efrit.api import EfritInstance
from efrit.controller.decide.instances import RETRY_REFUSED, decide_instance
from efrit.controller.manifests import Identity, build
from efrit.controller.model.actions import (
    Action,
    ApplyChildren,
    ConnectBridge,
    DisconnectBridge,
    PatchStatus,
    PauseHandover,
    ReadWarningEvents,
    Record,
    RemoveInstance,
    RequeueAfter,
    ReserveUpdate,
    ResumeHandover,
)
from efrit.controller.model.rollout import UpdateCause
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView
from efrit.protocol.view import ModelKey, Stats
from tests.support.factory import (
    CONFIG,
    NAMESPACE,
    NOW,
    Json,
    away,
    changed,
    condition,
    condition_json,
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
    def decided(instance_snapshot: InstanceSnapshot, now: datetime = NOW) -> list[Action]:
        return decide_instance(instance_snapshot, identity, now)

    return decided


@pytest.fixture
def applied(identity: Identity) -> Callable[..., InstanceSnapshot]:
    """Give a snapshot the StatefulSet that its children would leave behind."""

    def with_children(instance_snapshot: InstanceSnapshot, replicas: int = 1, **fields: Any) -> InstanceSnapshot:
        made = statefulset(build(instance_snapshot.instance, CONFIG, identity, replicas, NOW), replicas)
        accepted = instance_snapshot.instance.metadata.generation
        return changed(instance_snapshot, statefulset=replace(made, **fields), applied_generation=accepted)

    return with_children


def settled(instance_snapshot: InstanceSnapshot, actions: list[Action], **fields: Any) -> InstanceSnapshot:
    """Return the snapshot after the written status has come back from the API server."""
    status = written(actions)
    json: Json = instance_snapshot.instance.model_dump(mode="json", by_alias=True, exclude_none=True)
    renewed = type(instance_snapshot.instance).model_validate({**json, "status": status})
    return changed(instance_snapshot, instance=renewed, **fields)


def replicas(actions: list[Action]) -> int:
    (stateful_set,) = [
        manifest for manifest in the(actions, ApplyChildren).manifests if manifest["kind"] == "StatefulSet"
    ]
    return int(stateful_set["spec"]["replicas"])


def afters(actions: list[Action]) -> list[timedelta]:
    return [action.after for action in of_kind(actions, RequeueAfter)]


def events(actions: list[Action]) -> list[tuple[str, str]]:
    return [(record.type, record.reason) for record in of_kind(actions, Record)]


# Children.

OLD = {"template_hash": "old", "children_hash": "old"}
ALL = ["ServiceAccount", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "PersistentVolumeClaim", "StatefulSet"]
WITHOUT_POD = ALL[:-1]


def kinds(actions: list[Action]) -> list[str]:
    return [manifest["kind"] for apply in of_kind(actions, ApplyChildren) for manifest in apply.manifests]


def busy(**fields: Any) -> InstanceSnapshot:
    return ready(bridge=connected(bridge_stats=stats(processing=1)), **fields)


def refused(ago: float, **fields: Any) -> InstanceSnapshot:
    return away(refused="exceeded quota", refused_generation=1, refused_time=NOW - seconds(ago), **fields)


def test_a_new_instance_gets_its_children(decide: Decide) -> None:
    apply = the(decide(away()), ApplyChildren)

    assert (apply.instance, apply.generation) == (KEY, 1)
    assert [manifest["kind"] for manifest in apply.manifests] == ALL


def ready_status(observed: int, reason: str) -> Json:
    return {"observedGeneration": observed, "conditions": [condition_json("Ready", "True", reason)]}


# What is known, how the StatefulSet differs from what is wanted, other facts: what is applied. When a changed
# template may be applied is the matter of test_rollout.py.
APPLIED: dict[str, tuple[InstanceSnapshot, Json, Json, list[str]]] = {
    "children as wanted": (ready(), {}, {}, []),
    "at a resync": (ready(), {}, {"resync": True}, ALL),
    "no replicas": (ready(), {"replicas": 0}, {}, ["StatefulSet"]),
    "others": (ready(), {"children_hash": "other"}, {}, ALL),
    "of an older operator": (ready(), {"children_hash": None}, {}, ALL),
    "others, while a request runs": (busy(), {"children_hash": "old"}, {}, WITHOUT_POD),
    "another template, while a request runs": (busy(), OLD, {}, WITHOUT_POD),
    "all but the template, which waits": (busy(), OLD, {"applied_digest": "as wanted"}, []),
    "at a resync, while a request runs": (busy(), {}, {"resync": True}, WITHOUT_POD),
    "a spec that was refused and is taken back": (
        ready(instance(generation=3)),
        {},
        {"refused": "no such port", "refused_generation": 2, "refused_time": NOW, "applied_generation": 0},
        ALL,
    ),
    "a StatefulSet that the status vouches for": (
        ready(instance(generation=3, status=ready_status(3, "Ready"))),
        {},
        {"applied_generation": 0},
        [],
    ),
    "one that somebody else may have applied in part": (
        ready(instance(generation=3, status=ready_status(2, "Ready"))),
        {},
        {"applied_generation": 0},
        ALL,
    ),
    "one that the status calls refused": (
        ready(instance(generation=3, status=ready_status(3, "ChildRefused"))),
        {},
        {"applied_generation": 0},
        ALL,
    ),
}


@pytest.mark.parametrize(("instance_snapshot", "current", "facts", "expected"), APPLIED.values(), ids=APPLIED)
def test_which_children_are_applied(
    decide: Decide, applied: Any, instance_snapshot: InstanceSnapshot, current: Json, facts: Json, expected: list[str]
) -> None:
    if "applied_digest" in facts:
        facts = {"applied_digest": applied(instance_snapshot).statefulset.children_hash}

    assert kinds(decide(changed(applied(instance_snapshot, **current), **facts))) == expected


@pytest.mark.parametrize(
    ("instance_snapshot", "again"),
    [
        (refused(ago=10), False),
        (refused(ago=30), True),
        (refused(ago=1, efrit_instance=instance(generation=2)), True),
        (changed(refused(ago=1), resync=True), True),
        (refused(ago=-3600), True),
    ],
    ids=["at once", "after half a minute", "when the spec changes", "at a resync", "where the clock was set back"],
)
def test_when_a_refused_child_is_applied_again(
    decide: Decide, instance_snapshot: InstanceSnapshot, again: bool
) -> None:
    actions = decide(instance_snapshot)

    assert bool(of_kind(actions, ApplyChildren)) is again
    assert (RETRY_REFUSED - seconds(10) in afters(actions)) is not again


def held(status: Mapping[str, Any] | None = None, **fields: Any) -> InstanceSnapshot:
    """Return the picture of an instance that is deleted and waits for finalizers."""
    finalizers = ["example.org/hold", "foregroundDeletion"]
    return ready(instance(deleting=True, finalizers=finalizers, status=dict(status or {})), **fields)


def test_an_instance_that_is_being_deleted_says_what_holds_it_and_nothing_is_applied_to_it(decide: Decide) -> None:
    actions = decide(held(pod=None, bridge=BridgeView()))

    (patch,) = actions
    assert isinstance(patch, PatchStatus)
    assert patch.status["phase"] == "NotReady"
    status, reason, message = condition(patch.status, "Ready")
    assert (status, reason) == ("False", "Deleting")
    assert "example.org/hold, foregroundDeletion" in message
    assert decide(held(patch.status, pod=None, bridge=BridgeView())) == []


def test_the_last_answers_of_an_instance_that_is_being_deleted_are_heard(decide: Decide) -> None:
    for stopping in (False, True):
        connect = the(decide(held(pod=pod(deleting=stopping))), ConnectBridge)
        assert connect == ConnectBridge(KEY, "uid-alpha", "pod-uid-1", "10.1.2.3", 8443)


def test_an_instance_that_is_being_deleted_names_the_lost_node_that_keeps_its_pod(decide: Decide) -> None:
    stuck = pod(deleting=True, deletion_deadline=NOW, node="worker-1")
    instance_snapshot = held(pod=stuck, bridge=BridgeView())

    before, after = decide(instance_snapshot), decide(instance_snapshot, NOW + seconds(30))

    assert seconds(30) in afters(before)
    assert condition(written(before), "Ready")[1] == "Deleting"
    assert condition(written(after), "Ready")[1] == "NodeLost"


def test_of_many_finalizers_the_first_ones_are_named(decide: Decide) -> None:
    many = [f"example.org/{number}-{'x' * 200}" for number in range(100)]
    actions = decide(ready(instance(deleting=True, finalizers=many)))

    message = condition(written(actions), "Ready")[2]
    assert "example.org/4-" in message
    assert "95 more" in message
    assert len(message) < 2048


def test_a_template_that_waits_is_said_to(decide: Decide, applied: Any) -> None:
    status = written(decide(applied(busy(), **OLD)))

    assert condition(status, "Ready")[:2] == ("True", "Ready")
    message = "The changed pod template waits for the running requests to end."
    assert condition(status, "Updated") == ("False", "UpdateHeld", message)


def test_an_instance_that_is_served_before_the_others_are_known_is_not_updated(
    identity: Identity, applied: Any
) -> None:
    outdated, current = applied(ready(), template_hash="old"), applied(ready())

    assert decide_instance(outdated, identity, NOW, early=True) == []
    assert decide_instance(current, identity, NOW, early=True) == decide_instance(current, identity, NOW)


def test_the_status_says_that_an_update_begins_before_the_template_is_applied(decide: Decide, applied: Any) -> None:
    instance_snapshot = applied(ready(), template_hash="old")

    first = decide(instance_snapshot)
    second = decide(settled(instance_snapshot, first))

    assert first[0] == ReserveUpdate(KEY, UpdateCause.RELEASE)
    assert kinds(first) == []
    assert condition(written(first), "Updated")[:2] == ("Unknown", "UpdateDraining")
    assert kinds(second) == ["StatefulSet"]


def test_an_instance_that_fails_its_update_says_so_once_in_an_event(decide: Decide, applied: Any) -> None:
    broken = ready(pod=pod(template_hash="old"), bridge=BridgeView())
    instance_snapshot = applied(broken, update_started=NOW - seconds(600), update_trial=True)

    first = decide(instance_snapshot)
    again = decide(settled(instance_snapshot, first))

    assert [record.reason for record in of_kind(first, Record)] == ["UpdateFailed"]
    assert condition(written(first), "Updated")[:2] == ("False", "UpdateFailed")
    assert of_kind(again, Record) == []


@pytest.mark.parametrize(
    ("instance_snapshot", "suspended", "phase"),
    [
        (refused(ago=1), ("False", "Running"), "NotReady"),
        (refused(ago=1, efrit_instance=instance(spec=SUSPENDED)), ("True", "Suspended"), "NotReady"),
        (
            ready(instance(spec=SUSPENDED), refused="exceeded quota", refused_generation=1, refused_time=NOW),
            ("False", "Suspending"),
            "NotReady",
        ),
    ],
    ids=["running", "suspended", "cannot be suspended"],
)
def test_a_refused_child_is_reported_in_status_and_event(
    decide: Decide, instance_snapshot: InstanceSnapshot, suspended: tuple[str, str], phase: str
) -> None:
    actions = decide(instance_snapshot)

    status = written(actions)
    assert condition(status, "Ready")[:2] == ("False", "ChildRefused")
    assert (condition(status, "Suspended")[:2], status["phase"]) == (suspended, phase)
    assert ("Warning", "ChildRefused") in events(actions)
    assert any("exceeded quota" in record.message for record in of_kind(actions, Record))


@pytest.mark.parametrize(
    ("sentence", "reported"),
    [
        ("exceeded quota: pods, used: 10", []),
        ("exceeded quota: pods, used: 9", []),
        ("violates PodSecurity", [("Warning", "ChildRefused")]),
    ],
)
def test_another_refusal_than_before_is_reported_by_another_event(
    decide: Decide, sentence: str, reported: list[tuple[str, str]]
) -> None:
    facts: dict[str, Any] = {"refused_generation": 1, "refused_time": NOW}
    first = written(decide(ready(refused="exceeded quota: pods, used: 10", **facts)))
    again = decide(ready(instance(status=first), refused=sentence, **facts))
    assert events(again) == reported
    assert all(sentence in record.message for record in of_kind(again, Record))


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


# Suspending on request, and for idleness. When an instance counts as idle is the matter of test_idle.py.


def idle(ago: float, **fields: Any) -> InstanceSnapshot:
    return ready(instance(created=NOW - seconds(ago), spec=LOSABLE), **fields)


def asleep(**fields: Any) -> InstanceSnapshot:
    return away(instance(created=NOW - seconds(100), spec=LOSABLE, status=ASLEEP), **fields)


@pytest.mark.parametrize(
    ("instance_snapshot", "expected", "phase", "suspended"),
    [
        (ready(instance(spec=SUSPENDED)), 0, "Pending", ("False", "Suspending")),
        (replace(busy(), instance=instance(spec=SUSPENDED)), 0, "Pending", ("False", "Suspending")),
        (away(instance(spec=SUSPENDED)), 0, "Suspended", ("True", "Suspended")),
        (away(instance(spec=SUSPENDED), open_requests=3), 0, "Suspended", ("True", "Suspended")),
        (idle(60), 0, "Pending", ("False", "Suspending")),
        (idle(45), 1, "Ready", ("False", "Running")),
        (asleep(), 0, "Suspended", ("True", "SuspendedIdle")),
        (asleep(listed=False), 0, "Suspended", ("True", "SuspendedIdle")),
        (asleep(open_requests=1), 1, "Pending", ("False", "Running")),
        (ready(instance(created=NOW - seconds(10**8))), 1, "Ready", ("False", "Running")),
    ],
    ids=[
        "suspended",
        "suspended, though a request runs",
        "suspended, without a pod",
        "suspended, though requests wait",
        "idle",
        "idle for less",
        "asleep",
        "asleep, its work is not known",
        "asleep, a request comes",
        "without idle rules",
    ],
)
def test_how_many_pods_an_instance_gets(
    decide: Decide, instance_snapshot: InstanceSnapshot, expected: int, phase: str, suspended: tuple[str, str]
) -> None:
    actions = decide(instance_snapshot)

    status = written(actions)
    assert replicas(actions) == expected
    assert (status["phase"], condition(status, "Suspended")[:2]) == (phase, suspended)
    assert status.get("suspendedIdle", False) is (expected == 0 and instance_snapshot.instance.spec.idle is not None)
    assert not {"spec", "operatingMode"} & set(status), "the spec is its owner's"


def test_a_suspended_instance_says_so_in_an_event_and_nothing_of_its_queue(decide: Decide) -> None:
    actions = decide(away(instance(spec=SUSPENDED)))

    assert condition(written(actions), "QueueHealthy")[:2] == ("Unknown", "Unknown")
    assert events(actions) == [("Normal", "Suspended")]


@pytest.mark.parametrize(
    ("instance_snapshot", "expected"),
    [
        (idle(60), [PauseHandover, ApplyChildren]),
        (ready(instance(spec=SUSPENDED)), [PauseHandover, ApplyChildren]),
        (idle(60, handover_paused=True), [ApplyChildren]),
        (asleep(open_requests=1, handover_paused=True), [ApplyChildren, ResumeHandover]),
        (idle(10), [ApplyChildren]),
    ],
    ids=["before it is stopped", "before it is suspended", "once", "once it is scaled up again", "not without cause"],
)
def test_when_the_hand_over_is_paused_and_resumed(
    decide: Decide, instance_snapshot: InstanceSnapshot, expected: list[type]
) -> None:
    order = [type(action) for action in decide(instance_snapshot)]

    assert [kind for kind in order if kind in (PauseHandover, ApplyChildren, ResumeHandover)] == expected


def test_an_instance_whose_idle_rules_are_taken_away_wakes_up(decide: Decide) -> None:
    instance_snapshot = away(instance(status=ASLEEP))

    assert replicas(decide(settled(instance_snapshot, decide(instance_snapshot)))) == 1


def test_an_instance_idle_for_too_long_is_deleted_after_a_last_check(decide: Decide) -> None:
    actions = decide(idle(600))

    assert [type(action) for action in actions] == [RemoveInstance, Record]
    assert the(actions, RemoveInstance) == RemoveInstance(KEY, "uid-alpha", "10", only_idle=True)
    assert the(actions, Record).reason == "IdleDeleted"
    assert of_kind(decide(idle(10_000, open_requests=1)), RemoveInstance) == []


def refused_before(created: datetime) -> EfritInstance:
    """Return an instance whose status says why there is no pod."""
    refused = {**condition_json("Ready", "False", "ChildRefused"), "message": "The pod cannot be created: quota"}
    return instance(created=created, status={"conditions": [refused]})


def unmounted(**facts: Any) -> InstanceSnapshot:
    """Return an instance whose pod waits for something that does not exist."""
    missing = 'MountVolume.SetUp failed for volume "init" : configmap "first" not found'
    return ready(pod=pod(containers=()), bridge=BridgeView(), problem=missing, **facts)


@pytest.mark.parametrize(
    ("instance_snapshot", "reads_events", "again"),
    [
        (idle(45), False, 15),
        (ready(instance(created=NOW - seconds(10**8))), False, None),
        (away(instance(created=NOW - seconds(4))), True, 5),
        (away(instance(created=NOW - seconds(1))), False, 3),
        (ready(pod=pod(created=NOW - seconds(1)), bridge=BridgeView()), False, 3),
        (
            away(instance(created=NOW - seconds(64)), problem="exceeded quota", explained_time=NOW - seconds(60)),
            True,
            60,
        ),
        (away(refused_before(NOW - seconds(4))), True, 5),
        (unmounted(explained_time=NOW - seconds(300)), True, 60),
        (unmounted(explained_time=NOW - seconds(20)), False, 40),
        (ready(), False, None),
    ],
    ids=[
        "idle soon",
        "without idle rules",
        "its pod takes long to appear",
        "its pod may take some seconds to appear",
        "its pod has just appeared",
        "its pod was refused a minute ago",
        "its pod was refused, as an earlier process has found",
        "what its pod mounts did not exist a while ago",
        "what its pod mounts did not exist just now",
        "ready",
    ],
)
def test_when_an_instance_is_reconciled_again_and_into_what_keeps_it(
    decide: Decide, instance_snapshot: InstanceSnapshot, reads_events: bool, again: float | None
) -> None:
    actions = decide(instance_snapshot)

    assert [read.instance for read in of_kind(actions, ReadWarningEvents)] == [KEY] * reads_events
    assert seconds(again) in afters(actions) if again else afters(actions) == []


# The status.


def test_a_ready_instance_fills_the_whole_status(decide: Decide) -> None:
    instance_snapshot = ready(
        instance(generation=3),
        bridge=connected(bridge_stats=stats(pending=1, processing=1, processed=9, succeeded=8, failed=1)),
        last_activity=NOW,
    )

    status = written(decide(instance_snapshot))

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
    assert {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]} == {
        "Ready": ("True", "Ready"),
        "QueueHealthy": ("True", "Working"),
        "EmacsResponsive": ("True", "Responding"),
        "Suspended": ("False", "Running"),
        "Updated": ("True", "UpToDate"),
    }
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {3}


def test_an_emacs_without_signs_of_life_is_reported(decide: Decide) -> None:
    actions = decide(ready(bridge=connected(bridge_stats=stats(emacs=emacs(responsive=False)))))

    status = written(actions)
    assert condition(status, "EmacsResponsive")[:2] == ("False", "NotResponding")
    assert (status["phase"], condition(status, "Ready")[0]) == ("NotReady", "False")
    assert events(actions) == [("Warning", "NotResponding")]


def test_an_emacs_that_has_just_started_and_is_yet_to_report_is_starting_and_costs_no_event(decide: Decide) -> None:
    unheard = connected(bridge_stats=stats(emacs=emacs(responsive=False)))
    actions = decide(ready(pod=pod(started=NOW - seconds(10)), bridge=unheard))

    assert condition(written(actions), "Ready")[:2] == ("False", "Starting")
    assert condition(written(actions), "EmacsResponsive")[:2] == ("Unknown", "Starting")
    assert events(actions) == []
    assert seconds(20) in afters(actions)


def test_a_starting_instance_is_pending_and_costs_no_event(decide: Decide) -> None:
    actions = decide(away(instance(created=NOW)))

    assert written(actions)["phase"] == "Pending"
    assert condition(written(actions), "EmacsResponsive")[:2] == ("Unknown", "Starting")
    assert of_kind(actions, Record) == []


def test_the_last_known_version_and_figures_outlive_the_pod(decide: Decide) -> None:
    instance_snapshot = ready()
    after = settled(instance_snapshot, decide(instance_snapshot), pod=None, bridge=BridgeView())

    status = written(decide(after))

    assert status["emacsVersion"] == "30.1"
    assert status["queue"]["processed"] == 0
    assert "podName" not in status


def test_an_unchanged_status_is_not_written(decide: Decide, applied: Any) -> None:
    instance_snapshot = applied(ready())

    assert of_kind(decide(settled(instance_snapshot, decide(instance_snapshot))), PatchStatus) == []


def test_becoming_ready_is_an_event_once(decide: Decide) -> None:
    first = decide(ready())
    again = settled(ready(), first, bridge=connected(bridge_stats=stats(processed=1)))

    assert the(first, Record).reason == "Ready"
    assert of_kind(decide(again), Record) == []


def moved(decide: Decide, bridge_stats: Stats, **fields: Any) -> InstanceSnapshot:
    """Return a ready instance whose bridge tells something else by now."""
    return settled(ready(), decide(ready()), bridge=connected(bridge_stats=bridge_stats), **fields)


def test_figures_that_move_are_written_every_ten_seconds_at_most(decide: Decide) -> None:
    instance_snapshot = moved(decide, stats(processed=1, succeeded=1), stats_written=NOW - seconds(4))

    early, late = decide(instance_snapshot), decide(instance_snapshot, NOW + seconds(6))

    assert of_kind(early, PatchStatus) == []
    assert seconds(6) in afters(early)
    assert written(late)["queue"]["processed"] == 1


def test_a_condition_that_changes_is_written_at_once(decide: Decide) -> None:
    silent = moved(decide, stats(emacs=emacs(responsive=False)), stats_written=NOW)

    assert condition(written(decide(silent)), "Ready")[1] == "NotResponding"


def test_a_condition_keeps_its_transition_time_while_its_status_stays(decide: Decide) -> None:
    status = written(decide(moved(decide, stats(pending=1)), NOW + seconds(60)))

    assert {condition["lastTransitionTime"] for condition in status["conditions"]} == {"2026-03-01T12:00:00Z"}


def test_the_patch_is_bound_to_the_version_decided_about(decide: Decide) -> None:
    patch = the(decide(ready(instance(version="77"))), PatchStatus)

    assert (patch.kind, patch.key, patch.uid, patch.resource_version) == ("EfritInstance", KEY, "uid-alpha", "77")


def test_children_are_applied_before_the_status_is_written(decide: Decide) -> None:
    kinds = [type(action) for action in decide(ready())]

    assert kinds.index(ApplyChildren) < kinds.index(PatchStatus)


def test_a_new_controller_lets_a_ready_instance_be_ready_until_it_has_heard_from_its_pod(decide: Decide) -> None:
    instance_snapshot = ready(pod=pod(started=NOW - seconds(600)))
    instance_snapshot = settled(instance_snapshot, decide(instance_snapshot))

    assert of_kind(decide(replace(instance_snapshot, bridge=BridgeView())), PatchStatus) == []
    lost = replace(instance_snapshot, bridge=BridgeView(problem="connection refused"))
    assert condition(written(decide(lost)), "Ready")[0] == "False"
    other = replace(instance_snapshot, bridge=BridgeView(), pod=pod("new", started=NOW - seconds(5)))
    assert condition(written(decide(other)), "Ready")[0] == "False"


@pytest.mark.parametrize("spec", [{}, SUSPENDED], ids=["running", "suspended"])
def test_a_lost_node_is_reported_with_a_warning_once_the_grace_period_is_over(decide: Decide, spec: Json) -> None:
    stuck = pod(deleting=True, deletion_deadline=NOW, node="worker-1")
    instance_snapshot = ready(instance(spec=spec), pod=stuck, bridge=BridgeView())

    before, after = decide(instance_snapshot), decide(instance_snapshot, NOW + seconds(30))

    assert seconds(30) in afters(before)
    assert events(before) == []
    assert condition(written(after), "Ready")[:2] == ("False", "NodeLost")
    assert events(after) == [("Warning", "NodeLost")]


def with_key(key: ModelKey) -> InstanceSnapshot:
    model = {"model": {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "token"}}}
    return ready(instance(spec=model), bridge=connected(bridge_stats=stats(emacs=emacs(model_key=key))))


def test_a_key_that_is_too_short_is_a_condition_and_one_event_and_evals_go_on(decide: Decide) -> None:
    instance_snapshot = with_key(ModelKey.TOO_SHORT)
    actions = decide(instance_snapshot)
    status = written(actions)
    assert condition(status, "ModelReady")[:2] == ("False", "KeyTooShort")
    assert condition(status, "Ready")[0] == "True"
    assert {record.reason for record in of_kind(actions, Record)} == {"Ready", "KeyTooShort"}

    again = settled(instance_snapshot, actions)
    assert of_kind(decide(again), Record) == []


def test_a_key_that_was_replaced_and_a_model_that_was_removed_change_the_condition(decide: Decide) -> None:
    instance_snapshot = with_key(ModelKey.TOO_SHORT)
    mended = settled(instance_snapshot, decide(instance_snapshot), bridge=with_key(ModelKey.USABLE).bridge)
    actions = decide(mended)
    assert condition(written(actions), "ModelReady")[:2] == ("True", "KeyRead")

    after = settled(mended, actions)
    spec = after.instance.spec.model_copy(update={"model": None})
    removed = decide(ready(after.instance.model_copy(update={"spec": spec})))
    assert "ModelReady" not in {condition["type"] for condition in written(removed)["conditions"]}
