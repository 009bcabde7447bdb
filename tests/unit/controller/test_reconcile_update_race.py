"""A pod that is to be replaced and requests that come in the same moment, through store, decisions and actor."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from efrit import resources
from efrit.errors import ApiUnavailable
from efrit.protocol import RequestState
from efrit.protocol.events import Reset
from tests.support.factory import POD_UID, QUEUE_ID, Json, condition_json, instance_json, stats, view
from tests.unit.controller.fake_bridge import INSTANCE
from tests.unit.controller.reconciling import ALPHA, Rig
from tests.unit.controller.store.world import child

STATEFULSET = resources.STATEFULSETS.path("team", "efrit-alpha")
ACCOUNT = resources.SERVICE_ACCOUNTS.path("team", "efrit-alpha")
PUT = ("PUT", "/v1/requests/uid-work")
EPHEMERAL = {"queue": {"ephemeral": True}}
RECORDED = {"phase": "Queued", "reason": "Queued", "queueID": QUEUE_ID, "instanceName": "alpha"}
RUNNING = structs.replace(view(state=RequestState.RUNNING, attempt=1), metadata={"name": "work", "namespace": "team"})
STARTING = child(phase="Pending", podIP="127.0.0.1")


def draining(rig: Rig) -> None:
    """Show a ready instance without work whose update has begun: its changed template is about to be applied."""
    rig.ready(spec=EPHEMERAL)
    rig.store.first_list_complete(None)
    opened = {"state": "Open", "id": rig.instance.facts.handover_id}
    status: Json = {
        "handover": opened,
        "conditions": [
            condition_json("Updated", "Unknown", "UpdateDraining"),
            condition_json("Ready", "True", "Ready"),
        ],
    }
    rig.store.instances.observe(rig.api.put(ALPHA, instance_json(spec=EPHEMERAL, status=status)))
    rig.bridge.answers[PUT] = (201, view().to_json())


async def reconcile(rig: Rig) -> None:
    await rig.reconcile("EfritInstance", "alpha")


def is_applied(rig: Rig) -> bool:
    return any(call.path == STATEFULSET for call in rig.api.made("PATCH"))


async def until_reached(rig: Rig, path: str) -> asyncio.Event:
    """Wait until a call to this path is under way; it is answered once the event that is returned is set."""
    await rig.api.until(lambda: any(call.path == path for call in rig.api.calls))
    return rig.api.gates[path]


async def test_a_request_that_is_recorded_while_the_template_is_applied_waits_for_the_new_pod(rig: Rig) -> None:
    draining(rig)
    rig.api.gates[STATEFULSET] = asyncio.Event()
    applying = asyncio.create_task(reconcile(rig))
    gate = await until_reached(rig, STATEFULSET)

    # Its record was on its way when the instance was found idle.
    rig.observe(status=RECORDED)
    await rig.reconcile()
    assert PUT not in rig.bridge_calls

    gate.set()
    await applying
    assert is_applied(rig)
    await rig.reconcile()
    assert PUT not in rig.bridge_calls, "handed to the pod that is being replaced"


async def test_a_request_that_is_recorded_before_the_template_is_applied_is_worked_off_by_the_old_pod(
    rig: Rig,
) -> None:
    draining(rig)
    rig.api.gates[ACCOUNT] = asyncio.Event()
    applying = asyncio.create_task(reconcile(rig))
    gate = await until_reached(rig, ACCOUNT)

    rig.observe(status=RECORDED)
    await rig.reconcile()
    assert PUT in rig.bridge_calls

    gate.set()
    await applying
    assert not is_applied(rig)


async def test_a_template_is_not_applied_at_once_to_a_pod_that_has_come_up_and_begun_work_meanwhile(rig: Rig) -> None:
    rig.ready(pod=STARTING)
    rig.store.first_list_complete(None)
    rig.store.bridges.bridge_lost(INSTANCE, POD_UID, "it starts")
    rig.api.gates[ACCOUNT] = asyncio.Event()
    applying = asyncio.create_task(reconcile(rig))
    gate = await until_reached(rig, ACCOUNT)

    rig.observe()
    for event in (Reset(queue_id=QUEUE_ID, epoch="f"), RUNNING, stats(processing=1)):
        rig.store.bridges.event(INSTANCE, POD_UID, event)
    gate.set()
    await applying
    assert not is_applied(rig)

    await reconcile(rig)
    assert not is_applied(rig), "the pod is taken for broken though its bridge sees Emacs"


async def test_while_nobody_knows_whether_a_template_was_applied_nothing_is_handed_over(rig: Rig) -> None:
    draining(rig)
    rig.api.fail("PATCH", STATEFULSET, 0)
    with pytest.raises(ApiUnavailable):
        await reconcile(rig)

    rig.observe(status=RECORDED)
    await rig.reconcile()

    assert PUT not in rig.bridge_calls


async def test_a_hand_over_that_was_decided_before_does_not_begin_while_the_template_is_applied(rig: Rig) -> None:
    draining(rig)
    rig.observe(status=RECORDED)
    handover_id = rig.instance.facts.handover_id
    assert not rig.store.instances.replace_begins(INSTANCE), "a recorded request keeps the pod"
    rig.store.requests.observe_gone(("team", "work"), "uid-work")
    assert rig.store.instances.replace_begins(INSTANCE)
    rig.observe(uid="uid-next")

    assert not rig.store.handovers.submit_begins(INSTANCE, ("team", "work"), "uid-next", handover_id)
    rig.store.instances.replace_ended(INSTANCE)
    assert rig.store.handovers.submit_begins(INSTANCE, ("team", "work"), "uid-next", handover_id)
