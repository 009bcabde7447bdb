"""decide/plans.py: what the engine wants becomes actions; when a status is worth a write, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from efrit import resources
from efrit.api import EfritPlan, Outcome, PlanReason
from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.controller.decide.plans import DELETED_AT_ONCE, decide_plan
from efrit.controller.manifests.plan_request import plan_request
from efrit.controller.model.actions import (
    Action,
    CancelRequest,
    ConfirmPlan,
    CreateRequest,
    Delete,
    DeleteLater,
    ListRequests,
    PatchStatus,
    ReadResult,
    RequeueAfter,
)
from efrit.controller.model.snapshots import PlanSnapshot, Refusal
from efrit.plan import engine
from efrit.plan.status import RETRY_BLOCKED
from tests.support.factory import (
    NOW,
    Json,
    condition,
    final_status,
    instance,
    of_kind,
    part,
    plan,
    plan_json,
    pod,
    seconds,
    the,
    wire_time,
    written,
)

CREATE = engine.Create(
    "app-1-act", "act", 1, {"type": "command", "content": "Do it.", "retryPolicy": "IfInterrupted"}
)
BEGUN: Json = {
    "phase": "Running",
    "reason": "Running",
    "observedGeneration": 1,
    "startTime": wire_time(NOW - seconds(60)),
    "instanceName": "alpha",
    "commitCount": 1,
}
DESCRIBED: Json = {"commitCount": 1, "currentTask": "a", "step": "Act", "counts": {"tasks": 2, "done": 1}}


class Script:
    """An engine with one decision, which records the snapshots it got."""

    def __init__(self, action: Any = CREATE, described: Json | None = None, **more: Any) -> None:
        plain: Json = {"cursor": None, "task": None, "phase": None, "message": "It is at work."}
        self.decision = engine.Decision(action, **(plain | more))
        self.described = DESCRIBED if described is None else described
        self.snapshots: list[engine.Snapshot] = []

    def judge(self, snapshot: engine.Snapshot, now: datetime) -> engine.Decision:
        self.snapshots.append(snapshot)
        return self.decision

    def describe(self, snapshot: engine.Snapshot, decision: engine.Decision) -> Mapping[str, Any]:
        return self.described

    def decide(self, snapshot: PlanSnapshot, now: datetime = NOW) -> list[Action]:
        return decide_plan(snapshot, now, self.judge, self.describe)


def snapshot_of(
    *parts: Any, target: Any = None, results: Mapping[str, str] | None = None, **fields: Any
) -> PlanSnapshot:
    """Return a plan whose requests are known."""
    requests = {part.metadata.name: part for part in parts}
    return PlanSnapshot(plan(**fields), requests, results or {}, target or instance())


def silent(plan_snapshot: PlanSnapshot, script: Script) -> PlanSnapshot:
    """Return the same plan once its status is written."""
    status = written(script.decide(plan_snapshot))
    return replace(plan_snapshot, plan=plan(status=status))


# What comes before the engine.


def test_nothing_is_decided_before_its_requests_are_known() -> None:
    assert Script().decide(PlanSnapshot(plan())) == [ListRequests(("team", "app"), "uid-app")]


def test_nothing_is_done_for_a_plan_that_is_being_deleted() -> None:
    assert Script().decide(snapshot_of(deleting=True)) == []


def long(name: str) -> Any:
    status = {**final_status(), "result": "begin", "truncated": True}
    return part(name, status={**status, "resultRef": {"secretName": "s", "key": "result", "bytes": 9, "sha256": "x"}})


def test_long_results_are_read_before_anything_is_decided() -> None:
    script = Script()

    actions = script.decide(snapshot_of(long("one"), part("two", status=final_status())))

    assert actions == [ReadResult(("team", "app"), "uid-app", "one", "uid-one", "x", "begin")]
    assert script.snapshots == []


def test_the_engine_gets_whole_results_of_what_has_ended() -> None:
    script = Script()
    short = part("two", status={**final_status(), "result": "short"})

    script.decide(snapshot_of(long("one"), short, part("three"), results={"uid-one": "whole"}))

    assert script.snapshots[0].results == {"one": "whole", "two": "short"}
    assert script.snapshots[0].requests.keys() == {"one", "two", "three"}


def test_the_engine_gets_the_limits_of_the_instance() -> None:
    script = Script()

    script.decide(snapshot_of(target=instance(spec={"limits": {"maxRequestBytes": 9000, "maxTimeoutSeconds": 60}})))
    script.decide(replace(snapshot_of(), target=None))

    assert [limits.max_content_bytes for limits in script.snapshots] == [9000, 65_536]
    assert [limits.max_timeout_seconds for limits in script.snapshots] == [60, 86_400]


# Where the repository's Secret is.

GIT: Json = {"environment": {"git": {"url": "https://git.example.org/a", "secretRef": {"name": "git-key"}}}}
MOUNTED: Json = {
    "podTemplate": {
        "volumes": [
            {"name": "other", "secret": {"secretName": "other"}},
            {"name": "keys", "secret": {"secretName": "git-key"}},
        ],
        "volumeMounts": [{"name": "other", "mountPath": "/other"}, {"name": "keys", "mountPath": "/keys"}],
    }
}


def test_the_engine_gets_the_path_of_the_repository_secret() -> None:
    script = Script()

    script.decide(snapshot_of(target=instance(spec=MOUNTED), **GIT))

    assert script.snapshots[0].credentials == "/keys"


def test_a_plan_whose_secret_is_not_mounted_says_what_to_add_and_looks_again() -> None:
    script = Script()

    actions = script.decide(snapshot_of(**GIT))

    assert script.snapshots == []
    status, reason, message = condition(written(actions), "Complete")
    assert (status, reason) == ("False", "Blocked")
    assert "EfritInstance alpha does not mount Secret git-key" in message
    assert the(actions, RequeueAfter).after == RETRY_BLOCKED


BEGIN = engine.Create("app-0-begin", "begin", 0, {"type": "eval", "content": '(efrit-plan-begin "{}")'})


@pytest.mark.parametrize("attempt", ["begin", "begin-2"])
@pytest.mark.parametrize("mounts", [(), (("git-key", "/elsewhere"),), (("other", "/keys"),)], ids=str)
def test_a_plan_does_not_begin_until_the_running_pod_has_the_secret(
    attempt: str, mounts: tuple[tuple[str, str], ...]
) -> None:
    script = Script(replace(BEGIN, attempt=attempt))
    earlier = [part("app-0-begin", status=final_status("Failed"))] if attempt != "begin" else []
    snapshot = snapshot_of(*earlier, target=instance(spec=MOUNTED), status=BEGUN, **GIT)

    waiting = script.decide(replace(snapshot, pod=pod(secret_mounts=mounts)))

    status, reason, message = condition(written(waiting), "Complete")
    assert (status, reason) == ("False", "Blocked")
    assert "pod of EfritInstance alpha does not mount Secret git-key at /keys yet" in message
    assert (of_kind(waiting, CreateRequest), the(waiting, RequeueAfter).after) == ([], RETRY_BLOCKED)
    for there in (
        pod(secret_mounts=(*mounts, ("git-key", "/keys"))),
        pod(deleting=True),
        pod(secret_mounts=None),
        None,
    ):
        assert of_kind(script.decide(replace(snapshot, pod=there)), CreateRequest)


def test_a_plan_does_not_begin_once_more_while_the_instance_does_not_mount_the_secret_any_more() -> None:
    failed = part("app-0-begin", status=final_status("Failed"))

    actions = Script(replace(BEGIN, attempt="begin-2")).decide(snapshot_of(failed, status=BEGUN, **GIT))

    assert condition(written(actions), "Complete")[1] == "Blocked"
    assert of_kind(actions, CreateRequest) == []


def test_once_it_has_begun_the_secret_is_the_instances_own_business() -> None:
    script = Script()

    script.decide(snapshot_of(part("app-0-begin"), **GIT))

    assert len(script.snapshots) == 1


# Requests.


def test_the_next_request_is_made_as_the_plans_own() -> None:
    (manifest,) = [action.manifest for action in of_kind(Script().decide(snapshot_of(status=BEGUN)), CreateRequest)]

    assert manifest["metadata"] == {
        "name": "app-1-act",
        "namespace": "team",
        "labels": {"efrit.dev/plan": "uid-app", "efrit.dev/plan-step": "1", "efrit.dev/plan-part": "act"},
        "ownerReferences": [resources.PLANS.reference("app", "uid-app", controller=True)],
    }
    assert manifest["spec"] == {**CREATE.spec, "instanceRef": {"name": "alpha"}}


def test_the_first_status_comes_before_the_first_request_and_work_before_the_word_after_that() -> None:
    first = [type(action) for action in Script().decide(snapshot_of())]
    later = [type(action) for action in Script().decide(snapshot_of(status=BEGUN))]

    assert first == [PatchStatus, CreateRequest]
    assert later == [CreateRequest, PatchStatus]


def test_a_plan_whose_requests_may_have_gone_with_it_is_asked_for_before_one_is_made() -> None:
    doubtful = replace(snapshot_of(status=BEGUN), unconfirmed=True)

    actions = Script().decide(doubtful)

    assert actions[0] == ConfirmPlan(("team", "app"), "uid-app")
    assert len(of_kind(actions, CreateRequest)) == 1


def test_a_plan_that_has_not_begun_is_not_asked_for_as_its_first_status_is_refused_where_it_is_gone() -> None:
    assert of_kind(Script().decide(replace(snapshot_of(), unconfirmed=True)), ConfirmPlan) == []


TAKEN = part("one", target=None, status={"instanceName": "beta"})
POOL: Json = {"poolRef": {"name": "many"}}


@pytest.mark.parametrize(
    ("fields", "parts", "target", "bound_to"),
    [
        ({}, (), POOL, None),
        ({}, (part("one", target=None),), POOL, None),
        ({}, (TAKEN,), {"instanceRef": {"name": "beta"}}, "beta"),
        ({"status": {**BEGUN, "instanceName": "gamma"}}, (), {"instanceRef": {"name": "gamma"}}, "gamma"),
    ],
)
def test_the_member_of_the_pool_that_took_the_first_request_gets_all_which_is_written_down(
    fields: Json, parts: Any, target: Json, bound_to: str | None
) -> None:
    actions = Script().decide(pooled(*parts, **fields))

    spec = the(actions, CreateRequest).manifest["spec"]
    assert {name: spec[name] for name in ("instanceRef", "poolRef") if name in spec} == target
    assert written(actions).get("instanceName") == bound_to


def pooled(*parts: Any, **fields: Any) -> PlanSnapshot:
    return replace(snapshot_of(*parts), plan=plan(target=None, **POOL, **fields))


def test_what_is_to_be_cancelled_is_cancelled_once() -> None:
    script = Script(engine.Wait(), cancel=("one", "two", "gone"))

    actions = script.decide(snapshot_of(part("one"), part("two", cancel=True), cancel=True))

    assert of_kind(actions, CancelRequest) == [CancelRequest(("team", "one"), "uid-one")]


def test_requests_of_past_steps_are_deleted_a_few_at_a_time() -> None:
    names = [f"r{number}" for number in range(DELETED_AT_ONCE + 5)]
    script = Script(engine.Wait(), superseded=("gone", *names))

    actions = script.decide(snapshot_of(*map(part, names), status=BEGUN))

    assert of_kind(actions, Delete) == [
        Delete("EfritRequest", ("team", name), f"uid-{name}") for name in names[:DELETED_AT_ONCE]
    ]


def test_no_request_is_deleted_while_only_they_know_which_member_of_the_pool_has_the_plan() -> None:
    script = Script(engine.Wait(), superseded=("one",))

    assert of_kind(script.decide(pooled(part("one"))), Delete) == []


def test_a_budget_that_will_end_is_reconciled_then() -> None:
    actions = Script(engine.Wait(NOW + seconds(9))).decide(snapshot_of(status=BEGUN))

    assert the(actions, RequeueAfter).after == seconds(9)


# The status.


def test_the_first_status_says_since_when() -> None:
    status = written(Script().decide(snapshot_of(generation=3)))

    assert (status["phase"], status["startTime"], status["observedGeneration"]) == ("Pending", wire_time(NOW), 3)
    assert condition(status, "Complete") == ("False", "Pending", "It is at work.")
    assert condition(status, "Succeeded") == ("Unknown", "Pending", "It is at work.")


def test_a_plan_at_work_reports_what_the_engine_describes() -> None:
    status = written(Script(cursor=object()).decide(snapshot_of(status=BEGUN)))

    assert (status["phase"], status["reason"], status["startTime"]) == ("Running", "Running", BEGUN["startTime"])
    assert (status["currentTask"], status["step"], status["commitCount"]) == ("a", "Act", 1)
    assert (status["counts"]["tasks"], status["counts"]["done"]) == (2, 1)
    assert status["currentRequest"] == "app-1-act"


def test_the_same_step_is_not_reported_twice_though_another_request_is_at_work() -> None:
    plan_snapshot = silent(snapshot_of(status=BEGUN), Script(cursor=object()))
    other = replace(CREATE, name="app-1-facts", attempt="facts")

    assert of_kind(Script(other, cursor=object()).decide(plan_snapshot), PatchStatus) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "Adapt"},
        {"currentTask": "b"},
        {"commitCount": 2},
        {"observations": [{"perspective": "build", "statement": "It builds."}]},
    ],
    ids=str,
)
def test_what_has_changed_is_reported(changes: Json) -> None:
    plan_snapshot = silent(snapshot_of(status=BEGUN), Script(cursor=object()))

    status = written(Script(cursor=object(), described={**DESCRIBED, **changes}).decide(plan_snapshot))

    assert changes.items() <= status.items()


def test_what_the_engine_leaves_out_is_gone() -> None:
    plan_snapshot = silent(snapshot_of(status=BEGUN), Script(cursor=object()))

    actions = Script(cursor=object(), described={"commitCount": 1}).decide(plan_snapshot)

    assert "currentTask" not in written(actions)


@pytest.mark.parametrize(
    ("spec", "phase", "reason"),
    [({"suspend": True}, "Suspended", "Suspended"), ({"cancel": True}, "Running", "Cancelling")],
)
def test_a_plan_that_is_held_says_so(spec: Json, phase: str, reason: str) -> None:
    status = written(Script(engine.Wait(), cursor=object()).decide(snapshot_of(status=BEGUN, **spec)))

    assert (status["phase"], status["reason"]) == (phase, reason)


@pytest.mark.parametrize(
    ("outcome", "reason", "phase", "succeeded"),
    [
        (Outcome.SUCCESS, PlanReason.SUCCEEDED, "Succeeded", "True"),
        (Outcome.PARTIAL, PlanReason.BUDGET_EXHAUSTED, "Failed", "False"),
        (Outcome.FAILURE, PlanReason.TASK_FAILED, "Failed", "False"),
    ],
)
def test_an_end_is_final_in_every_place(outcome: Outcome, reason: PlanReason, phase: str, succeeded: str) -> None:
    status = written(Script(engine.Finish(outcome, reason, "That was it.")).decide(snapshot_of(status=BEGUN)))

    assert (status["phase"], status["reason"], status["outcome"]) == (phase, reason.value, outcome.value)
    assert condition(status, "Complete") == ("True", reason.value, "That was it.")
    assert condition(status, "Succeeded") == (succeeded, reason.value, "That was it.")
    assert status["completionTime"] == wire_time(NOW)
    assert "currentRequest" not in status


def test_a_status_the_object_has_no_room_for_does_without_what_is_large() -> None:
    tree = [{"id": "root", "type": "parent", "description": "All.", "state": "pending"}]
    script = Script(described={**DESCRIBED, "tree": tree})

    full, reduced = (
        written(script.decide(replace(snapshot_of(), reduced_status=reduced))) for reduced in (False, True)
    )

    assert full["tree"][0]["id"] == "root"
    assert not reduced.get("tree")
    assert reduced["currentTask"] == "a"


# What keeps it from going on.


def test_a_refusal_is_reported_and_tried_again_after_a_while() -> None:
    refused = Refusal("exceeded quota", NOW)
    script = Script()

    actions = script.decide(replace(snapshot_of(status=BEGUN), refusal=refused))
    later = script.decide(replace(snapshot_of(status=BEGUN), refusal=refused), NOW + RETRY_BLOCKED)

    assert condition(written(actions), "Complete") == ("False", "Blocked", "exceeded quota")
    assert the(actions, RequeueAfter).after == RETRY_BLOCKED
    assert of_kind(actions, CreateRequest) == []
    assert len(of_kind(later, CreateRequest)) == 1


def test_a_refused_request_is_tried_again_at_once_where_the_clock_was_set_back_since() -> None:
    refused = Refusal("exceeded quota", NOW + seconds(3600))

    actions = Script().decide(replace(snapshot_of(status=BEGUN), refusal=refused))
    unread = Script().decide(replace(snapshot_of(status=BEGUN), requests=None, refusal=refused))

    assert len(of_kind(actions, CreateRequest)) == 1
    assert len(of_kind(unread, ListRequests)) == 1


def test_a_plan_that_is_blocked_can_be_cancelled() -> None:
    script = Script(engine.Finish(Outcome.FAILURE, PlanReason.CANCELLED, "Cancelled."))

    actions = script.decide(replace(snapshot_of(cancel=True), refusal=Refusal("exceeded quota", NOW)))

    assert written(actions)["reason"] == "Cancelled"


# Once it is final.


def test_a_final_plan_is_kept_unless_it_has_a_time_to_live() -> None:
    ended = {"phase": "Succeeded", "completionTime": wire_time(NOW)}

    assert Script().decide(snapshot_of(status=ended)) == []
    waits = Script().decide(snapshot_of(status=ended, ttlSecondsAfterFinished=30), NOW + seconds(10))
    assert waits == [DeleteLater("EfritPlan", ("team", "app"), "uid-app", NOW + seconds(30))]
    over = Script().decide(snapshot_of(status=ended, ttlSecondsAfterFinished=30), NOW + seconds(30))
    assert over == [Delete("EfritPlan", ("team", "app"), "uid-app")]


@pytest.mark.parametrize(("requester", "passed_on"), [("kim", "kim"), ("k" * 5000, "k" * MAX_FLOW_CHARS), ("", None)])
def test_the_requests_of_a_plan_are_those_of_whoever_made_the_plan(requester: str, passed_on: str | None) -> None:
    obj = plan_json(target=None, poolRef={"name": "crew"})
    obj["metadata"]["annotations"] = {REQUESTER: requester, "of-kubectl": "x"}

    manifest = plan_request(EfritPlan.model_validate(obj), None, CREATE)

    assert manifest["metadata"].get("annotations") == ({REQUESTER: passed_on} if passed_on else None)
