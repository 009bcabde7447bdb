"""act/plan_actor.py: a plan's requests are created once, cancelled, listed; long results are read."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.kube import Kube
from efrit.controller.act.plan_actor import PlanActor
from efrit.controller.model.actions import CancelRequest, CreateRequest, ListRequests, ReadResult, Superseded
from efrit.controller.model.snapshots import PlanSnapshot
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiUnavailable
from tests.support.factory import CONFIG, NOW, Json, part_json, plan_json, request_json
from tests.unit.controller.fake_api import FakeApi

APP = ("team", "app")
REQUESTS = resources.REQUESTS.path("team")
ONE = f"{REQUESTS}/one"
SECRET = resources.SECRETS.path("team", "efrit-result-uid-one")
CREATE = CreateRequest(APP, "uid-app", part_json("one"))
TEXT = "whole " * 9000
READ = ReadResult(APP, "uid-app", "one", "uid-one", hashlib.sha256(TEXT.encode()).hexdigest(), "whole")


@dataclass
class Rig:
    actor: PlanActor
    store: Store
    api: FakeApi

    @property
    def snapshot(self) -> PlanSnapshot:
        snapshot = self.store.plans.snapshot(APP)
        assert snapshot is not None
        return snapshot


@pytest.fixture
async def rig(api: FakeApi, kube: Kube) -> Rig:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    store.plans.observe(plan_json())
    store.plans.listed(APP, "uid-app", set())
    return Rig(PlanActor(kube, store), store, api)


async def test_a_request_is_created_and_known_at_once_to_the_plan_and_to_the_store(rig: Rig) -> None:
    await rig.actor.create(CREATE)

    assert ONE in rig.api.objects
    assert set(rig.snapshot.requests or {}) == {"one"}
    assert rig.store.requests.snapshot(("team", "one")) is not None


async def test_a_request_that_is_there_already_is_the_same_one(rig: Rig) -> None:
    stored = rig.api.put(ONE, part_json("one", status={"phase": "Running"}))

    await rig.actor.create(CREATE)

    assert rig.api.objects[ONE] == stored
    assert (rig.snapshot.requests or {})["one"].status.phase == "Running"
    assert rig.snapshot.refusal is None


async def test_somebody_elses_request_of_the_name_is_left_alone_and_reported(rig: Rig) -> None:
    stored = rig.api.put(ONE, request_json("one"))

    with pytest.raises(Superseded):
        await rig.actor.create(CREATE)

    assert rig.api.objects[ONE] == stored
    assert rig.snapshot.refusal is not None
    assert "does not belong to this plan" in rig.snapshot.refusal.sentence
    assert rig.snapshot.requests == {}


async def test_a_request_that_is_refused_is_reported_in_the_words_of_the_api_server(rig: Rig) -> None:
    rig.api.fail("POST", REQUESTS, 403, {"message": "exceeded quota: requests"})

    with pytest.raises(Superseded):
        await rig.actor.create(CREATE)

    assert rig.snapshot.refusal is not None
    assert rig.snapshot.refusal.sentence == "exceeded quota: requests"


async def test_a_hiccup_is_tried_again_by_the_queue(rig: Rig) -> None:
    rig.api.fail("POST", REQUESTS, 503)

    with pytest.raises(ApiUnavailable):
        await rig.actor.create(CREATE)

    assert rig.snapshot.refusal is None


async def test_a_cancel_names_the_request_it_means(rig: Rig) -> None:
    rig.api.put(ONE, part_json("one"))

    await rig.actor.cancel(CancelRequest(("team", "one"), "uid-one"))

    assert rig.api.objects[ONE]["spec"]["cancel"] is True
    assert (rig.snapshot.requests or {})["one"].spec.cancel


@pytest.mark.parametrize("there", [None, part_json("one", uid="uid-second")], ids=["gone", "another"])
async def test_a_cancel_of_what_is_gone_or_another_by_now_does_nothing(rig: Rig, there: Json | None) -> None:
    stored = rig.api.put(ONE, there) if there else None

    await rig.actor.cancel(CancelRequest(("team", "one"), "uid-one"))

    assert rig.api.objects.get(ONE) == stored


async def test_the_requests_of_a_plan_are_listed_by_its_uid(rig: Rig) -> None:
    for name, uid in (("one", "uid-app"), ("two", "uid-app"), ("other", "uid-other")):
        rig.api.put(f"{REQUESTS}/{name}", part_json(name, plan_uid=uid))
    rig.api.put(f"{REQUESTS}/plain", request_json("plain"))

    await rig.actor.list(ListRequests(APP, "uid-app"))

    assert set(rig.snapshot.requests or {}) == {"one", "two"}
    assert rig.api.made("GET")[0].query["labelSelector"] == "efrit.dev/plan=uid-app"


def secret(text: str, owner: str = "uid-one") -> Json:
    return {
        "metadata": {"name": "efrit-result-uid-one", "ownerReferences": [{"uid": owner}]},
        "data": {"result": base64.b64encode(text.encode()).decode()},
    }


async def test_a_long_result_is_read_whole(rig: Rig) -> None:
    rig.api.put(SECRET, secret(TEXT))

    await rig.actor.read(READ)

    assert rig.snapshot.results == {"uid-one": TEXT}
    assert rig.api.made("GET") == [], "the controller has no right to read Secrets"


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(None, id="gone"),
        pytest.param(secret("something else"), id="another text"),
        pytest.param(secret(TEXT, owner="another"), id="owned by another request"),
        pytest.param({**secret(TEXT), "data": {"result": "%%"}}, id="no base64"),
        pytest.param({**secret(TEXT), "data": None}, id="empty"),
    ],
)
async def test_where_the_whole_cannot_be_had_its_beginning_has_to_do(rig: Rig, secret: Any) -> None:
    if secret is not None:
        rig.api.put(SECRET, secret)

    await rig.actor.read(READ)

    assert rig.snapshot.results == {"uid-one": "whole"}


async def test_where_the_secret_is_out_of_reach_the_beginning_has_to_do(rig: Rig) -> None:
    rig.api.fail("PATCH", SECRET, 403, {"message": "forbidden"})

    await rig.actor.read(READ)

    assert rig.snapshot.results == {"uid-one": "whole"}
