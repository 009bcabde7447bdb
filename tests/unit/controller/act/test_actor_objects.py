"""act/actor.py: children, results, deletions and events at the API server, and what is reported back."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from efrit import resources
from efrit.controller.manifests.result_secret import result_secret
from efrit.controller.model.actions import (
    ApplyChildren,
    ApplySecret,
    ConfirmClaims,
    Delete,
    IsolatePod,
    KeepChildren,
    ReadWarningEvents,
    Record,
    RequeueAfter,
    StopPod,
    StoreResult,
)
from efrit.errors import ApiConflict, ApiFailed, ApiNamespaceTerminating, ApiUnavailable
from tests.support.factory import Json, instance_json, request, request_json, seconds
from tests.unit.controller.act.acting import ALPHA, RECONCILED, REQUEST, UID, WORK, Rig
from tests.unit.controller.fake_bridge import INSTANCE

# Children.


def child(resource: resources.Resource) -> Json:
    owners = [{"kind": "EfritInstance", "uid": "uid-alpha", "controller": True}]
    metadata = {"name": "efrit-alpha", "namespace": "team", "ownerReferences": owners}
    return resource.manifest(metadata)


AT = (INSTANCE, "uid-alpha", 3)
SECRET = ApplySecret(*AT, child(resources.SECRETS))
CHILDREN = ApplyChildren(*AT, (child(resources.SERVICE_ACCOUNTS), child(resources.STATEFULSETS)), "digest")


async def test_children_are_applied_in_their_order_and_the_statefulset_is_taken_in(rig: Rig) -> None:
    await rig.does(CHILDREN)

    assert [call.path.split("/")[-1] for call in rig.api.made("POST")] == ["serviceaccounts", "statefulsets"]
    ((obj,),) = rig.recorded.calls_of("children.observe_statefulset")
    assert obj["kind"] == "StatefulSet"
    assert rig.recorded.calls_of("instances.applied") == [(INSTANCE, "uid-alpha", 3, "digest")]


@pytest.mark.parametrize(
    ("action", "kind", "status", "lasts", "error", "call"),
    [
        (CHILDREN, "serviceaccounts", 403, False, None, ("instances.refused", (*AT, "exceeded quota"))),
        (CHILDREN, "serviceaccounts", 503, False, ApiUnavailable, ("instances.apply_unanswered", (INSTANCE,))),
        (CHILDREN, "serviceaccounts", 500, False, ApiFailed, ("instances.failed", (*AT, "exceeded quota"))),
        (CHILDREN, "serviceaccounts", 500, True, None, ("instances.failed", (*AT, "exceeded quota"))),
        (SECRET, "secrets", 403, False, None, ("instances.refused", (*AT, "exceeded quota"))),
    ],
    ids=[
        "refused",
        "not answered",
        "failed",
        "failed for long, which counts as a refusal",
        "a secret alone, refused",
    ],
)
async def test_a_child_that_is_not_applied_is_reported_in_the_api_servers_words_and_stops_the_rest(
    rig: Rig, action: Any, kind: str, status: int, lasts: bool, error: type[Exception] | None, call: Any
) -> None:
    rig.api.fail(
        "PATCH",
        resources.resource_named(kind).path("team", "efrit-alpha"),
        status,
        {"message": "exceeded quota"},
    )
    rig.recorded.returns["instances.failed"] = lasts

    with pytest.raises(error) if error else contextlib.nullcontext():
        await rig.does(action)

    assert rig.recorded.calls == [call]
    assert len(rig.api.made("PATCH")) == 1


@pytest.mark.parametrize("action", [CHILDREN, SECRET], ids=["all children", "the Secret alone"])
async def test_what_a_namespace_that_is_being_deleted_refuses_is_reported(rig: Rig, action: Any) -> None:
    going = "forbidden: unable to create new content in namespace team because it is being terminated"
    details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    for resource in (resources.SERVICE_ACCOUNTS, resources.SECRETS):
        rig.api.fail("POST", resource.path("team"), 403, {**REFUSED, "message": going, "details": details})

    assert not await rig.does(action)

    assert rig.recorded.calls_of("instances.refused") == [(*AT, going)]


async def test_claims_and_secrets_that_were_applied_are_taken_in(rig: Rig) -> None:
    await rig.does(
        ApplyChildren(INSTANCE, "uid-alpha", 3, (child(resources.SECRETS), child(resources.VOLUME_CLAIMS)), "digest")
    )

    assert [name for name, _ in rig.recorded.calls] == [
        "children.secret_applied",
        "children.child_applied",
        "children.observe_claim",
        "children.child_applied",
        "instances.applied",
    ]


CLAIM = resources.VOLUME_CLAIMS.path("team", "efrit-alpha-queue")


@pytest.mark.parametrize(
    ("claim", "confirmed", "call"),
    [
        ({"metadata": {}}, True, "children.observe_claim"),
        ({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, False, "children.observe_claim"),
        (None, False, "children.claim_gone"),
    ],
)
async def test_the_pod_starts_only_on_claims_that_are_there(
    rig: Rig, claim: Json | None, confirmed: bool, call: str
) -> None:
    if claim is not None:
        rig.api.put(CLAIM, claim)

    assert await rig.does(ConfirmClaims(INSTANCE, ("efrit-alpha-queue",))) is confirmed
    assert [name for name, _ in rig.recorded.calls] == [call]


async def test_a_secret_is_applied_alone_without_the_others_counting_as_applied(rig: Rig) -> None:
    await rig.does(SECRET)

    assert list(rig.api.objects) == [resources.SECRETS.path("team", "efrit-alpha")]
    assert rig.recorded.calls == [("children.secret_applied", (INSTANCE,))]


POLICIES = resources.NETWORK_POLICIES.path("team")


@pytest.mark.parametrize(
    ("status", "refusal", "call"),
    [
        (None, {}, ("children.pod_isolated", (INSTANCE, "uid-pod"))),
        # Its name has the UID of its pod: it is the same.
        (409, {"reason": "AlreadyExists"}, ("children.pod_isolated", (INSTANCE, "uid-pod"))),
        (403, {"message": "exceeded quota"}, ("instances.refused", (INSTANCE, "uid-alpha", 3, "exceeded quota"))),
    ],
)
async def test_the_policy_of_a_pod_is_created_once_and_a_refusal_is_reported(
    rig: Rig, status: int | None, refusal: Json, call: Any
) -> None:
    if status is not None:
        rig.api.fail("POST", POLICIES, status, refusal)
    await rig.does(IsolatePod(INSTANCE, "uid-alpha", 3, "uid-pod", child(resources.NETWORK_POLICIES)))

    assert rig.recorded.calls == [call]
    assert [call.path for call in rig.api.calls] == [POLICIES]


ACCOUNT = resources.SERVICE_ACCOUNTS.path("team", "efrit-alpha")
SET = resources.STATEFULSETS.path("team", "efrit-alpha")


@pytest.mark.parametrize("owners", [[], [{"uid": "uid-of-another", "controller": True}], [{"uid": "uid-alpha"}]])
async def test_an_object_that_the_instance_does_not_own_is_neither_taken_nor_changed(
    rig: Rig, owners: list[Json]
) -> None:
    theirs = rig.api.put(ACCOUNT, {"metadata": {"name": "efrit-alpha", "ownerReferences": owners}})

    await rig.does(CHILDREN)

    assert rig.api.objects == {ACCOUNT: theirs}
    ((_, _, _, sentence),) = rig.recorded.calls_of("instances.refused")
    assert sentence.startswith("ServiceAccount efrit-alpha already exists and does not belong to this EfritInstance:")


async def test_a_child_that_is_known_is_one_call_and_never_another_of_its_name(rig: Rig) -> None:
    await rig.does(CHILDREN)
    rig.api.calls.clear()
    await rig.does(CHILDREN)
    assert [(call.method, call.body["metadata"]["uid"]) for call in rig.api.calls] == [
        ("PATCH", rig.api.objects[path]["metadata"]["uid"]) for path in (ACCOUNT, SET)
    ]

    theirs = rig.api.put(ACCOUNT, {"metadata": {"name": "efrit-alpha", "uid": "uid-of-another"}})
    await rig.does(CHILDREN)
    assert rig.api.objects[ACCOUNT] == theirs

    del rig.api.objects[ACCOUNT]
    await rig.does(CHILDREN)
    assert (
        rig.api.objects[ACCOUNT]["metadata"]["ownerReferences"]
        == CHILDREN.manifests[0]["metadata"]["ownerReferences"]
    )


# Results, deletions, events, explanations.


SECRETS = resources.SECRETS.path("team")
RESULT = f"{SECRETS}/efrit-result-{UID}"
STORE = StoreResult(REQUEST, UID, result_secret(request(), "x" * 40_000))
REFUSED = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "exceeded quota: no-secrets"}


async def test_a_result_is_stored_once(rig: Rig) -> None:
    assert await rig.does(STORE)
    assert await rig.does(STORE)

    assert len(rig.api.made("POST")) == 2
    assert list(rig.api.objects) == [RESULT]
    assert rig.recorded.calls_of("requests.result_stored") == [(REQUEST, UID)] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"result": "b3RoZXI="}},
        {"data": {}},
        {"immutable": False},
        {"metadata": {"name": f"efrit-result-{UID}", "namespace": "team", "ownerReferences": []}},
    ],
    ids=["another content", "no content", "still to be changed", "another owner"],
)
async def test_a_secret_that_somebody_else_created_in_advance_is_not_taken_for_the_result(
    rig: Rig, change: Json
) -> None:
    foreign = rig.api.put(RESULT, {**STORE.manifest, **change})

    assert not await rig.does(STORE)

    (call,) = rig.recorded.calls_of("requests.action_failed")
    assert (call[:3], "is not the result of this request" in call[3].sentence) == (
        (REQUEST, UID, "StoreResult"),
        True,
    )
    assert rig.recorded.calls_of("requests.result_stored") == []
    assert rig.api.objects[RESULT] == foreign


async def test_a_refused_result_is_reported_with_the_sentence_of_the_api_server(rig: Rig) -> None:
    rig.api.fail("POST", SECRETS, 403, REFUSED)

    assert not await rig.does(STORE)

    (call,) = rig.recorded.calls_of("requests.action_failed")
    assert call[3].sentence == "exceeded quota: no-secrets"
    assert call == (REQUEST, UID, "StoreResult", call[3], True)


async def test_a_namespace_that_is_being_deleted_does_not_refuse_the_result(rig: Rig) -> None:
    going = "secrets is forbidden: unable to create new content in namespace team because it is being terminated"
    details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    rig.api.fail("POST", SECRETS, 403, {**REFUSED, "message": going, "details": details})

    with pytest.raises(ApiNamespaceTerminating):
        await rig.does(STORE)

    (call,) = rig.recorded.calls_of("requests.action_failed")
    assert call[4] is False


async def test_a_conflict_that_is_no_other_object_does_not_count_as_a_stored_result(rig: Rig) -> None:
    # What a ResourceQuota answers when others create at the same moment: nothing was made.
    busy = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
    rig.api.fail("POST", SECRETS, 409, busy)

    with pytest.raises(ApiConflict):
        await rig.does(STORE)
    assert rig.recorded.calls_of("requests.result_stored") == []


@pytest.mark.parametrize(
    ("uid", "remains"), [(UID, False), (None, False), ("another", True)], ids=["there", "gone", "another of the name"]
)
async def test_what_is_deleted_or_gone_already_is_reported(rig: Rig, uid: str | None, remains: bool) -> None:
    if uid is not None:
        rig.api.put(WORK, request_json(uid=uid))

    await rig.does(Delete("EfritRequest", REQUEST, UID))

    assert (WORK in rig.api.objects) is remains
    assert rig.recorded.calls_of("requests.deleted") == [(REQUEST, UID)]


async def test_a_deletion_that_met_a_conflict_while_the_object_stays_is_tried_again(rig: Rig) -> None:
    rig.api.put(WORK, request_json())
    rig.api.fail("DELETE", WORK, 409)

    with pytest.raises(ApiConflict):
        await rig.does(Delete("EfritRequest", REQUEST, UID))

    assert rig.recorded.calls_of("requests.deleted") == []


async def test_a_deleted_instance_is_known_to_be_gone_before_the_watch_reports(rig: Rig) -> None:
    rig.api.put(ALPHA, instance_json())

    await rig.does(Delete("EfritInstance", INSTANCE, "uid-alpha"))

    assert rig.recorded.calls == [("instances.deleted", (INSTANCE, "uid-alpha"))]


async def test_a_deletion_is_given_up_where_the_object_has_changed_since_it_was_decided(rig: Rig) -> None:
    decided = rig.api.put(ALPHA, instance_json())
    changed = rig.api.put(ALPHA, instance_json(generation=2))

    version = decided["metadata"]["resourceVersion"]
    assert not await rig.does(Delete("EfritInstance", INSTANCE, "uid-alpha", version))

    assert rig.api.objects[ALPHA] == changed
    assert rig.recorded.calls == [("instances.observe", (changed,))]


async def test_an_event_names_the_object_and_the_controller(rig: Rig) -> None:
    await rig.does(Record("EfritInstance", INSTANCE, "uid-alpha", "Warning", "CrashLooping", "m" * 2000))

    (call,) = rig.api.made("POST")
    assert call.path == resources.EVENTS.path("team")
    assert call.body["involvedObject"] == resources.INSTANCES.reference("alpha", "uid-alpha", namespace="team")
    assert (call.body["type"], call.body["reason"], len(call.body["message"])) == ("Warning", "CrashLooping", 1024)
    assert (call.body["reportingInstance"], call.body["lastTimestamp"]) == ("pod-1", "2026-03-01T12:00:00Z")


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_an_event_that_cannot_be_published_stops_nothing(rig: Rig, status: int) -> None:
    rig.api.fail("POST", resources.EVENTS.path("team"), status)

    await rig.does(Record("EfritInstance", INSTANCE, "uid-alpha", "Normal", "Ready", "x"))


async def test_an_explanation_is_reported(rig: Rig) -> None:
    await rig.does(ReadWarningEvents(INSTANCE))

    assert rig.recorded.calls_of("instances.explained") == [(INSTANCE, None, None)]


async def test_a_superseded_decision_is_not_carried_out_to_its_end(rig: Rig) -> None:
    rig.api.fail("PATCH", resources.SERVICE_ACCOUNTS.path("team", "efrit-alpha"), 403, {"message": "no"})

    await rig.actor.carry_out_all(RECONCILED, [RequeueAfter(seconds(1)), CHILDREN, RequeueAfter(seconds(2))])

    assert rig.recorded.calls_of("requeue_after") == [(RECONCILED, seconds(1))]


KEPT = KeepChildren(*AT, (child(resources.SERVICE_ACCOUNTS), child(resources.NETWORK_POLICIES)))


async def test_what_keeps_a_refused_instance_safe_is_applied_and_the_refusal_stands(rig: Rig) -> None:
    await rig.does(KEPT)

    assert [call.path.split("/")[-1] for call in rig.api.made("POST")] == ["serviceaccounts", "networkpolicies"]
    assert rig.recorded.calls_of("instances.applied") == []


@pytest.mark.parametrize(("uid", "stops"), [("ss", True), ("another", False)])
async def test_a_pod_is_stopped_by_a_change_of_the_replicas_of_the_statefulset_with_this_uid_alone(
    rig: Rig, uid: str, stops: bool
) -> None:
    path = resources.STATEFULSETS.path("team", "efrit-alpha")
    before: Json = {
        "metadata": {"uid": uid, "name": "efrit-alpha"},
        "spec": {"replicas": 1, "template": {"spec": {}}},
    }
    rig.api.put(path, before)

    assert await rig.does(StopPod(*AT, "efrit-alpha", "ss")) is stops

    assert rig.api.objects[path]["spec"] == {**before["spec"], "replicas": 0 if stops else 1}
