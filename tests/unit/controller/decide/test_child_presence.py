"""decide/child_presence.py, and what decide/instances.py and decide/readiness.py make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from efrit.api import EfritInstance, InstanceReason
from efrit.controller.decide.child_presence import missing_children, missing_claims, secret_due, terminating_claims
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.readiness import readiness
from efrit.controller.manifests import Identity, build
from efrit.controller.model.actions import Action, ApplyChildren, ApplySecret, ConfirmClaims, Record
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView, ClaimView, ContainerView
from tests.support.factory import (
    CONFIG,
    NOW,
    away,
    changed,
    claims,
    condition,
    instance,
    of_kind,
    pod,
    ready,
    seconds,
    statefulset,
    the,
    written,
)

OWN_ACCOUNT = instance("own")
NAMED_ACCOUNT = instance("named", spec={"podTemplate": {"serviceAccountName": "robot"}})
GOING = claims(instance(), terminating=True)
SUSPENDED = instance(spec={"operatingMode": "Suspended"})
LOST_SECRET = 'MountVolume.SetUp failed for volume "bridge-secrets" : secret "efrit-alpha-bridge" not found'

Decide = Callable[..., list[Action]]


@pytest.fixture
def decide(identity: Identity) -> Decide:
    """Decide about a snapshot whose children have been applied with so many replicas; None: with no StatefulSet."""

    def decided(instance_snapshot: InstanceSnapshot, replicas: int | None = 1, desired: int = 1) -> list[Action]:
        children = build(instance_snapshot.instance, CONFIG, identity, desired, NOW)
        made = statefulset(children, replicas) if replicas is not None else None
        applied = changed(instance_snapshot, statefulset=made, applied_generation=1, applied_digest=children.digest)
        return decide_instance(applied, identity, NOW)

    return decided


def kinds(actions: list[Action]) -> list[str]:
    return [manifest["kind"] for action in of_kind(actions, ApplyChildren) for manifest in action.manifests]


@pytest.mark.parametrize(
    ("kind", "present", "lost"),
    [
        ("ServiceAccount", set(), ["own"]),
        ("ServiceAccount", {("team", "efrit-own")}, []),
        ("NetworkPolicy", set(), ["own", "named"]),
        ("NetworkPolicy", {("team", "efrit-own"), ("team", "efrit-named")}, []),
        ("NetworkPolicy", {("other", "efrit-own"), ("team", "own"), ("team", "efrit-named")}, ["own"]),
    ],
)
def test_an_instance_lacks_a_child_that_is_not_in_the_list(kind: str, present: set[Any], lost: list[str]) -> None:
    instances: list[EfritInstance] = [OWN_ACCOUNT, NAMED_ACCOUNT]
    assert missing_children(kind, instances, present) == [("team", name) for name in lost]


@pytest.mark.parametrize(
    ("instance_snapshot", "lost"),
    [
        (ready(), []),
        (ready(claims=()), ["efrit-alpha-queue"]),
        (ready(claims=(ClaimView("another", "Bound"),)), ["efrit-alpha-queue"]),
        (ready(instance(spec={"queue": {"ephemeral": True}}), claims=()), []),
    ],
)
def test_a_claim_is_missing_where_the_instance_is_to_have_it(
    instance_snapshot: InstanceSnapshot, lost: list[str]
) -> None:
    assert [name for name in missing_claims(instance_snapshot) if "workspace" not in name] == lost


def test_only_claims_of_the_instance_count_as_terminating() -> None:
    foreign = ClaimView("another", "Bound", terminating=True)
    assert terminating_claims(ready(claims=(*claims(instance()), foreign))) == []
    assert "efrit-alpha-queue" in terminating_claims(ready(claims=GOING))


@pytest.mark.parametrize("lost", [{"claims": ()}, {"child_missing": True}])
def test_a_deleted_child_is_applied_at_once_and_the_statefulset_left_alone(decide: Decide, lost: Any) -> None:
    assert decide(ready())
    assert kinds(decide(ready())) == []
    applied = kinds(decide(ready(**lost)))
    assert {"ServiceAccount", "Secret", "NetworkPolicy", "PersistentVolumeClaim"} == set(applied)


@pytest.mark.parametrize("replicas", [0, None])
def test_nothing_starts_on_a_claim_that_is_being_deleted(decide: Decide, replicas: int | None) -> None:
    actions = decide(away(claims=GOING), replicas)

    assert "StatefulSet" not in kinds(actions)
    assert "PersistentVolumeClaim" not in kinds(actions)
    status, reason, message = condition(written(actions), "Ready")
    assert (status, reason) == ("False", "ClaimTerminating")
    assert "efrit-alpha-queue" in message
    assert ("Warning", "ClaimTerminating") in [(record.type, record.reason) for record in of_kind(actions, Record)]


@pytest.mark.parametrize("replicas", [0, None])
def test_it_starts_once_the_claim_is_gone_and_remade(decide: Decide, replicas: int | None) -> None:
    assert kinds(decide(away(claims=()), replicas))[-2:] == ["PersistentVolumeClaim", "StatefulSet"]
    assert "StatefulSet" in kinds(decide(away(), replicas))


def test_while_a_new_instance_waits_for_a_claim_the_other_children_are_applied_only_once(
    identity: Identity, decide: Decide
) -> None:
    first = decide_instance(away(claims=GOING), identity, NOW)

    assert kinds(first) == ["ServiceAccount", "Secret", "NetworkPolicy"]
    assert kinds(decide(away(claims=GOING), None)) == []


@pytest.mark.parametrize("replicas", [0, None])
def test_the_claims_are_read_before_anything_starts(decide: Decide, replicas: int | None) -> None:
    actions = decide(away(), replicas)

    assert the(actions, ConfirmClaims).names == tuple(claim.name for claim in claims(instance()))
    order = [type(action) for action in actions]
    assert order.index(ConfirmClaims) < order.index(ApplyChildren)


def test_claims_are_not_read_where_nothing_starts(decide: Decide) -> None:
    for actions in (decide(ready()), decide(ready(child_missing=True)), decide(away(claims=()), None)):
        assert of_kind(actions, ConfirmClaims) == []


def test_suspending_does_not_wait_for_a_claim(decide: Decide) -> None:
    assert "StatefulSet" in kinds(decide(ready(SUSPENDED, claims=GOING, handover_paused=True), 1, desired=0))


def test_a_running_pod_keeps_its_terminating_claim_and_the_status_says_so() -> None:
    finding = readiness(ready(claims=GOING), NOW)
    assert finding.reason == InstanceReason.READY
    assert "efrit-alpha-queue" in finding.message


def test_a_pod_that_has_not_started_waits_for_the_claim() -> None:
    unstarted = pod(phase="Pending", containers=(ContainerView("emacs"),), unschedulable="claim is being deleted")
    finding = readiness(ready(pod=unstarted, bridge=BridgeView(), claims=GOING), NOW)
    assert finding.reason == InstanceReason.CLAIM_TERMINATING


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, False),
        ({"secret_check": True}, True),
        ({"problem": LOST_SECRET, "explained_time": NOW}, True),
        ({"problem": LOST_SECRET, "explained_time": NOW, "secret_applied_time": NOW - seconds(1)}, True),
        ({"problem": LOST_SECRET, "explained_time": NOW, "secret_applied_time": NOW + seconds(1)}, False),
        ({"problem": LOST_SECRET.replace("alpha", "beta"), "explained_time": NOW}, False),
    ],
)
def test_a_secret_is_due_in_its_turn_or_when_the_pod_misses_it(fields: Any, due: bool) -> None:
    assert secret_due(ready(**fields)) is due


def test_a_secret_that_is_due_is_applied_alone(decide: Decide) -> None:
    actions = decide(ready(secret_check=True))

    assert the(actions, ApplySecret).manifest["metadata"]["name"] == "efrit-alpha-bridge"
    assert kinds(actions) == []


def test_a_secret_is_not_applied_twice_in_one_decision(decide: Decide) -> None:
    actions = decide(ready(secret_check=True, child_missing=True))

    assert of_kind(actions, ApplySecret) == []
    assert kinds(actions).count("Secret") == 1


def test_a_secret_of_a_refused_spec_waits_for_the_next_try(decide: Decide) -> None:
    refused = ready(secret_check=True, refused="no", refused_generation=1, refused_time=NOW)
    assert of_kind(decide(refused), ApplySecret) == []
