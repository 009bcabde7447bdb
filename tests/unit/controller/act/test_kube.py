"""act/kube.py: what the controller's connection does beside the package's client."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.act.kube import Kube
from efrit.errors import ApiError, ApiNamespaceTerminating, ApiNotFound, ApiRefused, ApiUnavailable
from efrit.resources import POOLS, REQUESTS
from tests.unit.controller.fake_api import FakeApi

WORK = REQUESTS.path("team", "work")


def work() -> dict[str, Any]:
    return REQUESTS.manifest({"name": "work", "namespace": "team"})


async def test_the_controller_writes_in_its_own_name(api: FakeApi, kube: Kube) -> None:
    await kube.create(work())

    (call,) = api.calls
    assert call.query == {"fieldManager": "efrit-operator"}


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_the_controller_goes_by_the_time_that_answers_say(api: FakeApi, kube: Kube, method: str) -> None:
    api.put(WORK, work())
    api.date = "Fri, 01 Jan 1999 00:00:00 GMT"
    assert kube.clock().year > 2000
    if method == "GET":
        await kube.get(REQUESTS, "team", "work")
    else:
        await kube.patch_status(REQUESTS, "team", "work", {"status": {}})
    assert kube.clock().year == 1999


PROXY = "404 page not found\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (PROXY, ApiUnavailable),
        ('{"message": "no Route matched with those values"}', ApiUnavailable),
        ("null", ApiUnavailable),
        ('{"kind": "Status", "reason": "NotFound", "message": "\\"work\\" not found"}', ApiNotFound),
    ],
    ids=["text", "json", "null", "the API server's own"],
)
async def test_an_object_is_not_there_only_where_the_api_server_itself_says_so(
    api: FakeApi, kube: Kube, answer: str, error: type[ApiError]
) -> None:
    body = {"metadata": {"name": "work", "namespace": "team"}}
    for call, method, path in (
        (lambda: kube.get(REQUESTS, "team", "work"), "GET", WORK),
        (lambda: kube.patch(REQUESTS, "team", "work", {"spec": {"cancel": True}}), "PATCH", WORK),
        (lambda: kube.patch_status(REQUESTS, "team", "work", {"status": {}}), "PATCH", f"{WORK}/status"),
        (lambda: kube.test(REQUESTS, "team", "work", {"/a": 1}), "PATCH", WORK),
        (lambda: kube.delete(REQUESTS, "team", "work", uid="uid-work"), "DELETE", WORK),
        (lambda: kube.apply(REQUESTS.manifest(body["metadata"]), uid="uid-work"), "PATCH", WORK),
    ):
        api.fail(method, path, 404, answer)
        with pytest.raises(error) as caught:
            await call()
        assert type(caught.value) is error


@pytest.mark.parametrize(
    ("listed", "error"),
    [(["efritrequests", "efritpools/status"], ApiNotFound), (["efritrequests", "efritpools"], ApiUnavailable)],
)
async def test_an_object_of_a_kind_that_the_api_server_does_not_list_is_not_there(
    api: FakeApi, kube: Kube, listed: list[str], error: type[ApiError]
) -> None:
    api.fail("GET", POOLS.path("team", "crew"), 404, PROXY)
    api.put(POOLS.root, {"kind": "APIResourceList", "resources": [{"name": name} for name in listed]})

    with pytest.raises(error) as caught:
        await kube.get(POOLS, "team", "crew")

    assert type(caught.value) is error


async def test_a_collection_that_nobody_knows_is_not_there_whoever_says_so(api: FakeApi, kube: Kube) -> None:
    api.fail("GET", REQUESTS.path("team"), 404, PROXY)
    with pytest.raises(ApiNotFound):
        await kube.list(REQUESTS, "team")


class Name(str):
    """What JSON writes as text, and msgspec does not."""

    __slots__ = ()


@pytest.mark.parametrize("text", ["3", "<é>&\u2028\U0001f600", Name("3")], ids=["plain", "unicode", "derived"])
async def test_a_status_is_sent_as_it_is(api: FakeApi, kube: Kube, text: str) -> None:
    api.put(WORK, work())

    await kube.patch_status(REQUESTS, "team", "work", {"status": {"result": text, "truncated": False}})

    (call,) = api.calls
    assert call.body == {"status": {"result": text, "truncated": False}}


async def test_half_a_surrogate_pair_is_sent_for_the_api_server_to_judge(api: FakeApi, kube: Kube) -> None:
    api.fail("PATCH", f"{WORK}/status", 422, {"kind": "Status", "message": "no"})

    with pytest.raises(ApiRefused):
        await kube.patch_status(REQUESTS, "team", "work", {"status": {"result": "\ud800"}})

    (call,) = api.calls
    assert call.body == {"status": {"result": "\ud800"}}


TERMINATING = {
    "kind": "Status",
    "message": "unable to create new content in namespace team because it is being terminated",
    "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
}
GONE = {"kind": "Status", "message": 'namespaces "team" not found', "details": {"name": "team", "kind": "namespaces"}}


@pytest.mark.parametrize(("status", "body"), [(403, TERMINATING), (404, GONE)])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_namespace_that_takes_nothing_more_is_left_alone_for_a_while(
    api: FakeApi, kube: Kube, method: str, status: int, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("efrit.controller.act.terminating.FIRST_PAUSE_SECONDS", 3600.0)
    write = kube.create if method == "POST" else kube.apply
    api.fail(method, WORK.rpartition("/")[0] if method == "POST" else WORK, status, body)

    for _ in range(100):
        with pytest.raises(ApiNamespaceTerminating) as raised:
            await write(work())
        assert raised.value.retry_after
        assert raised.value.sentence == body["message"]

    assert len(api.calls) == 1
