"""reconcile.py: one reconciliation of one key, through the real store, decisions and actor."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from efrit import resources
from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.identity import new_identity
from efrit.controller.act.kube import Kube
from efrit.controller.model.config import RolloutLimits
from efrit.controller.model.keys import RESYNC, WorkKey
from efrit.controller.reconcile import MAX_READS, Reconciler
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiUnavailable, BridgeUnreachable, EfritError
from efrit.protocol import RequestReason, RequestState, request_id
from efrit.protocol.events import Reset
from efrit.protocol.response import given_back
from efrit.protocol.view import RequestView
from tests.support.factory import (
    CONFIG,
    NOW,
    POD_UID,
    QUEUE_ID,
    Json,
    answered,
    condition,
    final_status,
    instance_json,
    request_json,
    statefulset_json,
    stats,
    view,
)
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import ALPHA, WORK, Rig
from tests.unit.controller.store.world import child

KEY = ("team", "work")
UID = "uid-work"
ONE = f"/v1/requests/{UID}"
CANCEL = f"{ONE}/cancel"
STATEFULSET = resources.STATEFULSETS.path("team", "efrit-alpha")
RUNNING = view(state=RequestState.RUNNING, attempt=1)
LOST = structs.replace(RUNNING, metadata={"name": "work", "namespace": "team"})


def ended(uid: str = UID) -> RequestView:
    return structs.replace(answered(uid, reason=RequestReason.CANCELLED), metadata=LOST.metadata)


def accept(rig: Rig, *uids: str) -> None:
    """Have the bridge do whatever it is asked to do about these requests."""
    for uid in uids or (UID,):
        rig.bridge.answers["PUT", f"/v1/requests/{uid}"] = (201, view(uid).to_json())
        rig.bridge.answers["POST", f"/v1/requests/{uid}/cancel"] = (200, ended(uid).to_json())
        rig.bridge.answers["DELETE", f"/v1/requests/{uid}"] = (204, "")


def crowd_out_contents(rig: Rig) -> None:
    """Show as many large requests as it takes to have no room for the content of another."""
    for number in range(9):
        rig.store.requests.observe(request_json(f"r{number}", content="\N{GRINNING FACE}" * 245_760))


async def test_a_request_goes_from_hand_over_to_acknowledgement(rig: Rig) -> None:
    rig.ready()
    rig.observe()
    accept(rig)

    await rig.reconcile()
    rig.store.bridges.event(INSTANCE, POD_UID, answered(result="2"))
    rig.api.fail("PATCH", f"{WORK}/status", 503)
    with pytest.raises(ApiUnavailable):
        await rig.reconcile()
    assert ("DELETE", ONE) not in rig.bridge_calls, "acknowledged before the status was confirmed"
    await rig.reconcile()

    assert (rig.status["phase"], rig.status["result"]) == ("Succeeded", "2")
    assert rig.bridge_calls == [("PUT", ONE), ("DELETE", ONE)], "acknowledged as it ends, not in a turn of its own"
    assert len(rig.api.made("PATCH")) == 2


# Contents that are read again.


async def test_a_content_that_was_dropped_is_read_again_and_handed_over_at_once(rig: Rig) -> None:
    rig.ready()
    rig.observe(content="(whole)" * 1000)
    crowd_out_contents(rig)
    accept(rig)

    await rig.reconcile()

    (sent,) = (body for method, _, body in rig.bridge.calls if method == "PUT")
    assert json.loads(sent)["content"] == "(whole)" * 1000
    assert [call.path for call in rig.api.made("GET")] == [WORK]


@pytest.mark.parametrize("by", [None, "another"])
async def test_a_request_whose_content_is_gone_when_it_is_read_is_not_handed_over(rig: Rig, by: str | None) -> None:
    rig.store.first_list_complete(None)
    rig.ready()
    rig.observe(content="x" * 60_000)
    crowd_out_contents(rig)
    del rig.api.objects[WORK]
    if by is not None:
        rig.api.put(WORK, request_json(uid=by, content="(other)"))

    await rig.reconcile()

    assert rig.bridge_calls == []
    assert rig.store.requests.snapshot(KEY) is None


async def test_a_request_that_was_cancelled_when_its_content_is_read_is_declined_instead(rig: Rig) -> None:
    rig.ready()
    rig.observe(content="x" * 60_000)
    crowd_out_contents(rig)
    rig.api.put(WORK, request_json(content="(late)", cancel=True, version="99"))
    accept(rig)

    await rig.reconcile()

    assert rig.bridge_calls == [("POST", CANCEL)]


# What the watch may not know yet.


@pytest.mark.parametrize("exists", [True, False])
async def test_a_request_does_not_end_for_an_instance_that_only_the_watch_does_not_know(
    rig: Rig, exists: bool
) -> None:
    if exists:
        rig.api.put(ALPHA, instance_json())
    rig.observe()
    rig.clock.passed = timedelta(hours=1)

    await rig.reconcile()

    assert rig.status.get("phase") == (None if exists else "Failed")
    assert (rig.store.instances.snapshot(INSTANCE) is not None) is exists


OPENED = {"handover": {"state": "Open", "id": "of another process"}}


@pytest.mark.parametrize("stored", [instance_json(version="11", status=OPENED), None], ids=["opened", "gone"])
async def test_a_cancelled_request_does_not_end_while_another_process_may_have_handed_it_over(
    rig: Rig, stored: Json | None
) -> None:
    rig.store.instances.observe(instance_json(version="10"))
    rig.store.first_list_complete(None)
    if stored is not None:
        rig.api.put(ALPHA, stored)
    rig.observe(cancel=True)

    await rig.reconcile()

    assert rig.status == {}
    target = rig.store.instances.snapshot(INSTANCE)
    assert (target.facts.opened_by_other if target else None) == (True if stored else None)


# Requests that left the selection of the watch.


async def test_a_final_request_that_left_the_selection_is_forgotten_once_acknowledged(rig: Rig) -> None:
    rig.ready(answered(result="2"))
    rig.observe(status=final_status())
    rig.store.requests.observe_left(request_json())
    accept(rig)

    await rig.reconcile()

    assert rig.store.requests.snapshot(KEY) is None


@pytest.mark.parametrize(
    ("views", "change", "calls", "remembered"),
    [
        ((RUNNING,), None, [("POST", CANCEL)], True),
        ((), {"metadata": {"uid": "another"}}, [("POST", CANCEL)], False),
        ((), {}, [("PUT", ONE)], True),
        ((), {"status": final_status()}, [], False),
    ],
    ids=["deleted", "made anew", "by mistake", "finished by somebody else"],
)
async def test_a_request_that_left_is_looked_up_before_anything_is_done(
    rig: Rig, views: tuple[RequestView, ...], change: Json | None, calls: list[tuple[str, str]], remembered: bool
) -> None:
    rig.ready(*views)
    stored = rig.observe()
    if change is None:
        del rig.api.objects[WORK]
    else:
        rig.api.put(WORK, {**stored, **change, "metadata": stored["metadata"] | change.get("metadata", {})})
    rig.store.requests.observe_left(stored)
    rig.bridge.answers["PUT", ONE] = (201, view().to_json())
    for request_view in views:
        rig.bridge.answers["POST", CANCEL] = (202, request_view.to_json())

    await rig.reconcile()

    assert rig.bridge_calls == calls
    assert (rig.store.requests.snapshot(KEY) is not None) is remembered
    assert not rig.store.requests.must_verify(KEY)


async def test_a_404_that_is_not_the_api_servers_own_says_nothing_about_a_request(rig: Rig) -> None:
    """As a proxy in front of it answers, that has no way to it yet."""
    rig.ready(RUNNING)
    stored = rig.observe()
    rig.store.requests.observe_left(stored)
    rig.api.fail("GET", WORK, 404, "404 page not found\n")

    with pytest.raises(ApiUnavailable):
        await rig.reconcile()

    assert rig.bridge_calls == []
    assert rig.store.requests.must_verify(KEY)
    await rig.reconcile()
    assert rig.bridge_calls == []
    assert rig.store.requests.snapshot(KEY) is not None
    assert not rig.store.requests.must_verify(KEY)


async def test_an_instance_that_one_list_has_left_out_is_asked_for_and_stays(rig: Rig) -> None:
    rig.ready()
    rig.store.instances.observe_missing(INSTANCE, "uid-alpha")

    await rig.reconcile("EfritInstance", "alpha")

    assert rig.store.instances.must_verify(INSTANCE) is None
    changed = rig.api.put(ALPHA, {**rig.api.objects[ALPHA], "spec": {"operatingMode": "Suspended"}})
    rig.store.instances.observe(changed)
    assert rig.instance.instance.spec.operating_mode == "Suspended", "it counts as deleted"


async def test_an_instance_that_is_gone_and_made_anew_is_asked_for_no_more(rig: Rig) -> None:
    rig.store.instances.observe(instance_json())
    rig.store.instances.observe_missing(INSTANCE, "uid-alpha")
    await rig.reconcile("EfritInstance", "alpha")
    assert rig.store.instances.snapshot(INSTANCE) is None

    rig.store.children.observe_statefulset(statefulset_json())
    rig.store.instances.observe(instance_json(uid="second", version="90"))

    assert rig.store.instances.must_verify(INSTANCE) is None


# Work whose request is not known.


async def test_work_of_a_request_that_was_missed_is_taken_up(rig: Rig) -> None:
    rig.ready(LOST)
    rig.api.put(WORK, request_json())

    await rig.reconcile()

    snapshot = rig.store.requests.snapshot(KEY)
    assert snapshot is not None
    assert snapshot.bridge_view == LOST
    assert rig.bridge_calls == []


async def test_work_of_a_final_request_is_acknowledged(rig: Rig) -> None:
    rig.ready(LOST)
    rig.api.put(WORK, request_json(status=final_status()))
    accept(rig)

    await rig.reconcile()

    assert rig.bridge_calls == [("DELETE", ONE)]


async def test_work_of_a_deleted_request_is_stopped_and_acknowledged_once(rig: Rig) -> None:
    rig.ready(LOST)
    accept(rig)

    await rig.reconcile()
    await rig.reconcile()

    assert rig.bridge_calls == [("POST", CANCEL), ("DELETE", ONE)]
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_request_is_stopped_when_another_has_taken_its_name(rig: Rig) -> None:
    rig.observe()
    rig.ready(LOST)
    accept(rig, UID, "uid-second")
    # The deletion was never reported: one watch event of the next request is all that came.
    rig.observe(uid="uid-second")

    await rig.reconcile()

    assert rig.bridge_calls == [("PUT", "/v1/requests/uid-second"), ("POST", CANCEL), ("DELETE", ONE)]
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_two_deleted_requests_of_one_name_is_stopped(rig: Rig) -> None:
    rig.ready(LOST, structs.replace(LOST, id=request_id("uid-second")))
    accept(rig, UID, "uid-second")

    await rig.reconcile()

    stopped = {path for method, path in rig.bridge_calls if method == "POST"}
    assert stopped == {CANCEL, "/v1/requests/uid-second/cancel"}
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_deleted_request_that_still_runs_is_acknowledged_when_it_has_ended(rig: Rig) -> None:
    rig.ready(LOST)
    rig.bridge.answers["POST", CANCEL] = (202, LOST.to_json())
    rig.bridge.answers["DELETE", ONE] = (409, '{"error": {"code": "NotAnswered", "message": "it runs"}}')

    await rig.reconcile()
    rig.store.bridges.event(INSTANCE, POD_UID, ended())
    accept(rig)
    await rig.reconcile()

    assert rig.bridge_calls[-1] == ("DELETE", ONE)
    assert rig.store.bridges.orphans(KEY) == []


async def test_work_of_a_deleted_request_is_not_forgotten_because_its_bridge_was_away(rig: Rig) -> None:
    rig.ready(LOST)
    rig.bridge.answers["POST", CANCEL] = (0, "")

    with pytest.raises(BridgeUnreachable):
        await rig.reconcile()

    assert rig.store.bridges.orphans(KEY) == [(INSTANCE, UID)]


@pytest.mark.parametrize("kind", ["EfritRequest", "EfritPlan"])
async def test_a_key_nobody_knows_needs_nothing(rig: Rig, kind: str) -> None:
    await rig.reconcile(kind)

    assert rig.api.calls == []


# Instances and the pulse.


async def test_a_refusal_is_reported_instead_of_the_status_that_was_decided_before_it(rig: Rig) -> None:
    account = resources.SERVICE_ACCOUNTS.path("team", "efrit-alpha")
    rig.store.instances.observe(rig.api.put(ALPHA, instance_json()))
    rig.api.fail("PATCH", account, 403, {"message": "exceeded quota: accounts"})

    await rig.reconcile("EfritInstance", "alpha")
    assert [call.path for call in rig.api.made("PATCH")] == [account]
    await rig.reconcile("EfritInstance", "alpha")

    _, reason, message = condition(rig.api.objects[ALPHA]["status"], "Ready")
    assert (reason, "exceeded quota: accounts" in message) == ("ChildRefused", True)

    # Taken back: the status that the refusal still speaks in is not written for the new generation.
    mended = {**rig.api.objects[ALPHA], **instance_json(generation=2, version="999")}
    rig.store.instances.observe(rig.api.put(ALPHA, {**mended, "status": rig.api.objects[ALPHA]["status"]}))
    await rig.reconcile("EfritInstance", "alpha")
    assert rig.api.objects[ALPHA]["status"]["observedGeneration"] == 1
    await rig.reconcile("EfritInstance", "alpha")
    after = rig.api.objects[ALPHA]["status"]
    assert (after["observedGeneration"], condition(after, "Ready")[1]) == (2, "Creating")


async def test_a_kind_that_nobody_reconciles_is_not_taken_for_an_instance(rig: Rig) -> None:
    with pytest.raises(KeyError, match="EfritOther"):
        await rig.reconcile("EfritOther", "alpha")

    assert len(rig.bridges) == 1


async def test_an_instance_that_is_gone_is_disconnected(rig: Rig) -> None:
    assert len(rig.bridges) == 1

    await rig.reconcile("EfritInstance", "alpha")

    assert len(rig.bridges) == 0


async def test_a_sleeping_instance_is_reconciled_when_a_request_comes(rig: Rig) -> None:
    asleep = instance_json(spec={"idle": {"suspendAfterSeconds": 60}}, status={"suspendedIdle": True})
    rig.store.instances.observe(asleep)
    rig.observe()
    reconciled = asyncio.Event()

    async def reconcile(key: WorkKey) -> None:
        await rig.reconciler.reconcile(key)
        if rig.api.objects.get(STATEFULSET):
            reconciled.set()

    working = asyncio.create_task(rig.queue.run(reconcile, 1))
    await asyncio.wait_for(reconciled.wait(), TIMEOUT)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert rig.api.objects[STATEFULSET]["spec"]["replicas"] == 1


async def test_a_resync_key_has_the_children_of_its_instance_applied_again(rig: Rig) -> None:
    rig.ready()

    await rig.reconcile(RESYNC, "alpha")
    await rig.reconcile(RESYNC, "unknown")

    assert rig.instance.facts.resync
    assert set(rig.store.instances.keys()) == {INSTANCE}


async def test_a_key_of_a_namespace_that_is_not_served_is_not_reconciled(rig: Rig) -> None:
    rig.ready()
    rig.observe()
    accept(rig)
    rig.served = False

    await rig.reconcile()
    assert (rig.bridge_calls, rig.api.calls) == ([], [])

    rig.served = True
    await rig.reconcile()
    assert rig.bridge_calls == [("PUT", ONE)]


async def test_of_a_namespace_that_is_not_served_any_more_what_left_it_is_forgotten(rig: Rig) -> None:
    rig.ready()
    rig.store.first_list_complete(None)
    stored = rig.observe()
    rig.store.children.forget_pod(child())
    rig.store.children.forget_statefulset(statefulset_json())
    rig.served = False

    await rig.reconcile()
    assert rig.store.records()["requests"] == 1
    # A queue may have it for as long as there is its instance.
    rig.store.requests.observe_left(stored)
    await rig.reconcile()
    assert rig.store.records()["requests"] == 1
    rig.store.instances.observe_left(instance_json())
    await rig.reconcile()
    await rig.reconcile("EfritInstance", "alpha")

    records = rig.store.records()
    assert (records["requests"], records["instances"], len(rig.bridges)) == (0, 0, 0)
    assert (rig.bridge_calls, rig.api.calls) == ([], [])
    # The list of the namespace, once it is served again, finds what is open.
    rig.store.requests.observe(stored)
    assert rig.store.requests.open_uids() == {KEY: UID}


async def test_before_a_namespace_was_listed_nothing_of_it_is_forgotten(rig: Rig) -> None:
    rig.served = False
    rig.store.requests.observe_left(rig.observe())

    await rig.reconcile()

    assert rig.store.records()["requests"] == 1


async def test_two_instances_decided_about_at_once_do_not_take_the_same_place(api: FakeApi, kube: Kube) -> None:
    identity = new_identity()
    limits = RolloutLimits(max_concurrent=1, max_concurrent_per_namespace=5)
    store = Store(WorkQueue(), replace(CONFIG, rollout=limits), lambda: NOW)
    actor = Actor(kube, Bridges(identity, store), store, lambda: NOW, "pod-1", lambda: True)
    reconciler = Reconciler(store, actor, identity, lambda: NOW, lambda _: True)
    names = ["a", "b", "c"]
    for name in names:
        store.instances.observe(api.put(resources.INSTANCES.path("team", name), instance_json(name)))
        current = statefulset_json(name)
        current["metadata"] |= {"uid": f"ss-{name}", "annotations": {"efrit.dev/template-hash": "old"}}
        store.children.observe_statefulset(current)
        containers = [{"name": "emacs", "state": {"running": {}}}]
        status: Json = {"phase": "Running", "containerStatuses": containers}
        pod = child(uid=f"pod-{name}", name=f"efrit-{name}-0", of=name, owner=f"ss-{name}", **status)
        store.children.observe_pod(pod)
        store.bridges.event(("team", name), f"pod-{name}", stats())

    store.first_list_complete(None)
    await asyncio.gather(*(reconciler.reconcile(WorkKey("EfritInstance", "team", name)) for name in names))

    reasons = [
        condition(api.objects[resources.INSTANCES.path("team", name)]["status"], "Updated")[1] for name in names
    ]
    assert sorted(reasons) == ["UpdateDraining", "UpdateQueued", "UpdateQueued"]


# Ephemeral queues that end before they have begun a request.


EPHEMERAL = {"queue": {"ephemeral": True}}
NEXT_POD, NEXT_QUEUE = "pod-uid-2", "queue-2"


def stop_pod(rig: Rig) -> None:
    """Show that the pod of the instance is being deleted."""
    stopping = child(phase="Running", podIP="127.0.0.1")
    stopping["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    rig.store.children.observe_pod(stopping)


def replace_pod(rig: Rig) -> None:
    """Show the next pod of the instance, whose bridge tells of an empty queue."""
    rig.store.children.observe_pod(child(uid=NEXT_POD, phase="Running", podIP="127.0.0.1"))
    for event in (Reset(queue_id=NEXT_QUEUE, epoch="n"), stats(queue_id=NEXT_QUEUE)):
        rig.store.bridges.event(INSTANCE, NEXT_POD, event)


async def handed_over(rig: Rig) -> Json:
    """Reconcile the request until it is handed over or final; return its status."""
    for _ in range(5):
        await rig.reconcile()
        if rig.status.get("phase") in ("Succeeded", "Failed") or ("PUT", ONE) in rig.bridge_calls:
            break
    return rig.status


async def test_a_request_that_was_recorded_on_a_queue_and_not_sent_there_is_handed_to_the_next_pod(rig: Rig) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe()
    accept(rig)
    await rig.reconcile()
    assert rig.status["queueID"] == QUEUE_ID
    stop_pod(rig)
    await rig.reconcile()
    replace_pod(rig)

    assert (await handed_over(rig))["queueID"] == NEXT_QUEUE
    assert rig.bridge_calls == [("PUT", ONE)]


async def test_what_a_reconciliation_has_read_last_is_decided_with_by_the_next(rig: Rig) -> None:
    unread = view(UID, RequestState.ANSWERED)
    rig.ready(unread)
    rig.observe()
    rig.bridge.answers["GET", ONE] = (200, unread.to_json())
    rig.bridge.answers["DELETE", ONE] = (204, "")

    async def work(key: WorkKey) -> None:
        if key.kind == "EfritRequest":
            await rig.reconciler.reconcile(key)
            rig.bridge.answers["GET", ONE] = (200, answered(result="2").to_json())

    working = asyncio.create_task(rig.queue.run(work, 1))
    await rig.api.until(lambda: rig.status.get("phase") == "Succeeded")
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert rig.bridge_calls.count(("GET", ONE)) == MAX_READS + 1


async def test_that_the_next_queue_could_not_be_recorded_does_not_say_that_the_one_before_had_the_request(
    rig: Rig,
) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe()
    accept(rig)
    await rig.reconcile()
    stop_pod(rig)
    await rig.reconcile()
    replace_pod(rig)
    rig.api.fail("PATCH", f"{WORK}/status", 500)
    with pytest.raises(EfritError):
        await rig.reconcile()

    assert (await handed_over(rig))["queueID"] == NEXT_QUEUE
    assert rig.bridge_calls == [("PUT", ONE)]


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        ((503, '{"error": {"code": "NotReady", "message": "the queue ends with its pod"}}'), "Queued"),
        ((503, '{"error": {"code": "StorageError", "message": "it may be there"}}'), "Failed"),
        ((0, ""), "Failed"),
    ],
    ids=["refused", "the disk has failed", "cut off"],
)
async def test_what_a_queue_that_ends_has_refused_is_handed_to_the_next_pod_and_nothing_that_it_may_have(
    rig: Rig, answer: tuple[int, str], phase: str
) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe()
    await rig.reconcile()
    rig.bridge.answers["PUT", ONE] = answer
    with pytest.raises(EfritError):
        await rig.reconcile()
    stop_pod(rig)
    rig.bridge.calls.clear()
    replace_pod(rig)
    accept(rig)

    assert (await handed_over(rig))["phase"] == phase
    assert bool(rig.bridge_calls) == (phase == "Queued")


async def test_a_request_for_which_no_bridge_was_there_is_handed_to_the_next_pod(rig: Rig) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe()
    await rig.reconcile()
    await rig.bridges.disconnect(INSTANCE)
    rig.ready(spec=EPHEMERAL)
    with pytest.raises(BridgeUnreachable):
        await rig.reconcile()
    stop_pod(rig)
    replace_pod(rig)
    await rig.bridges.connect(rig.bridge.connect_action(pod_uid=NEXT_POD))
    accept(rig)

    assert (await handed_over(rig))["phase"] == "Queued"
    assert rig.bridge_calls == [("PUT", ONE)]


@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "its bridge ended before"])
async def test_what_a_queue_gives_back_is_handed_to_the_next_pod(rig: Rig, acknowledged: bool) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe()
    accept(rig)
    assert (await handed_over(rig))["queueID"] == QUEUE_ID
    stop_pod(rig)
    answer = structs.replace(view(state=RequestState.ANSWERED), response=given_back(request_id(UID), NOW))
    rig.store.bridges.event(INSTANCE, POD_UID, answer)
    await rig.reconcile()
    assert "queueID" not in rig.status
    if acknowledged:
        await rig.reconcile()
        assert rig.bridge_calls == [("PUT", ONE), ("DELETE", ONE)]
    rig.bridge.calls.clear()
    replace_pod(rig)

    assert (await handed_over(rig))["queueID"] == NEXT_QUEUE
    assert ("PUT", ONE) in rig.bridge_calls


async def test_an_earlier_controllers_record_on_a_lost_queue_ends_interrupted(rig: Rig) -> None:
    rig.ready(spec=EPHEMERAL)
    rig.observe(status={"phase": "Queued", "queueID": "queue-0", "instanceName": "alpha"})

    assert (await handed_over(rig))["reason"] == "Interrupted"
    assert rig.bridge_calls == []
