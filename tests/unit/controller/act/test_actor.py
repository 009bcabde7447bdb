"""act/actor.py: what each action does to the API server and the bridges, and what is told back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from efrit.controller import metrics
from efrit.controller.act import actor
from efrit.controller.act.actor import RETRY_CONFLICT, SAY_UNRESPONSIVE, Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.bulkhead import FAILURES
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.decide.queue_request import wire_request
from efrit.controller.manifests.result_secret import result_secret
from efrit.controller.model.actions import (
    Acknowledge,
    ApplyChildren,
    ApplySecret,
    CancelWork,
    ConfirmClaims,
    Delete,
    DisconnectBridge,
    FetchAnswer,
    FindSession,
    IsolatePod,
    PatchStatus,
    ReadWarningEvents,
    Record,
    RequeueAfter,
    ResourceKind,
    StoreResult,
    Submit,
    Superseded,
)
from efrit.controller.model.keys import Key, WorkKey
from efrit.errors import (
    ApiConflict,
    ApiFailed,
    ApiNamespaceTerminating,
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
    BridgeUnreachable,
    NoSpace,
    NotAnswered,
    NotLeading,
    QueueFull,
)
from tests.unit.controller.factory import (
    NOW,
    Json,
    answered,
    instance,
    instance_json,
    request,
    request_json,
    seconds,
    view,
)
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge, fake_bridge
from tests.unit.controller.listener import KINDS, Listener

REQUEST = ("team", "work")
UID = "uid-work"
ONE = f"/v1/requests/{UID}"
WORK = "/apis/efrit.dev/v1alpha1/namespaces/team/efritrequests/work"
APP = "/apis/efrit.dev/v1alpha1/namespaces/team/efritplans/app"
APP_KEY = ("team", "app")
ALPHA = "/apis/efrit.dev/v1alpha1/namespaces/team/efritinstances/alpha"


RECONCILED = WorkKey("EfritRequest", "team", "work")


@dataclass
class Rig:
    """An actor between a fake API server, a fake bridge and a sink that listens."""

    actor: Actor
    api: FakeApi
    bridge: FakeBridge
    heard: Listener
    lost: asyncio.Event
    """Set once the lease may be somebody else's."""

    async def does(self, action: Any) -> bool:
        """Carry out an action, and return whether the rest of its decision stands."""
        try:
            await self.actor.carry_out(RECONCILED, action)
        except Superseded:
            return False
        return True


@pytest.fixture
async def rig(api: FakeApi, kube: Kube, tmp_path: Path) -> AsyncIterator[Rig]:
    identity, heard, lost = new_identity(), Listener(), asyncio.Event()
    async with fake_bridge(identity, tmp_path) as bridge:
        bridges = Bridges(identity, heard.store)
        await bridges.connect(bridge.wanted())
        try:
            yield Rig(
                Actor(kube, bridges, heard.store, lambda: NOW, "pod-1", lambda: not lost.is_set()),
                api,
                bridge,
                heard,
                lost,
            )
        finally:
            await bridges.close()


def patch(status: Json, *, version: str, old: Json | None = None, kind: Any = "EfritRequest") -> PatchStatus:
    if kind == "EfritInstance":
        return PatchStatus(kind, INSTANCE, "uid-alpha", version, status, old or {})
    return PatchStatus(kind, REQUEST, UID, version, status, old or {}, NOW - seconds(1))


LATER = timedelta(hours=1)
SUBMIT = Submit(INSTANCE, REQUEST, wire_request(request(), instance()), "handover-1")


@pytest.mark.parametrize(
    "action", [SUBMIT, CancelWork(INSTANCE, REQUEST, UID), patch({"phase": "Running"}, version="1")]
)
async def test_nothing_is_done_once_the_lease_may_be_somebody_elses(rig: Rig, action: Any) -> None:
    rig.lost.set()

    with pytest.raises(NotLeading):
        await rig.does(action)

    assert rig.api.calls == []
    assert rig.bridge.calls == []


# Work.


def failure(status: int, code: str, message: str = "the volume is full") -> tuple[int, str]:
    return status, f'{{"error": {{"code": "{code}", "message": "{message}"}}}}'


VIEW = (201, view().to_json())
ANSWERED = answered(result="2")
FETCH, CANCEL, ACKNOWLEDGE = (
    FetchAnswer(INSTANCE, REQUEST, UID),
    CancelWork(INSTANCE, REQUEST, UID),
    Acknowledge(INSTANCE, UID),
)
OUTCOMES = {
    "bridges.submitted",
    "bridges.view",
    "bridges.acknowledged",
    "bridges.closed",
    "handovers.turned_away",
    "handovers.handed_over",
    "handovers.absent",
}
CALLS: dict[
    str, tuple[Any, dict[str, tuple[int, str]], type[Exception] | None, list[tuple[str, tuple[Any, ...]]]]
] = {
    "a submission": (SUBMIT, {"PUT": VIEW}, None, [("bridges.submitted", (INSTANCE, view()))]),
    "a submission under other defaults is the same request": (
        SUBMIT,
        {"PUT": failure(409, "Conflict"), "GET": (200, ANSWERED.to_json())},
        None,
        [("handovers.handed_over", (INSTANCE, REQUEST, UID)), ("bridges.submitted", (INSTANCE, ANSWERED))],
    ),
    "a submission that a bridge will never take": (
        SUBMIT,
        {"PUT": failure(413, "TooLarge", "9 bytes, 5 are allowed")},
        None,
        [("handovers.turned_away", (REQUEST, UID, "9 bytes, 5 are allowed"))],
    ),
    "a submission to a full queue is tried again": (SUBMIT, {"PUT": failure(429, "QueueFull")}, QueueFull, []),
    "a submission without a reply may have arrived": (
        SUBMIT,
        {"PUT": (0, "")},
        BridgeUnreachable,
        [("handovers.handed_over", (INSTANCE, REQUEST, UID))],
    ),
    "a cancel": (CANCEL, {"POST": (202, view().to_json())}, None, [("bridges.view", (INSTANCE, view()))]),
    "a cancel of what the queue does not know": (CANCEL, {}, None, [("handovers.absent", (REQUEST, UID, ""))]),
    "a large answer": (FETCH, {"GET": (200, ANSWERED.to_json())}, None, [("bridges.view", (INSTANCE, ANSWERED))]),
    "an acknowledgement that comes too early": (
        ACKNOWLEDGE,
        {"DELETE": failure(409, "NotAnswered")},
        NotAnswered,
        [],
    ),
    "an acknowledgement": (ACKNOWLEDGE, {"DELETE": (204, "")}, None, [("bridges.acknowledged", (INSTANCE, UID))]),
    "the end of a connection": (DisconnectBridge(INSTANCE), {}, None, [("bridges.closed", (INSTANCE,))]),
}


@pytest.mark.parametrize(("action", "replies", "error", "told"), CALLS.values(), ids=CALLS)
async def test_what_a_bridge_says_is_told(
    rig: Rig, action: Any, replies: dict[str, tuple[int, str]], error: type[Exception] | None, told: list[Any]
) -> None:
    for method, reply in replies.items():
        rig.bridge.answers[method, f"{ONE}/cancel" if method == "POST" else ONE] = reply

    with pytest.raises(error) if error else contextlib.nullcontext():
        await rig.does(action)

    assert [each for each in rig.heard.told if each[0] in OUTCOMES] == told


async def test_a_request_that_is_parked_says_why_and_keeps_its_timers(rig: Rig) -> None:
    rig.bridge.answers["PUT", ONE] = (0, "")
    rig.heard.returns["requests.action_failed"] = True
    for _ in range(FAILURES):
        with pytest.raises(BridgeUnreachable):
            await rig.does(SUBMIT)

    await rig.actor.carry_out_all(RECONCILED, [SUBMIT, patch({"phase": "Queued"}, version="1"), RequeueAfter(LATER)])

    assert [call.method for call in rig.api.calls] == []
    assert rig.heard.calls_of("requests.action_failed")[-1][2] == "Submit"
    assert rig.heard.calls_of("requests.action_failed")[-1][3].code == "Unresponsive"
    assert [after for _, after in rig.heard.calls_of("requeue_after")] == [SAY_UNRESPONSIVE, LATER]
    assert len(rig.heard.calls_of("handovers.submit_ended")) == FAILURES, "nothing was sent"


async def test_a_call_that_takes_long_gives_its_worker_to_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "SLOW_CALL_SECONDS", 0.0)
    rig.bridge.held = asyncio.Event()

    doing = asyncio.create_task(rig.does(CancelWork(INSTANCE, REQUEST, UID)))

    assert await rig.heard.hears("set_aside") == (RECONCILED,)
    rig.bridge.held.set()
    assert await doing


async def test_requests_that_wait_for_room_say_so_and_are_not_sent(rig: Rig) -> None:
    rig.bridge.answers["PUT", ONE] = failure(507, "NoSpace")
    with pytest.raises(NoSpace):
        await rig.does(SUBMIT)

    assert not await rig.does(SUBMIT)

    failures = [error for *_, error in rig.heard.calls_of("requests.action_failed")]
    assert [(error.code, error.message) for error in failures] == [("NoSpace", "the volume is full")] * 2
    assert len(rig.bridge.calls) == 1


@pytest.mark.parametrize(
    ("action", "call"),
    [(SUBMIT, ("PUT", ONE)), (FETCH, ("GET", ONE)), (CANCEL, ("POST", f"{ONE}/cancel"))],
    ids=["Submit", "FetchAnswer", "CancelWork"],
)
async def test_a_call_that_a_bridge_does_not_take_yet_is_told_with_its_sentence(
    rig: Rig, action: Any, call: tuple[str, str]
) -> None:
    rig.bridge.answers[call] = failure(507, "NoSpace")

    with pytest.raises(NoSpace):
        await rig.does(action)

    (told,) = rig.heard.calls_of("requests.action_failed")
    assert told[:3] == (REQUEST, UID, type(action).__name__)
    assert told[3].message == "the volume is full"


# Status.


def progress(version: str) -> PatchStatus:
    return replace(patch({"phase": "Running", "progress": {"step": 2}}, version=version), droppable=True)


@pytest.mark.parametrize("droppable", [False, True], ids=["status", "progress"])
async def test_a_status_is_written_on_condition_of_version_and_uid_and_taken_in_from_the_reply(
    rig: Rig, droppable: bool
) -> None:
    version = rig.api.put(WORK, request_json())["metadata"]["resourceVersion"]
    write = progress(version) if droppable else patch({"phase": "Running"}, version=version)

    await rig.does(write)

    (call,) = rig.api.made("PATCH")
    assert call.path == f"{WORK}/status"
    assert call.body == {"metadata": {"resourceVersion": version, "uid": UID}, "status": dict(write.status)}
    ((obj,),) = rig.heard.calls_of("requests.observe")
    assert obj["status"] == write.status
    assert int(obj["metadata"]["resourceVersion"]) > int(version)


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        (
            {"phase": "Running", "progress": {"step": 1}, "session": {"id": "a", "question": "?"}, "result": "kept"},
            {"phase": "Succeeded", "session": {"id": "b"}, "result": "kept"},
            {"progress": None, "session": {"id": "b", "question": None}},
        ),
        (
            {"conditions": [{"type": "Complete", "message": "x"}]},
            {"conditions": [{"type": "Complete"}, {"type": "Succeeded"}]},
            {},
        ),
    ],
    ids=["at every depth", "of lists as a whole"],
)
async def test_what_is_gone_from_the_status_is_removed(rig: Rig, old: Json, new: Json, body: Json) -> None:
    stored = rig.api.put(WORK, {**request_json(), "status": old})

    await rig.does(patch(new, old=old, version=stored["metadata"]["resourceVersion"]))

    assert rig.api.objects[WORK]["status"] == new
    assert body.items() <= rig.api.made("PATCH")[0].body["status"].items()


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [("EfritRequest", WORK, REQUEST), ("EfritInstance", ALPHA, INSTANCE), ("EfritPlan", APP, APP_KEY)],
)
async def test_a_conflict_over_a_status_ends_the_decision_and_the_object_comes_back(
    rig: Rig, kind: ResourceKind, path: str, key: Key
) -> None:
    stored = rig.api.put(path, {"metadata": {"name": key[1], "namespace": key[0], "uid": "uid"}})
    write = PatchStatus(kind, key, "uid", "1", {"phase": "Ready"}, {})
    event = Record(kind, key, "uid", "Normal", "Ready", "x")

    await rig.actor.carry_out_all(RECONCILED, [write, event, RequeueAfter(seconds(9))])

    assert [call.method for call in rig.api.calls] == ["PATCH", "GET"], "nothing is forced"
    assert rig.heard.calls_of("instances.status_written") == []
    assert [obj["metadata"] for (obj,) in rig.heard.calls_of(f"{KINDS[kind]}.observe")] == [stored["metadata"]]
    assert rig.heard.calls_of("requeue_after") == [(WorkKey(kind, *key), RETRY_CONFLICT)]


async def test_a_status_of_a_request_made_anew_under_the_name_is_not_written(rig: Rig) -> None:
    stored = rig.api.put(WORK, request_json(uid="another"))

    await rig.does(patch({"phase": "Running"}, version=stored["metadata"]["resourceVersion"]))

    assert rig.api.objects[WORK].get("status") == {}
    ((obj,),) = rig.heard.calls_of("requests.observe")
    assert obj["metadata"]["uid"] == "another"


async def test_a_request_or_an_instance_that_is_gone_is_told(rig: Rig) -> None:
    await rig.does(patch({"phase": "Running"}, version="1"))
    await rig.does(patch({"phase": "Ready"}, version="1", kind="EfritInstance"))

    gone = [each for each in rig.heard.told if each[0] != "requeue_after"]
    assert gone == [("requests.deleted", (REQUEST, UID)), ("instances.deleted", (INSTANCE, "uid-alpha"))]


async def test_the_time_of_an_instances_status_is_told(rig: Rig) -> None:
    version = rig.api.put(ALPHA, instance_json())["metadata"]["resourceVersion"]

    await rig.does(patch({"phase": "Ready"}, version=version, kind="EfritInstance"))

    assert [name for name, _ in rig.heard.told] == ["instances.observe", "instances.status_written"]


@pytest.mark.parametrize(
    ("status", "message", "error", "told"),
    [
        (422, "the status of a finished EfritRequest is final", ApiRefused, ["requests.observe"]),
        (500, "etcdserver: request is too large", ApiTooLarge, ["requests.status_too_large"]),
        (413, "limit is 3145728", ApiTooLarge, ["requests.status_too_large"]),
        (500, "failure", ApiUnavailable, []),
    ],
    ids=["refused", "too large for etcd", "too large", "not written"],
)
async def test_a_status_that_is_not_written_is_told_and_comes_back(
    rig: Rig, status: int, message: str, error: type[Exception], told: list[str]
) -> None:
    rig.api.put(WORK, request_json())
    rig.api.fail("PATCH", f"{WORK}/status", status, {"message": message})

    with pytest.raises(error):
        await rig.does(patch({"phase": "Failed"}, version="101"))

    assert [name for name, _ in rig.heard.told] == told


async def test_what_the_model_cost_is_counted_once_the_end_is_written(rig: Rig) -> None:
    def counted() -> list[float]:
        tokens = metrics.MODEL_TOKENS.labels("output")
        errors = metrics.MODEL_ERRORS.labels("529")
        return [each._value.get() for each in (tokens, metrics.MODEL_CALLS, errors)]

    usage = {"outputTokens": 7, "modelCalls": 2, "modelErrors": {"529": 1}}
    stored = rig.api.put(WORK, request_json())
    before = counted()

    version = stored["metadata"]["resourceVersion"]
    await rig.does(patch({"phase": "Failed", "usage": usage}, version="1"))
    assert counted() == before, "somebody was faster"
    await rig.does(patch({"phase": "Failed", "usage": usage}, version=version))

    assert [after - then for after, then in zip(counted(), before, strict=True)] == [7, 2, 1]


# Progress.


async def test_progress_of_a_request_that_has_changed_is_dropped(rig: Rig) -> None:
    rig.api.put(WORK, {**request_json(), "status": {"phase": "Succeeded"}})

    await rig.does(progress("1"))

    assert rig.api.objects[WORK]["status"] == {"phase": "Succeeded"}
    assert [call.method for call in rig.api.calls] == ["PATCH"]
    assert rig.heard.told == [("requests.progress_dropped", (REQUEST, UID))]


@pytest.mark.parametrize("status", [0, 404, 413, 422, 429, 500])
async def test_progress_that_is_refused_or_lost_is_not_made_up_for(rig: Rig, status: int) -> None:
    stored = rig.api.put(WORK, request_json())
    rig.api.fail("PATCH", f"{WORK}/status", status)

    await rig.does(progress(stored["metadata"]["resourceVersion"]))

    assert len(rig.api.made("PATCH")) == 1
    assert rig.heard.told == [("requests.progress_dropped", (REQUEST, UID))]


# Sessions.


@pytest.mark.parametrize(
    ("statuses", "home"),
    [
        ([], ""),
        ([{"session": {"id": "s-1"}}], ""),
        ([{"session": {"id": "s-1"}, "instanceName": "alpha"}, {"session": {"id": "s-1"}}], "alpha"),
    ],
)
async def test_the_instance_of_a_session_is_that_of_the_requests_that_had_it(
    rig: Rig, statuses: list[Json], home: str
) -> None:
    for number, status in enumerate(statuses):
        rig.api.put(WORK.replace("work", f"w{number}"), {**request_json(f"w{number}"), "status": status})

    await rig.does(FindSession(REQUEST, UID, "s-1"))

    (call,) = rig.api.made("GET")
    assert call.query["fieldSelector"] == "status.session.id=s-1"
    assert rig.heard.told == [("requests.session_found", (REQUEST, UID, home))]


# Children.


def child(kind: str, api_version: str = "v1") -> Json:
    owners = [{"uid": "uid-alpha", "controller": True}]
    metadata = {"name": "efrit-alpha", "namespace": "team", "ownerReferences": owners}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


AT = (INSTANCE, "uid-alpha", 3)
SECRET = ApplySecret(*AT, child("Secret"))
CHILDREN = ApplyChildren(*AT, (child("ServiceAccount"), child("StatefulSet", "apps/v1")), "digest")


async def test_children_are_applied_in_their_order_and_the_statefulset_is_taken_in(rig: Rig) -> None:
    await rig.does(CHILDREN)

    assert [call.path.split("/")[-1] for call in rig.api.made("POST")] == ["serviceaccounts", "statefulsets"]
    ((obj,),) = rig.heard.calls_of("children.observe_statefulset")
    assert obj["kind"] == "StatefulSet"
    assert rig.heard.calls_of("instances.applied") == [(INSTANCE, "uid-alpha", 3, "digest")]


@pytest.mark.parametrize(
    ("action", "kind", "status", "lasts", "error", "told"),
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
async def test_a_child_that_is_not_applied_is_told_in_the_api_servers_words_and_stops_the_rest(
    rig: Rig, action: Any, kind: str, status: int, lasts: bool, error: type[Exception] | None, told: Any
) -> None:
    rig.api.fail("PATCH", f"/api/v1/namespaces/team/{kind}/efrit-alpha", status, {"message": "exceeded quota"})
    rig.heard.returns["instances.failed"] = lasts

    with pytest.raises(error) if error else contextlib.nullcontext():
        await rig.does(action)

    assert rig.heard.told == [told]
    assert len(rig.api.made("PATCH")) == 1


async def test_claims_and_secrets_that_were_applied_are_taken_in(rig: Rig) -> None:
    await rig.does(
        ApplyChildren(INSTANCE, "uid-alpha", 3, (child("Secret"), child("PersistentVolumeClaim")), "digest")
    )

    assert [name for name, _ in rig.heard.told] == [
        "children.secret_applied",
        "children.child_applied",
        "children.observe_claim",
        "children.child_applied",
        "instances.applied",
    ]


CLAIM = "/api/v1/namespaces/team/persistentvolumeclaims/efrit-alpha-queue"


@pytest.mark.parametrize(
    ("claim", "confirmed", "told"),
    [
        ({"metadata": {}}, True, "children.observe_claim"),
        ({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, False, "children.observe_claim"),
        (None, False, "children.claim_gone"),
    ],
)
async def test_the_pod_starts_only_on_claims_that_are_there(
    rig: Rig, claim: Json | None, confirmed: bool, told: str
) -> None:
    if claim is not None:
        rig.api.put(CLAIM, claim)

    assert await rig.does(ConfirmClaims(INSTANCE, ("efrit-alpha-queue",))) is confirmed
    assert [name for name, _ in rig.heard.told] == [told]


async def test_a_secret_is_applied_alone_without_the_others_counting_as_applied(rig: Rig) -> None:
    await rig.does(SECRET)

    assert list(rig.api.objects) == ["/api/v1/namespaces/team/secrets/efrit-alpha"]
    assert rig.heard.told == [("children.secret_applied", (INSTANCE,))]


POLICIES = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies"


@pytest.mark.parametrize(
    ("status", "refusal", "told"),
    [
        (None, {}, ("children.pod_isolated", (INSTANCE, "uid-pod"))),
        # Its name has the UID of its pod: it is the same.
        (409, {"reason": "AlreadyExists"}, ("children.pod_isolated", (INSTANCE, "uid-pod"))),
        (403, {"message": "exceeded quota"}, ("instances.refused", (INSTANCE, "uid-alpha", 3, "exceeded quota"))),
    ],
)
async def test_the_policy_of_a_pod_is_created_once_and_a_refusal_is_told(
    rig: Rig, status: int | None, refusal: Json, told: Any
) -> None:
    if status is not None:
        rig.api.fail("POST", POLICIES, status, refusal)
    await rig.does(IsolatePod(INSTANCE, "uid-alpha", 3, "uid-pod", child("NetworkPolicy", "networking.k8s.io/v1")))

    assert rig.heard.told == [told]
    assert [each.path for each in rig.api.calls] == [POLICIES]


ACCOUNT = "/api/v1/namespaces/team/serviceaccounts/efrit-alpha"
SET = "/apis/apps/v1/namespaces/team/statefulsets/efrit-alpha"


@pytest.mark.parametrize("owners", [[], [{"uid": "uid-of-another", "controller": True}], [{"uid": "uid-alpha"}]])
async def test_an_object_that_the_instance_does_not_own_is_neither_taken_nor_changed(
    rig: Rig, owners: list[Json]
) -> None:
    theirs = rig.api.put(ACCOUNT, {"metadata": {"name": "efrit-alpha", "ownerReferences": owners}})

    await rig.does(CHILDREN)

    assert rig.api.objects == {ACCOUNT: theirs}
    ((_, _, _, sentence),) = rig.heard.calls_of("instances.refused")
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


SECRETS = "/api/v1/namespaces/team/secrets"
RESULT = f"{SECRETS}/efrit-result-{UID}"
STORE = StoreResult(REQUEST, UID, result_secret(request(), "x" * 40_000))
REFUSED = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "exceeded quota: no-secrets"}


async def test_a_result_is_stored_once(rig: Rig) -> None:
    assert await rig.does(STORE)
    assert await rig.does(STORE)

    assert len(rig.api.made("POST")) == 2
    assert list(rig.api.objects) == [RESULT]
    assert rig.heard.calls_of("requests.result_stored") == [(REQUEST, UID)] * 2


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

    (told,) = rig.heard.calls_of("requests.action_failed")
    assert (told[:3], "is not the result of this request" in told[3].sentence) == (
        (REQUEST, UID, "StoreResult"),
        True,
    )
    assert rig.heard.calls_of("requests.result_stored") == []
    assert rig.api.objects[RESULT] == foreign


async def test_a_refused_result_is_told_with_the_sentence_of_the_api_server(rig: Rig) -> None:
    rig.api.fail("POST", SECRETS, 403, REFUSED)

    assert not await rig.does(STORE)

    (told,) = rig.heard.calls_of("requests.action_failed")
    assert told[3].sentence == "exceeded quota: no-secrets"
    assert told == (REQUEST, UID, "StoreResult", told[3], True)


async def test_a_namespace_that_is_being_deleted_does_not_refuse_the_result(rig: Rig) -> None:
    going = "secrets is forbidden: unable to create new content in namespace team because it is being terminated"
    details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    rig.api.fail("POST", SECRETS, 403, {**REFUSED, "message": going, "details": details})

    with pytest.raises(ApiNamespaceTerminating):
        await rig.does(STORE)

    (told,) = rig.heard.calls_of("requests.action_failed")
    assert told[4] is False


async def test_a_conflict_that_is_no_other_object_does_not_count_as_a_stored_result(rig: Rig) -> None:
    # What a ResourceQuota answers when others create at the same moment: nothing was made.
    busy = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the object has been modified"}
    rig.api.fail("POST", SECRETS, 409, busy)

    with pytest.raises(ApiConflict):
        await rig.does(STORE)
    assert rig.heard.calls_of("requests.result_stored") == []


@pytest.mark.parametrize(
    ("uid", "kept"), [(UID, False), (None, False), ("another", True)], ids=["there", "gone", "another of the name"]
)
async def test_what_is_deleted_or_gone_already_is_told(rig: Rig, uid: str | None, kept: bool) -> None:
    if uid is not None:
        rig.api.put(WORK, request_json(uid=uid))

    await rig.does(Delete("EfritRequest", REQUEST, UID))

    assert (WORK in rig.api.objects) is kept
    assert rig.heard.calls_of("requests.deleted") == [(REQUEST, UID)]


async def test_a_deletion_that_met_a_conflict_while_the_object_stays_is_tried_again(rig: Rig) -> None:
    rig.api.put(WORK, request_json())
    rig.api.fail("DELETE", WORK, 409)

    with pytest.raises(ApiConflict):
        await rig.does(Delete("EfritRequest", REQUEST, UID))

    assert rig.heard.calls_of("requests.deleted") == []


async def test_a_deleted_instance_is_known_to_be_gone_before_the_watch_tells(rig: Rig) -> None:
    rig.api.put(ALPHA, instance_json())

    await rig.does(Delete("EfritInstance", INSTANCE, "uid-alpha"))

    assert rig.heard.told == [("instances.deleted", (INSTANCE, "uid-alpha"))]


async def test_a_deletion_is_given_up_where_the_object_has_changed_since_it_was_decided(rig: Rig) -> None:
    decided = rig.api.put(ALPHA, instance_json())
    changed = rig.api.put(ALPHA, instance_json(generation=2))

    version = decided["metadata"]["resourceVersion"]
    assert not await rig.does(Delete("EfritInstance", INSTANCE, "uid-alpha", version))

    assert rig.api.objects[ALPHA] == changed
    assert rig.heard.told == [("instances.observe", (changed,))]


async def test_an_event_names_the_object_and_the_controller(rig: Rig) -> None:
    await rig.does(Record("EfritInstance", INSTANCE, "uid-alpha", "Warning", "CrashLooping", "m" * 2000))

    (call,) = rig.api.made("POST")
    assert call.path == "/api/v1/namespaces/team/events"
    assert call.body["involvedObject"] == {
        "apiVersion": "efrit.dev/v1alpha1",
        "kind": "EfritInstance",
        "namespace": "team",
        "name": "alpha",
        "uid": "uid-alpha",
    }
    assert (call.body["type"], call.body["reason"], len(call.body["message"])) == ("Warning", "CrashLooping", 1024)
    assert (call.body["reportingInstance"], call.body["lastTimestamp"]) == ("pod-1", "2026-03-01T12:00:00Z")


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_an_event_that_cannot_be_published_stops_nothing(rig: Rig, status: int) -> None:
    rig.api.fail("POST", "/api/v1/namespaces/team/events", status)

    await rig.does(Record("EfritInstance", INSTANCE, "uid-alpha", "Normal", "Ready", "x"))


async def test_an_explanation_is_told(rig: Rig) -> None:
    await rig.does(ReadWarningEvents(INSTANCE))

    assert rig.heard.calls_of("instances.explained") == [(INSTANCE, None)]


async def test_a_key_comes_back_after_its_time_whoever_leads(rig: Rig) -> None:
    rig.lost.set()

    await rig.does(RequeueAfter(seconds(1)))

    assert rig.heard.calls_of("requeue_after") == [(RECONCILED, seconds(1))]


async def test_a_superseded_decision_is_not_carried_out_to_its_end(rig: Rig) -> None:
    rig.api.fail("PATCH", "/api/v1/namespaces/team/serviceaccounts/efrit-alpha", 403, {"message": "no"})

    await rig.actor.carry_out_all(RECONCILED, [RequeueAfter(seconds(1)), CHILDREN, RequeueAfter(seconds(2))])

    assert rig.heard.calls_of("requeue_after") == [(RECONCILED, seconds(1))]
