"""act/plan_actor.py: a plan's requests are created once, cancelled, listed; long results are read."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import pytest

from efrit.controller.act.kube import Kube
from efrit.controller.act.plan_actor import PlanActor
from efrit.controller.model.actions import CancelRequest, CreateRequest, ListRequests, ReadResult, Superseded
from efrit.controller.model.snapshots import PlanSnapshot
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiUnavailable
from tests.unit.controller.factory import CONFIG, NOW, Json, part_json, plan_json, request_json
from tests.unit.controller.fake_api import FakeApi

APP = ("team", "app")
REQUESTS = "/apis/efrit.dev/v1alpha1/namespaces/team/efritrequests"
ONE = f"{REQUESTS}/one"
SECRET = "/api/v1/namespaces/team/secrets/efrit-result-uid-one"
CREATE = CreateRequest(APP, "uid-app", part_json("one"))
TEXT = "whole " * 9000
READ = ReadResult(APP, "uid-app", "one", "uid-one", hashlib.sha256(TEXT.encode()).hexdigest(), "whole")


@dataclass
class Stage:
    actor: PlanActor
    store: Store
    api: FakeApi

    @property
    def seen(self) -> PlanSnapshot:
        snapshot = self.store.plans.snapshot(APP)
        assert snapshot is not None
        return snapshot


@pytest.fixture
async def stage(api: FakeApi, kube: Kube) -> Stage:
    store = Store(WorkQueue(), CONFIG, lambda: NOW)
    store.plans.observe(plan_json())
    store.plans.listed(APP, "uid-app", [])
    return Stage(PlanActor(kube, store), store, api)


async def test_a_request_is_created_and_known_at_once_to_the_plan_and_to_the_store(stage: Stage) -> None:
    await stage.actor.create(CREATE)

    assert ONE in stage.api.objects
    assert set(stage.seen.requests or {}) == {"one"}
    assert stage.store.requests.snapshot(("team", "one")) is not None


async def test_a_request_that_is_there_already_is_the_same_one(stage: Stage) -> None:
    stored = stage.api.put(ONE, part_json("one", status={"phase": "Running"}))

    await stage.actor.create(CREATE)

    assert stage.api.objects[ONE] == stored
    assert (stage.seen.requests or {})["one"].status.phase == "Running"
    assert stage.seen.refusal is None


async def test_somebody_elses_request_of_the_name_is_left_alone_and_told(stage: Stage) -> None:
    stored = stage.api.put(ONE, request_json("one"))

    with pytest.raises(Superseded):
        await stage.actor.create(CREATE)

    assert stage.api.objects[ONE] == stored
    assert stage.seen.refusal is not None
    assert "none of this plan's" in stage.seen.refusal.sentence
    assert stage.seen.requests == {}


async def test_a_request_that_is_refused_is_told_in_the_words_of_the_api_server(stage: Stage) -> None:
    stage.api.fail("POST", REQUESTS, 403, {"message": "exceeded quota: requests"})

    with pytest.raises(Superseded):
        await stage.actor.create(CREATE)

    assert stage.seen.refusal is not None
    assert stage.seen.refusal.sentence == "exceeded quota: requests"


async def test_a_hiccup_is_tried_again_by_the_queue(stage: Stage) -> None:
    stage.api.fail("POST", REQUESTS, 503)

    with pytest.raises(ApiUnavailable):
        await stage.actor.create(CREATE)

    assert stage.seen.refusal is None


async def test_a_cancel_names_the_request_it_means(stage: Stage) -> None:
    stage.api.put(ONE, part_json("one"))

    await stage.actor.cancel(CancelRequest(("team", "one"), "uid-one"))

    assert stage.api.objects[ONE]["spec"]["cancel"] is True
    assert (stage.seen.requests or {})["one"].spec.cancel


@pytest.mark.parametrize("there", [None, part_json("one", uid="uid-second")], ids=["gone", "another"])
async def test_a_cancel_of_what_is_gone_or_another_by_now_does_nothing(stage: Stage, there: Json | None) -> None:
    stored = stage.api.put(ONE, there) if there else None

    await stage.actor.cancel(CancelRequest(("team", "one"), "uid-one"))

    assert stage.api.objects.get(ONE) == stored


async def test_the_requests_of_a_plan_are_listed_by_its_uid(stage: Stage) -> None:
    for name, uid in (("one", "uid-app"), ("two", "uid-app"), ("other", "uid-other")):
        stage.api.put(f"{REQUESTS}/{name}", part_json(name, plan_uid=uid))
    stage.api.put(f"{REQUESTS}/plain", request_json("plain"))

    await stage.actor.list(ListRequests(APP, "uid-app"))

    assert set(stage.seen.requests or {}) == {"one", "two"}
    assert stage.api.made("GET")[0].query["labelSelector"] == "efrit.dev/plan=uid-app"


def secret(text: str, owner: str = "uid-one") -> Json:
    return {
        "metadata": {"name": "efrit-result-uid-one", "ownerReferences": [{"uid": owner}]},
        "data": {"result": base64.b64encode(text.encode()).decode()},
    }


async def test_a_long_result_is_read_whole(stage: Stage) -> None:
    stage.api.put(SECRET, secret(TEXT))

    await stage.actor.read(READ)

    assert stage.seen.results == {"uid-one": TEXT}
    assert stage.api.made("GET") == [], "the controller has no right to read Secrets"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(None, id="gone"),
        pytest.param(secret("something else"), id="another text"),
        pytest.param(secret(TEXT, owner="another"), id="owned by another request"),
        pytest.param({**secret(TEXT), "data": {"result": "%%"}}, id="no base64"),
        pytest.param({**secret(TEXT), "data": None}, id="empty"),
    ],
)
async def test_where_the_whole_cannot_be_had_its_beginning_has_to_do(stage: Stage, held: Any) -> None:
    if held is not None:
        stage.api.put(SECRET, held)

    await stage.actor.read(READ)

    assert stage.seen.results == {"uid-one": "whole"}


async def test_where_the_secret_is_out_of_reach_the_beginning_has_to_do(stage: Stage) -> None:
    stage.api.fail("PATCH", SECRET, 403, {"message": "forbidden"})

    await stage.actor.read(READ)

    assert stage.seen.results == {"uid-one": "whole"}
