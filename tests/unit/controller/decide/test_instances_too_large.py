"""What is done about an instance whose spec is too large: what there is of it stays safe, and can be stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.controller.act.identity import new_identity
from efrit.controller.decide.instances import RETRY_REFUSED, decide_instance
from efrit.controller.manifests import build
from efrit.controller.model.actions import (
    Action,
    ApplyChildren,
    ApplySecret,
    IsolatePod,
    KeepChildren,
    PatchStatus,
    PauseHandover,
    Record,
    RequeueAfter,
    StopPod,
)
from efrit.controller.model.instance_facts import InstanceFacts
from efrit.controller.model.snapshots import InstanceSnapshot
from tests.support.factory import (
    CONFIG,
    NOW,
    Json,
    condition,
    instance,
    of_kind,
    pod,
    statefulset,
    the,
    written,
)

IDENTITY = new_identity()
REFUSED = InstanceFacts(handover_id="h", refused="It is too large.", refused_time=NOW)


def snapshot(spec: Json | None = None, *, replicas: int = 1, **fields: Any) -> InstanceSnapshot:
    """Return a running instance whose spec has become too large."""
    one = instance(spec=spec or {})
    children = build(one, CONFIG, IDENTITY, replicas, NOW)
    defaults: Json = {"statefulset": statefulset(children, replicas), "pod": pod(), "facts": REFUSED}
    return InstanceSnapshot(instance=one, config=CONFIG, too_large=True, **(defaults | fields))


def decide(instance_snapshot: InstanceSnapshot) -> list[Action]:
    actions = decide_instance(instance_snapshot, IDENTITY, NOW)
    assert of_kind(actions, ApplyChildren) == []
    assert RETRY_REFUSED in [action.after for action in of_kind(actions, RequeueAfter)]
    return actions


def test_its_network_stays_closed_and_its_account_is_kept_and_no_pod_template_is_made_of_it() -> None:
    keep_children = the(decide(snapshot()), KeepChildren)

    assert [manifest["kind"] for manifest in keep_children.manifests] == ["ServiceAccount", "NetworkPolicy"]


@pytest.mark.parametrize("due", [False, True])
def test_its_secret_is_renewed_in_its_turn(due: bool) -> None:
    actions = decide(snapshot(facts=replace(REFUSED, secret_check=due)))

    assert [action.manifest["kind"] for action in of_kind(actions, ApplySecret)] == ["Secret"] * due


def test_its_pod_has_a_network_policy_of_its_own_which_outlives_the_instance() -> None:
    assert the(decide(snapshot()), IsolatePod).pod_uid == pod().uid
    assert of_kind(decide(snapshot(facts=replace(REFUSED, isolated_pod=pod().uid))), IsolatePod) == []


def test_it_is_suspended_without_a_change_of_its_pod_template_and_not_started_again() -> None:
    suspended = {"operatingMode": "Suspended"}

    stopping = decide(snapshot(suspended))

    stop = the(stopping, StopPod)
    assert (stop.statefulset, stop.statefulset_uid) == ("efrit-alpha", "ss")
    assert [type(action) for action in stopping].index(PauseHandover) < [type(action) for action in stopping].index(
        StopPod
    )
    stopped = decide(snapshot(suspended, replicas=0, pod=None))
    assert of_kind(stopped, StopPod) == []
    assert condition(written(stopped), "Suspended")[0] == "True"
    assert condition(written(stopped), "Ready")[1] == "ChildRefused"
    assert of_kind(decide(snapshot(replicas=0, pod=None)), StopPod) == []


def test_of_one_that_was_too_large_from_the_beginning_nothing_is_made() -> None:
    actions = decide(snapshot(statefulset=None, pod=None))

    assert {type(action) for action in actions} <= {PatchStatus, Record, RequeueAfter}
