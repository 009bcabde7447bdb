"""What is decided about an exclusive claim: which member it gets, what it says, what becomes of the member."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from efrit.api import EfritClaim, EfritPool
from efrit.controller.decide.claims import decide_claim
from efrit.controller.model.actions import (
    Action,
    ConfirmMissing,
    Delete,
    DeleteLater,
    PatchStatus,
    Record,
    RequeueAfter,
    ReturnMember,
    TakeMember,
    Wake,
)
from efrit.controller.model.claims import STATUS_ATTEMPTS, ClaimSnapshot, StatusRefusal
from efrit.controller.model.snapshots import InstanceSnapshot, Refusal
from tests.support.factory import CONFIG, condition_json, instance, pod, seconds, stats

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 4, 1, tzinfo=UTC)
"""After the members were made."""
EXPIRES = NOW + timedelta(hours=1)
BOUND: dict[str, Any] = {
    "phase": "Bound",
    "instanceName": "alpha",
    "instanceUID": "uid-alpha",
    "boundTime": "2026-01-01T00:00:00Z",
    "expirationTime": "2026-01-01T01:00:00Z",
}


def claim(status: dict[str, Any] | None = None, **spec: Any) -> EfritClaim:
    metadata = {"name": "mine", "namespace": "team", "uid": "c", "generation": 1, "resourceVersion": "7"}
    return EfritClaim.model_validate(
        {"metadata": metadata, "spec": {"poolRef": {"name": "crew"}, **spec}, "status": status or {}}
    )


def pool(replicas: int = 2) -> EfritPool:
    metadata = {"name": "crew", "namespace": "team", "uid": "p"}
    return EfritPool.model_validate({"metadata": metadata, "spec": {"replicas": replicas}})


def snapshot(claimed: EfritClaim | None = None, **facts: Any) -> ClaimSnapshot:
    return ClaimSnapshot(claimed or claim(), **{"pool": pool(), "revision": "new", "listed": True, **facts})


def member(
    name: str = "alpha", *, ready: bool = True, revision: str = "new", used: int = 0, **status: Any
) -> InstanceSnapshot:
    conditions = [condition_json("Ready", "True" if ready else "False", "Ready" if ready else "Starting")]
    made = instance(name, status={"conditions": conditions, **status})
    labels = {"efrit.dev/pool-revision": revision}
    made = made.model_copy(update={"metadata": made.metadata.model_copy(update={"labels": labels})})
    base = InstanceSnapshot(made, CONFIG, pod=pod())
    bridge = replace(base.bridge, connected=ready, pod_uid=base.pod.uid if base.pod else None, stats=stats())
    return replace(base, bridge=bridge, facts=replace(base.facts, last_activity=LATER + seconds(used)))


def decide(picture: ClaimSnapshot, now: datetime = NOW) -> list[Action]:
    return decide_claim(picture, now)


def of(actions: list[Action], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def said(actions: list[Action]) -> tuple[str, str, str]:
    """Return phase, status and reason of the only status that is written."""
    (patch,) = of(actions, PatchStatus)
    (condition,) = patch.status["conditions"]
    return patch.status["phase"], condition["status"], condition["reason"]


def test_a_free_member_is_taken_first_and_then_the_claim_is_bound_until_its_time_is_over() -> None:
    chosen = member()
    take, patch, requeue = decide(snapshot(candidates=(chosen,)))
    version = chosen.instance.metadata.resource_version
    assert take == TakeMember(("team", "mine"), "c", ("team", "alpha"), "uid-alpha", version)
    assert isinstance(patch, PatchStatus)
    assert BOUND.items() <= patch.status.items()
    assert patch.status["attach"] == "kubectl exec -it -n team efrit-alpha-0 -c emacs -- emacsclient -t -s efrit"
    assert said([patch]) == ("Bound", "True", "Bound")
    assert requeue == RequeueAfter(timedelta(hours=1))


@pytest.mark.parametrize(
    ("members", "ahead", "taken"),
    [
        ([member("b", used=2), member("c", used=1)], 0, "c"),
        ([member("b", used=1), member("a", used=1)], 0, "a"),
        # The current template before an older one, which serves as long as there is no other.
        ([member("b", used=9), member("c", revision="old")], 0, "b"),
        ([member("c", revision="old")], 0, "c"),
        # Those ahead get theirs.
        ([member("b")], 1, None),
        ([member("b"), member("c")], 1, "b"),
        # One that starts is waited for; one that sleeps is woken only if none that is awake is left.
        ([member("b", ready=False)], 0, None),
        ([member("b", ready=False, suspendedIdle=True), member("c")], 0, "c"),
        ([member("b", ready=False, suspendedIdle=True)], 0, "b"),
        ([member("b", ready=False, suspendedIdle=True), member("c")], 1, "b"),
        ([], 0, None),
    ],
)
def test_which_member_is_taken(members: list[InstanceSnapshot], ahead: int, taken: str | None) -> None:
    actions = decide(snapshot(candidates=tuple(members), ahead=ahead))
    assert [take.instance[1] for take in of(actions, TakeMember)] == ([taken] if taken else [])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ("Pending", "False", "Waiting")),
        ({"pool": None}, ("Pending", "False", "PoolMissing")),
        ({"pool": pool(0)}, ("Pending", "False", "Waiting")),
        ({"refusal": Refusal("no right", NOW), "candidates": (member(),)}, ("Pending", "False", "Refused")),
    ],
)
def test_what_a_claim_that_waits_says(facts: dict[str, Any], expected: tuple[str, str, str]) -> None:
    actions = decide(snapshot(**facts))
    assert said(actions) == expected
    assert not of(actions, TakeMember)
    status = of(actions, PatchStatus)[0].status
    assert of(decide(snapshot(claim(dict(status)), **facts)), PatchStatus) == []


def test_a_member_that_was_refused_is_tried_again_at_once_where_the_clock_was_set_back_since() -> None:
    refusal = Refusal("no right", NOW + timedelta(hours=1))
    assert of(decide(snapshot(refusal=refusal, candidates=(member(),))), TakeMember)


@pytest.mark.parametrize(
    ("ahead", "seconds", "silent_for"),
    [
        (0, 0, 2),
        (0, 1.5, 0.5),
        (0, 2, None),
        (9, 2, 0.9),
        (1000, 29, 1),
        (1000, 30, None),
        (0, -60, 2),
        (0, -3600, None),
    ],
)
def test_a_claim_says_that_it_waits_after_a_while_and_of_many_one_at_a_time(
    ahead: int, seconds: float, silent_for: float | None
) -> None:
    new = claim()
    created = NOW - timedelta(seconds=seconds)
    new = new.model_copy(update={"metadata": new.metadata.model_copy(update={"creation_timestamp": created})})
    actions = decide(snapshot(new, ahead=ahead))
    if silent_for is None:
        assert said(actions) == ("Pending", "False", "Waiting")
    else:
        assert actions == [RequeueAfter(timedelta(seconds=silent_for))]
    # Nothing comes back by itself to a pool that is to have no member.
    assert said(decide(snapshot(new, ahead=ahead, pool=pool(0)))) == ("Pending", "False", "Waiting")


def test_nothing_is_taken_before_all_work_is_known() -> None:
    assert decide(snapshot(candidates=(member(),), listed=False)) == []


def test_a_member_that_sleeps_is_the_claims_at_once_and_bound_once_it_is_ready() -> None:
    asleep = member(ready=False, suspendedIdle=True)
    actions = decide(snapshot(candidates=(asleep,)))
    assert said(actions) == ("Pending", "False", "Starting")
    assert of(actions, Wake) == [Wake(("team", "alpha"))]
    assert said(decide(snapshot(member=member()))) == ("Bound", "True", "Bound")


def test_a_claim_that_owns_a_member_without_saying_so_is_bound_to_it() -> None:
    actions = decide(snapshot(member=member(), candidates=(member("beta"),)))
    assert not of(actions, TakeMember)
    assert of(actions, PatchStatus)[0].status["instanceName"] == "alpha"


def test_a_member_of_which_it_is_not_known_whether_it_was_taken_is_taken_again() -> None:
    actions = decide(snapshot(taking=member(), candidates=(member("beta"),)))
    assert [take.instance[1] for take in of(actions, TakeMember)] == ["alpha"]


def bound(**spec: Any) -> EfritClaim:
    written = of(decide(snapshot(claim(**spec), member=member())), PatchStatus)[0].status
    return claim(dict(written), **spec)


def test_a_bound_claim_is_left_alone_until_its_time_is_over() -> None:
    assert decide(snapshot(bound(), member=member())) == [RequeueAfter(timedelta(hours=1))]


def test_a_longer_time_to_live_moves_the_end() -> None:
    longer = bound().model_copy(update={"spec": claim(ttlSeconds=7200).spec})
    patch, requeue = decide(snapshot(longer, member=member()), NOW)
    assert isinstance(patch, PatchStatus)
    assert patch.status["expirationTime"] == "2026-01-01T02:00:00Z"
    assert requeue == RequeueAfter(timedelta(hours=2))


def test_a_member_that_is_not_ready_for_a_while_is_said_and_kept() -> None:
    actions = decide(snapshot(bound(), member=member(ready=False)))
    assert said(actions) == ("Bound", "False", "MemberNotReady")


@pytest.mark.parametrize(
    ("facts", "asks"),
    [
        ({}, True),
        # Somebody else has it, or one was made anew under its name.
        ({"instance_seen": True}, False),
        ({"member": member("beta"), "instance_seen": True}, False),
    ],
)
def test_a_member_that_is_lost_is_not_replaced_and_the_api_server_is_asked_first(
    facts: dict[str, Any], asks: bool
) -> None:
    actions = decide(snapshot(bound(), candidates=(member("gamma"),), **facts))
    assert said(actions) == ("Failed", "False", "MemberLost")
    assert "attach" not in of(actions, PatchStatus)[0].status
    assert not of(actions, TakeMember)
    assert not of(actions, Delete)
    assert of(actions, ConfirmMissing) == ([ConfirmMissing(("team", "alpha"))] if asks else [])


@pytest.mark.parametrize(
    ("spec", "now", "facts", "phase", "leaves"),
    [
        ({}, EXPIRES, {"member": member()}, "Expired", Delete),
        ({"release": "Return"}, EXPIRES, {"member": member()}, "Expired", ReturnMember),
        ({"release": "Return"}, EXPIRES, {"member": member(), "pool": None}, "Expired", Delete),
        ({}, EXPIRES, {}, "Expired", None),
        ({"released": True}, NOW, {"member": member()}, "Released", Delete),
        ({"released": True, "release": "Return"}, NOW, {"member": member()}, "Released", ReturnMember),
    ],
)
def test_in_the_end_the_member_goes_before_the_status_is_final(
    spec: dict[str, Any], now: datetime, facts: dict[str, Any], phase: str, leaves: type | None
) -> None:
    ends = claim({**BOUND, "attach": "kubectl exec", "conditions": []}, **spec)
    actions = decide(snapshot(ends, **facts), now)
    assert said(actions) == (phase, "False", phase)
    assert "attach" not in of(actions, PatchStatus)[0].status
    goes = [action for action in actions if isinstance(action, Delete | ReturnMember)]
    assert [type(action) for action in goes] == ([leaves] if leaves else [])
    if leaves is not None:
        assert actions.index(goes[0]) < actions.index(of(actions, PatchStatus)[0])
        assert goes[0].resource_version


def test_a_claim_that_is_released_before_it_has_a_member_ends_without_one() -> None:
    assert said(decide(snapshot(claim(released=True), candidates=(member(),)))) == ("Released", "False", "Released")


def test_a_claim_that_has_ended_is_deleted_once_its_time_is_over() -> None:
    ended = claim({**BOUND, "phase": "Expired", "completionTime": "2026-01-01T00:00:00Z"})
    due = NOW + timedelta(days=1)
    later = [DeleteLater("EfritClaim", ("team", "mine"), "c", due)]
    assert decide(snapshot(ended)) == later
    # Also where it is over: claims that wait do not wait for that.
    assert decide(snapshot(ended), due) == later


@pytest.mark.parametrize(("release", "leaves"), [("Recycle", Delete), ("Return", ReturnMember)])
def test_a_claim_whose_status_goes_on_being_refused_loses_its_member_and_says_why(release: str, leaves: type) -> None:
    refused = StatusRefusal("Request entity too large", STATUS_ATTEMPTS)
    actions = decide(snapshot(claim(release=release), member=member(), reduced_status=True, status_refusal=refused))
    assert [type(action) for action in actions] == [Record, RequeueAfter, leaves, PatchStatus]
    assert said(actions) == ("Failed", "False", "Refused")
    (event,) = of(actions, Record)
    assert (event.kind, event.type, event.reason) == ("EfritClaim", "Warning", "StatusRefused")
    assert "Request entity too large." in event.message
    (condition,) = actions[-1].status["conditions"]  # type: ignore[union-attr]
    assert event.message.startswith(condition["message"])
    assert len(condition["message"]) < len(event.message)


def test_a_claim_whose_status_is_refused_takes_no_member_and_says_so_once_in_an_event() -> None:
    refused = StatusRefusal("denied", STATUS_ATTEMPTS + 1)
    actions = decide(snapshot(candidates=(member(),), status_refusal=refused))
    assert [type(action) for action in actions] == [PatchStatus]
    assert said(actions) == ("Failed", "False", "Refused")


def test_a_refusal_of_the_status_that_may_pass_does_not_end_a_claim() -> None:
    refused = StatusRefusal("denied", STATUS_ATTEMPTS - 1)
    assert said(decide(snapshot(member=member(), status_refusal=refused))) == ("Bound", "True", "Bound")


def test_a_claim_with_little_space_in_its_object_is_bound_without_the_command_to_attach() -> None:
    full, reduced = (decide(snapshot(member=member(), reduced_status=reduced)) for reduced in (False, True))
    assert "attach" in of(full, PatchStatus)[0].status
    assert "attach" not in of(reduced, PatchStatus)[0].status
    assert said(reduced) == ("Bound", "True", "Bound")


@pytest.mark.parametrize("field", ["boundTime", "expirationTime", "completionTime"])
@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
@pytest.mark.parametrize("phase", ["Pending", "Bound", "Expired"])
def test_a_claim_is_decided_about_whatever_times_somebody_wrote_into_its_status(
    field: str, time: str, phase: str
) -> None:
    changed = claim({**BOUND, "phase": phase, field: time}, ttlSecondsAfterFinished=10 * 365 * 86_400)

    for picture in (snapshot(changed), snapshot(changed, member=member())):
        assert all(isinstance(action, Action) for action in decide(picture))


def test_a_claim_ends_though_somebody_else_filled_its_conditions() -> None:
    conditions = [{**condition_json(f"X{number}", "True", "R")} for number in range(8)]

    actions = decide(snapshot(claim({**BOUND, "conditions": conditions}, released=True), member=member()))

    (patch,) = of(actions, PatchStatus)
    assert (patch.status["phase"], len(patch.status["conditions"])) == ("Released", 8)
