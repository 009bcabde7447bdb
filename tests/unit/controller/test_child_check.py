"""child_check.py: lists of metadata find deleted children, and each Secret gets its turn; all of it bounded."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.kube import Kube
from efrit.controller.child_check import LISTS_LEFT_OUT, ChildCheck, list_pause, secret_pause
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.kube.media_types import METADATA_LIST
from tests.support.factory import CONFIG, NOW, instance_json, statefulset_json
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.virtual_time import elapse

ALPHA = ("team", "alpha")
ACCOUNTS = resources.SERVICE_ACCOUNTS.path()
POLICIES = resources.NETWORK_POLICIES.path()


@dataclass
class Rig:
    check: ChildCheck
    store: Store
    api: FakeApi
    kube: Kube

    def place(self, name: str = "alpha") -> None:
        """Create both children of an instance."""
        for group, plural in (("api/v1", "serviceaccounts"), ("apis/networking.k8s.io/v1", "networkpolicies")):
            where = f"/{group}/namespaces/team/{plural}/efrit-{name}"
            self.api.put(where, {"metadata": {"name": f"efrit-{name}", "namespace": "team"}})

    def missing(self, name: str = "alpha") -> bool:
        snapshot = self.store.instances.snapshot(("team", name))
        assert snapshot is not None
        return snapshot.facts.child_missing


@pytest.fixture
async def rig(api: FakeApi, kube: Kube) -> Rig:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    store.instances.observe(instance_json())
    store.children.observe_statefulset(statefulset_json())
    return Rig(ChildCheck(kube, store, None, 1, 60), store, api, kube)


async def test_children_that_are_there_are_left_alone(rig: Rig) -> None:
    rig.place()

    await rig.check.find_missing()

    assert not rig.missing()


@pytest.mark.parametrize(
    "plural", [resources.SERVICE_ACCOUNTS.path("team"), POLICIES.replace("v1/", "v1/namespaces/team/")]
)
async def test_a_child_that_is_gone_is_found(rig: Rig, plural: str) -> None:
    rig.place()
    del rig.api.objects[f"{plural}/efrit-alpha"]

    await rig.check.find_missing()

    assert rig.missing()
    rig.store.instances.applied(ALPHA, "uid-alpha", 1)
    assert not rig.missing()


async def test_only_metadata_of_labelled_children_is_asked_for_page_by_page(rig: Rig) -> None:
    rig.api.page_size = 1
    for name in ("alpha", "beta", "gamma"):
        rig.place(name)

    await rig.check.find_missing()

    assert [call.path for call in rig.api.calls] == [ACCOUNTS] * 3 + [POLICIES] * 3
    assert {call.accept for call in rig.api.calls} == {METADATA_LIST}
    assert all("efrit.dev/instance" in call.query["labelSelector"] for call in rig.api.calls)
    assert not rig.missing()


async def test_an_empty_list_of_metadata_has_no_items_at_all(rig: Rig) -> None:
    for where in (ACCOUNTS, POLICIES):
        rig.api.fail("GET", where, 200, {"metadata": {}, "items": None})

    await rig.check.find_missing()

    assert rig.missing()


async def test_an_instance_whose_children_were_not_applied_yet_lacks_none(rig: Rig) -> None:
    rig.store.instances.observe(instance_json("young"))
    rig.store.instances.observe(instance_json("ending", deleting=True))
    rig.store.children.observe_statefulset(statefulset_json("ending"))

    await rig.check.find_missing()

    assert not rig.missing("young")
    assert not rig.missing("ending")


async def test_nothing_is_listed_where_nothing_was_applied(api: FakeApi, kube: Kube) -> None:
    await ChildCheck(kube, Store(WorkQueue(), CONFIG, lambda: NOW), None, 1, 60).find_missing()

    assert api.calls == []


async def test_a_kind_that_may_not_be_listed_is_left_out_with_one_line(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.place()
    rig.api.fail("GET", ACCOUNTS, 403)
    with caplog.at_level(logging.WARNING, "efrit"):
        for _ in range(3):
            await rig.check.find_missing()

    assert [call.path for call in rig.api.calls] == [ACCOUNTS, POLICIES, POLICIES, POLICIES]
    (line,) = caplog.messages
    assert "ServiceAccount" in line
    assert not rig.missing()


async def test_a_kind_that_was_refused_once_is_listed_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.place()
    rig.api.fail("GET", ACCOUNTS, 403)
    with caplog.at_level(logging.WARNING, "efrit"):
        await rig.check.find_missing()
    del rig.api.objects[f"{resources.SERVICE_ACCOUNTS.path('team')}/efrit-alpha"]
    caplog.clear()

    with caplog.at_level(logging.INFO, "efrit"):
        for _ in range(LISTS_LEFT_OUT + 1):
            await rig.check.find_missing()

    assert rig.missing()
    assert [call.path for call in rig.api.calls].count(ACCOUNTS) == 2
    assert [message for message in caplog.messages if "ServiceAccount" in message] == [
        "ServiceAccounts are listed again"
    ]


async def test_what_was_changed_while_a_kind_was_refused_is_applied_again(rig: Rig) -> None:
    rig.place()
    where = f"{resources.SERVICE_ACCOUNTS.path('team')}/efrit-alpha"
    manifest = {"kind": "ServiceAccount", "metadata": {"name": "efrit-alpha", "namespace": "team"}}
    labelled = {**rig.api.objects[where], "kind": "ServiceAccount"}
    labelled["metadata"] = {**labelled["metadata"], "labels": {"efrit.dev/instance": "alpha"}}
    applied = rig.api.put(where, labelled)
    rig.store.children.child_applied(ALPHA, manifest, applied)
    rig.api.fail("GET", ACCOUNTS, 403)
    await rig.check.find_missing()
    assert not rig.store.children.is_as_applied(ALPHA, manifest), "nobody sees what becomes of it"
    rig.api.put(where, labelled)

    for _ in range(LISTS_LEFT_OUT + 1):
        await rig.check.find_missing()

    snapshot = rig.store.instances.snapshot(ALPHA)
    assert snapshot is not None
    assert snapshot.facts.resync
    rig.store.children.child_applied(ALPHA, manifest, rig.api.put(where, labelled))
    assert rig.store.children.is_as_applied(ALPHA, manifest)


async def test_a_kind_that_one_namespace_lists_again_is_unseen_in_another_that_does_not(rig: Rig) -> None:
    rig.store.instances.observe(instance_json(namespace="other"))
    rig.store.children.observe_statefulset(statefulset_json(namespace="other"))
    rig.place()
    manifest = {"kind": "ServiceAccount", "metadata": {"name": "efrit-alpha", "namespace": "other"}}
    applied = rig.api.put(f"{resources.SERVICE_ACCOUNTS.path('other')}/efrit-alpha", manifest)
    rig.api.put(f"{resources.NETWORK_POLICIES.path('other')}/efrit-alpha", manifest)
    rig.store.children.child_applied(("other", "alpha"), manifest, applied)
    other, team = (ChildCheck(rig.kube, rig.store, scope, 2, 60) for scope in ("other", "team"))
    for check, namespace in ((other, "other"), (team, "team")):
        rig.api.fail("GET", resources.SERVICE_ACCOUNTS.path(namespace), 403)
        await check.find_missing()

    for _ in range(LISTS_LEFT_OUT + 1):
        await team.find_missing()

    assert not rig.store.children.is_as_applied(("other", "alpha"), manifest)


@pytest.mark.parametrize(
    ("scopes", "took", "pause"), [(1, 0.1, 5), (10, 0.1, 5), (40, 0.1, 20), (1, 3, 30), (1000, 0.1, 60), (1, 600, 60)]
)
def test_lists_are_rarer_the_more_namespaces_there_are_and_the_longer_they_take(
    scopes: int, took: float, pause: float
) -> None:
    assert list_pause(scopes, took) == pytest.approx(pause)


@pytest.mark.parametrize(
    ("instances", "scopes", "pause"), [(1, 1, 60), (60, 1, 1), (10_000, 1, 0.2), (10_000, 10, 2), (0, 1, 60)]
)
def test_few_secrets_are_applied_in_a_second(instances: int, scopes: int, pause: float) -> None:
    assert secret_pause(instances, scopes, 60) == pytest.approx(pause)


@pytest.mark.virtual_time
async def test_the_secret_of_each_instance_gets_its_turn() -> None:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    for name in ("alpha", "beta"):
        store.instances.observe(instance_json(name))
        store.children.observe_statefulset(statefulset_json(name))
    checking = asyncio.create_task(ChildCheck(_NoKube(), store, None, 1, 60).run())  # type: ignore[arg-type]
    await elapse(59)
    assert [_due(store, name) for name in ("alpha", "beta")] == [True, False]
    store.children.secret_applied(ALPHA)
    await elapse(2)
    assert [_due(store, name) for name in ("alpha", "beta")] == [False, True]
    checking.cancel()


def _due(store: Store, name: str) -> bool:
    snapshot = store.instances.snapshot(("team", name))
    return snapshot is not None and snapshot.facts.secret_check


class _NoKube:
    """Lists nothing that differs: every child is there."""

    async def pages(self, *_: Any, **__: Any) -> Any:
        for name in ("alpha", "beta"):
            yield {"metadata": {"namespace": "team", "name": f"efrit-{name}"}}
