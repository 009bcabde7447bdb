"""What is decided about a pool: how many members are created, which drain, which are deleted, what it says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from efrit.api import EfritPool, condition_of
from efrit.api.pool import PoolSpec
from efrit.controller.decide.pool_status import BACKLOGGED_AFTER as LONG
from efrit.controller.decide.pools import (
    CREATED_AT_ONCE,
    FAST_CLAIMS,
    REFILL_PAUSE,
    REFILLED_AT_ONCE,
    SLOW_CLAIMS,
    START_SECONDS,
    decide_pool,
    size,
)
from efrit.controller.manifests.disruption_budget import build_disruption_budget
from efrit.controller.model.actions import (
    Action,
    CreateMember,
    Drain,
    PatchStatus,
    RemoveInstance,
    RequeueAfter,
)
from efrit.controller.model.pools import MemberView, PoolRevision, PoolSnapshot
from efrit.controller.model.snapshots import Refusal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW, OLD = "new", "old"


def pool(replicas: int = 2, strategy: Any = None) -> EfritPool:
    metadata = {"name": "crew", "namespace": "ns", "uid": "u", "generation": 1, "resourceVersion": "7"}
    spec = {"replicas": replicas, "updateStrategy": strategy or {}}
    return EfritPool.model_validate({"metadata": metadata, "spec": spec, "status": {}})


def member(name: str, revision: str = NEW, **facts: Any) -> MemberView:
    made: dict[str, Any] = {"ready": True, "created": NOW, **facts}
    return MemberView(name, f"uid-{name}", "3", revision, **made)


def snapshot(replicas: int, *members: MemberView, strategy: Any = None, **facts: Any) -> PoolSnapshot:
    crew = pool(replicas, strategy)
    known: dict[str, Any] = {"template": {"spec": {}}, "listed": True, "budget": build_disruption_budget(crew, ())}
    known["history"] = (PoolRevision(NEW, 1, "uid-1", "9"),)
    return PoolSnapshot(crew, revision=NEW, members=members, **{**known, **facts})


def scaled(**facts: Any) -> PoolSnapshot:
    """Return a pool without members that scales itself."""
    spec = PoolSpec.model_validate({"autoscaling": {"maxReplicas": 3}})
    return replace(snapshot(0, **facts), pool=pool().model_copy(update={"spec": spec}))


def decide(picture: PoolSnapshot) -> list[Action]:
    return decide_pool(picture, NOW)


def of(actions: list[Action], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


@pytest.mark.parametrize(
    ("replicas", "members", "create", "drain"),
    [
        (2, [], 2, []),
        (2, [member("a")], 1, []),
        (2, [member("a"), member("b")], 0, []),
        # What is deleted already is neither counted nor deleted again.
        (2, [member("a"), member("b", deleting=True)], 1, []),
        # Too many: who serves nobody goes first, then who has the least work, then the youngest.
        (1, [member("a"), member("b", ready=False)], 0, ["b"]),
        (1, [member("a", load=1), member("b")], 0, ["b"]),
        (1, [member("a", load=1), member("b", load=2)], 0, ["a"]),
        (1, [member("a", plans=1), member("b", load=5)], 0, ["b"]),
        (1, [member("a"), member("b", created=NOW + timedelta(seconds=1))], 0, ["b"]),
        (0, [member("a"), member("b")], 0, ["a", "b"]),
        # A template that has changed: one beyond those wanted, and nobody goes before it is Ready.
        (2, [member("a", OLD), member("b", OLD)], 1, []),
        (2, [member("a", OLD), member("b", OLD), member("c", ready=False)], 0, []),
        (2, [member("a", OLD, load=1), member("b", OLD), member("c")], 0, ["b"]),
        (2, [member("a", OLD, load=1), member("c")], 1, []),
        (2, [member("a", OLD, load=1), member("b", OLD, load=1), member("c")], 0, ["b"]),
        (2, [member("a", OLD), member("c"), member("d")], 0, ["a"]),
        # Members of an older template that serve nobody are of no use; one that sleeps serves.
        (2, [member("a", OLD, ready=False), member("b", OLD)], 1, ["a"]),
        (2, [member("a", OLD, ready=False, asleep=True), member("b", OLD)], 1, []),
        (2, [member("a", OLD, ready=False, load=1), member("b", OLD)], 1, []),
        # Taken back: what has the wanted template again stays, the other goes.
        (2, [member("a"), member("b"), member("c", OLD, ready=False)], 0, ["c"]),
        (0, [member("a", OLD), member("c")], 0, ["a", "c"]),
    ],
)
def test_how_many_members_there_are_to_be(
    replicas: int, members: list[MemberView], create: int, drain: list[str]
) -> None:
    sizing = size(snapshot(replicas, *members), replicas, NOW)
    assert (sizing.create, sorted(each.name for each in sizing.drain)) == (create, drain)


def test_a_member_that_drains_goes_on_draining() -> None:
    members = [member("a"), member("b"), member("c")]
    sizing = size(snapshot(2, *members, draining=frozenset({"b"})), 2, NOW)
    assert [each.name for each in sizing.drain] == ["b"]


def test_a_member_is_created_with_the_template_the_labels_and_the_pool_as_owner() -> None:
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"queue": {"ephemeral": True}}}
    (create,) = of(decide(snapshot(1, template=template)), CreateMember)
    meta = create.manifest["metadata"]
    assert create.manifest["spec"] == {"queue": {"ephemeral": True}}
    assert meta["generateName"] == "crew-"
    assert meta["labels"] == {"team": "a", "efrit.dev/pool": "crew", "efrit.dev/pool-revision": NEW}
    assert [(owner["kind"], owner["uid"], owner["controller"]) for owner in meta["ownerReferences"]] == [
        ("EfritPool", "u", True)
    ]


def test_many_members_are_created_a_few_at_a_time() -> None:
    actions = decide(snapshot(100))
    assert len(of(actions, CreateMember)) == CREATED_AT_ONCE
    assert RequeueAfter(timedelta(0)) in actions


def test_a_refused_member_is_tried_again_after_a_pause_and_the_status_says_why() -> None:
    refusal = Refusal("exceeded quota", NOW - timedelta(seconds=4))
    actions = decide(snapshot(1, refusal=refusal))
    assert not of(actions, CreateMember)
    assert RequeueAfter(timedelta(seconds=6)) in actions
    (patch,) = of(actions, PatchStatus)
    progressing = next(each for each in patch.status["conditions"] if each["type"] == "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "MemberRefused")
    assert "exceeded quota" in progressing["message"]


def test_none_is_made_while_more_instances_name_the_pool_as_their_owner_than_count() -> None:
    assert of(decide(snapshot(3, member("a"))), CreateMember)
    actions = decide(snapshot(3, member("a"), has_too_many=True))
    assert not of(actions, CreateMember)


def test_a_refused_member_is_tried_again_at_once_where_the_clock_was_set_back_since() -> None:
    refusal = Refusal("exceeded quota", NOW + timedelta(hours=1))
    assert of(decide(snapshot(1, refusal=refusal)), CreateMember)


def test_a_member_without_work_is_deleted_once_nothing_more_is_handed_to_it_and_nobody_knows_of_work() -> None:
    actions = decide(snapshot(0, member("a"), member("b", load=1)))
    (drain,) = of(actions, Drain)
    assert drain.members == {"a", "b"}
    key = ("ns", "a")
    assert actions[-1] == RemoveInstance(key, "uid-a", "3", only_idle=True)
    assert actions.index(drain) == 0


def test_nobody_drains_before_all_open_requests_are_known() -> None:
    assert decide(snapshot(0, member("a"), listed=False)) == []
    assert len(of(decide(snapshot(1, listed=False)), CreateMember)) == 1


def test_nothing_is_done_about_a_pool_that_is_being_deleted() -> None:
    going = pool(3).model_copy(update={"metadata": pool().metadata.model_copy(update={"deletion_timestamp": NOW})})
    assert decide(replace(snapshot(3), pool=going)) == []


def test_a_template_that_is_too_large_makes_nothing_and_the_members_stay() -> None:
    actions = decide(snapshot(2, member("a", OLD), template=None))
    assert not of(actions, CreateMember)
    assert not of(actions, RemoveInstance)
    (patch,) = of(actions, PatchStatus)
    assert "128 KiB" in str(patch.status["conditions"])


def test_the_status_counts_members_and_requests() -> None:
    members = [member("a"), member("b", load=2), member("c", ready=False, asleep=True), member("d", OLD, load=1)]
    waiting: dict[str, Any] = {"pending": 4, "oldest_pending": NOW, "flows": (("x", 3, 4),)}
    (patch,) = of(decide(snapshot(3, *members, **waiting)), PatchStatus)
    counts = {name: patch.status[name] for name in ("replicas", "ready", "idle", "busy", "draining", "suspended")}
    assert counts == {"replicas": 3, "ready": 2, "idle": 1, "busy": 2, "draining": 1, "suspended": 1}
    assert (patch.status["pending"], patch.status["oldestPendingTime"]) == (4, "2026-01-01T00:00:00Z")
    # One of the three sleeps.
    assert (patch.status["updated"], patch.status["updatedReady"], patch.status["revision"]) == (3, 2, NEW)
    # The one of the former template drains, and is there all the same.
    assert patch.status["revisions"] == [
        {"revision": NEW, "replicas": 3, "ready": 2},
        {"revision": OLD, "replicas": 1, "ready": 0},
    ]
    assert patch.status["selector"] == "efrit.dev/pool=crew"
    assert patch.status["flows"] == [{"name": "x", "running": 3, "pending": 4}]


def test_of_many_templates_the_status_names_the_present_one_and_those_with_the_most_members() -> None:
    members = [member(f"m{number:02}-{turn}", f"{number:02}") for number in range(20) for turn in range(number)]
    (patch,) = of(decide(snapshot(3, member("new"), *members)), PatchStatus)
    named = [(each["revision"], each["replicas"]) for each in patch.status["revisions"]]
    assert named == [(NEW, 1), *((str(number), number) for number in range(19, 10, -1))]


@pytest.mark.parametrize(
    ("picture", "kind", "status", "reason"),
    [
        (snapshot(1, member("a")), "Available", "True", "MemberReady"),
        (snapshot(1, member("a", ready=False, asleep=True)), "Available", "True", "MemberReady"),
        (snapshot(1, member("a", ready=False)), "Available", "False", "NoMemberReady"),
        (snapshot(0), "Available", "False", "ScaledToZero"),
        (snapshot(1, member("a")), "Progressing", "True", "MembersUnchanged"),
        (snapshot(1), "Progressing", "True", "CreatingMembers"),
        (snapshot(1, member("a", ready=False)), "Progressing", "True", "CreatingMembers"),
        (snapshot(1, member("a", OLD)), "Progressing", "True", "UpdatingMembers"),
        (snapshot(1, member("a"), member("b", load=1)), "Progressing", "True", "RemovingMembers"),
        (snapshot(1, member("a", ready=False, refused="no")), "Progressing", "False", "MemberRefused"),
        (snapshot(1, member("a"), has_too_many=True), "Progressing", "False", "TooManyMembers"),
        (snapshot(1, member("a"), pending=3, oldest_pending=NOW - LONG), "Backlogged", "True", "RequestsWaiting"),
        (snapshot(1, member("a"), pending=3, oldest_pending=NOW), "Backlogged", "False", "RequestsPlaced"),
        (snapshot(1, member("a")), "Backlogged", "False", "RequestsPlaced"),
        # Whose the size is.
        (snapshot(1, member("a")), "ScalingActive", "False", "ReplicasGiven"),
        (scaled(), "ScalingActive", "True", "Autoscaling"),
        (snapshot(1, member("a")), "ScalingLimited", "False", "WithinBounds"),
        (scaled(pending=9), "ScalingLimited", "True", "AtMaximum"),
        (scaled(), "Available", "True", "ScaledToZero"),
    ],
)
def test_each_condition_says_what_is_so_and_why(picture: PoolSnapshot, kind: str, status: str, reason: str) -> None:
    (patch,) = of(decide(picture), PatchStatus)
    conditions = EfritPool.model_validate(
        {"metadata": {"name": "x"}, "spec": {}, "status": patch.status}
    ).status.conditions
    condition = condition_of(conditions, kind)
    assert condition is not None
    assert (condition.status.value, condition.reason) == (status, reason)


def _written(picture: PoolSnapshot) -> PoolSnapshot:
    """Return the picture after its status was written."""
    (patch,) = of(decide(picture), PatchStatus)
    status = EfritPool.model_validate({"metadata": {"name": "x"}, "spec": {}, "status": patch.status}).status
    return replace(picture, pool=picture.pool.model_copy(update={"status": status}), status_written=NOW)


def test_counts_that_change_while_members_work_are_written_every_few_seconds() -> None:
    picture = _written(snapshot(1, member("a")))
    assert decide(picture) == []
    busy = replace(picture, members=(member("a", load=1),))
    assert decide(busy) == [RequeueAfter(timedelta(seconds=5))]
    (patch,) = decide(replace(busy, status_written=NOW - timedelta(seconds=5)))
    assert isinstance(patch, PatchStatus)


def test_a_condition_that_changes_is_written_at_once_and_once_a_second() -> None:
    picture = replace(_written(snapshot(1, member("a"))), pending=1, oldest_pending=NOW - LONG)
    assert decide(picture) == [RequeueAfter(timedelta(seconds=1))]
    assert len(of(decide(replace(picture, status_written=NOW - timedelta(seconds=1))), PatchStatus)) == 1


def test_a_request_that_has_just_come_makes_no_backlog_and_is_reconciled_again() -> None:
    came = NOW - LONG / 2
    picture = replace(_written(snapshot(1, member("a"))), pending=1, oldest_pending=came)
    # The count is one of those that are written every few seconds.
    assert decide(picture) == [RequeueAfter(LONG / 2), RequeueAfter(timedelta(seconds=5))]


def taken(*seconds_ago: float) -> tuple[datetime, ...]:
    return tuple(NOW - timedelta(seconds=seconds) for seconds in seconds_ago)


SOME = taken(*[0.5] * SLOW_CLAIMS, 0)
"""Neither slow nor fast."""
FAST = taken(*[0.5] * (FAST_CLAIMS - 1), 0)
STOCK = (member("a"), member("b"))
STARTING = (member("c", ready=False), member("d", ready=False))


@pytest.mark.parametrize(
    ("replicas", "members", "facts", "created"),
    [
        # Enough are left, or not; and those that are being started count.
        (5, STOCK, {"claims_taken": SOME}, 0),
        (8, STOCK, {"claims_taken": SOME}, REFILLED_AT_ONCE),
        (8, (*STOCK, *STARTING), {"claims_taken": SOME}, 0),
        # Claims that come fast take what is there first.
        (16, (*STOCK, member("e")), {"claims_taken": SOME}, REFILLED_AT_ONCE),
        (16, (*STOCK, member("e")), {"claims_taken": FAST}, 0),
        (16, (*STOCK, member("e")), {"claims_taken": SOME[:1], "claims": FAST_CLAIMS - 1}, 0),
        (16, STOCK, {"claims_taken": FAST}, REFILLED_AT_ONCE),
        # Slow ones leave the time to start others meanwhile, though enough are left: not for those just taken.
        (5, STOCK, {"claims_taken": taken(3, 2, 0)}, REFILLED_AT_ONCE),
        (3, STOCK, {"claims_taken": taken(0)}, 0),
        (5, (*STOCK, *STARTING), {"claims_taken": taken(3, 2, 0)}, 0),
        # A while after the last claim there is no reason to wait.
        (8, STOCK, {"claims_taken": taken(REFILL_PAUSE.total_seconds())}, 6),
        # Where none is left, as many as claims wait for, and where requests wait as many as are wanted.
        (8, (member("a", load=1), STARTING[0]), {"claims_taken": FAST}, REFILLED_AT_ONCE - 1),
        (8, (member("a", load=1), STARTING[0]), {"claims_taken": FAST, "claims": 3}, 2),
        (8, (member("a", load=1), STARTING[0]), {"claims_taken": FAST, "pending": 1}, 6),
    ],
)
def test_while_claims_take_members_few_are_started_at_a_time(
    replicas: int, members: tuple[MemberView, ...], facts: dict[str, Any], created: int
) -> None:
    """Starting one takes a hundred times what a claim does, and claims would wait for it."""
    actions = decide(snapshot(replicas, *members, **facts))
    assert len(of(actions, CreateMember)) == created
    pauses = facts["claims_taken"][-1] == NOW and not facts.get("pending")
    assert (RequeueAfter(REFILL_PAUSE) in actions) == pauses


@pytest.mark.parametrize(
    ("facts", "created"),
    [
        # Nine are missing and none has come back: all of them are held.
        ({"claims_taken": FAST}, REFILLED_AT_ONCE),
        # As many have come back, within a second; or not any more.
        ({"claims_taken": FAST, "claims_returned": taken(*[0.5] * 9)}, 0),
        ({"claims_taken": FAST, "claims_returned": taken(*[1] * 9)}, REFILLED_AT_ONCE),
        # The others were taken just now; or long before.
        ({"claims_taken": FAST, "claims_returned": taken(0.5)}, 0),
        ({"claims_taken": taken(0), "claims_returned": taken(*[0.5] * 8)}, 1),
        # Given up already.
        ({"claims_taken": FAST, "returning": 9}, 0),
        ({"claims_taken": FAST, "returning": 8}, 1),
        # Claims that wait, as many as one comes back for before one that is started is Ready; or more.
        ({"claims_taken": FAST, "claims_returned": taken(*[0.5] * 10), "claims": 10 * START_SECONDS}, 0),
        ({"claims_taken": FAST, "claims_returned": taken(*[0.5] * 10), "claims": 10 * START_SECONDS + 4}, 4),
        # The last one came back a moment ago, after it was taken long before.
        ({"claims_taken": taken(60), "claims_returned": taken(0)}, REFILLED_AT_ONCE),
    ],
)
def test_members_that_come_back_from_claims_are_not_replaced(facts: dict[str, Any], created: int) -> None:
    """Whoever waits gets one of them sooner than one that is started now."""
    actions = decide(snapshot(10, member("a", load=1), **facts))
    assert len(of(actions, CreateMember)) == created
    # Those that do not come back after all are replaced then.
    assert RequeueAfter(REFILL_PAUSE) in actions


def test_claims_that_wait_while_a_member_has_no_work_do_not_wait_for_another_one() -> None:
    facts = {"claims_taken": FAST, "claims_returned": taken(*[0.5] * 10), "claims": 40}
    assert len(of(decide(snapshot(10, member("a", load=1), **facts)), CreateMember)) == 9
    assert not of(decide(snapshot(10, member("a"), **facts)), CreateMember)


def test_a_backlog_goes_on_until_nothing_waits() -> None:
    """Where requests wait for about as long as a backlog takes to be one, each would be another write."""
    backlogged = _written(snapshot(1, member("a"), pending=1, oldest_pending=NOW - LONG))
    backlogged = replace(backlogged, status_written=NOW - LONG)
    assert not of(decide(replace(backlogged, oldest_pending=NOW)), PatchStatus)
    (patch,) = of(decide(replace(backlogged, pending=0, oldest_pending=None)), PatchStatus)
    assert "RequestsPlaced" in str(patch.status["conditions"])
