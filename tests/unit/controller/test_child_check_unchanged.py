"""What a resync applies: the children that are not known to be as this process has applied them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.kube import Kube
from efrit.controller.child_check import ChildCheck
from efrit.controller.model import names
from efrit.controller.model.keys import RESYNC
from tests.support.factory import Json, instance_json
from tests.unit.controller.reconciling import ALPHA, Rig

ACCOUNT = resources.SERVICE_ACCOUNTS.path("team", "efrit-alpha")
POLICY = resources.NETWORK_POLICIES.path("team", "efrit-alpha")
CLAIM = resources.VOLUME_CLAIMS.path("team", "efrit-alpha-queue")
SET = resources.STATEFULSETS.path("team", "efrit-alpha")
ALL = {"serviceaccounts", "secrets", "networkpolicies", "persistentvolumeclaims", "statefulsets"}
Step = Callable[[Rig], Any]


def change(path: str) -> Step:
    return lambda at: at.api.put(path, at.api.objects[path])


def relabel(path: str) -> Step:
    def step(at: Rig) -> None:
        obj = at.api.objects[path]
        meta = {**obj["metadata"], "labels": {**obj["metadata"]["labels"], names.INSTANCE_LABEL: "another"}}
        changed = at.api.put(path, {**obj, "metadata": meta})
        if path == SET:
            at.store.children.observe_statefulset(changed)
        elif path == CLAIM:
            at.store.children.observe_claim(changed)

    return step


def delete(path: str) -> Step:
    return lambda at: at.api.objects.pop(path)


def refuse_lists(path: str) -> Step:
    where = path.replace("namespaces/team/", "").rpartition("/")[0]
    return lambda at: at.api.fail("GET", where, 403)


def show_claim(at: Rig) -> None:
    at.store.children.observe_claim(at.api.put(CLAIM, at.api.objects[CLAIM]))


def open_network(at: Rig) -> None:
    spec: Json = {"network": {"egress": [{}]}}
    at.store.instances.observe(at.api.put(ALPHA, instance_json(generation=2, spec=spec)))


def sweep_away(path: str) -> Step:
    return lambda at: at.store.children.forget({at.api.objects[path]["metadata"]["uid"]})


@pytest.mark.parametrize(
    ("meanwhile", "applied"),
    [
        (lambda _: None, {"secrets"}),
        (change(ACCOUNT), {"secrets", "serviceaccounts"}),
        (change(POLICY), {"secrets", "networkpolicies"}),
        *((relabel(path), {"secrets", path.split("/")[-2]}) for path in (ACCOUNT, POLICY, CLAIM, SET)),
        (show_claim, {"secrets", "persistentvolumeclaims"}),
        (delete(POLICY), ALL),
        (sweep_away(CLAIM), ALL),
        (sweep_away(SET), ALL),
        (refuse_lists(POLICY), {"secrets", "networkpolicies"}),
        (open_network, ALL),
    ],
    ids=[
        "nothing",
        "account",
        "policy",
        *(f"relabelled-{number}" for number in range(4)),
        "claim",
        "deleted",
        "swept-claim",
        "swept-set",
        "unlisted",
        "spec",
    ],
)
async def test_a_resync_applies_what_has_changed_and_what_nobody_sees(
    rig: Rig, kube: Kube, meanwhile: Step, applied: set[str]
) -> None:
    rig.store.instances.observe(rig.api.put(ALPHA, instance_json()))
    await rig.reconcile("EfritInstance", "alpha")
    for path in (ACCOUNT, POLICY, CLAIM, SET):
        assert path in rig.api.objects
    rig.api.calls.clear()

    meanwhile(rig)
    await ChildCheck(kube, rig.store, None, 1, 60).find_missing()
    await rig.reconcile(RESYNC, "alpha")
    await rig.reconcile("EfritInstance", "alpha")

    written = {call.path.split("/")[-2] for call in rig.api.made("PATCH")}
    assert written & ALL == applied


async def test_a_changed_policy_is_applied_again_without_a_resync(rig: Rig, kube: Kube) -> None:
    rig.store.instances.observe(rig.api.put(ALPHA, instance_json()))
    await rig.reconcile("EfritInstance", "alpha")
    rig.api.put(POLICY, {**rig.api.objects[POLICY], "spec": {"policyTypes": []}})

    await ChildCheck(kube, rig.store, None, 1, 60).find_missing()
    await rig.reconcile("EfritInstance", "alpha")

    assert rig.api.objects[POLICY]["spec"]["policyTypes"]
