"""kube/client.py: paths, bodies and errors of the Kubernetes API, against a real HTTP server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from efrit import resources
from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiFailed,
    ApiNotFound,
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
)
from efrit.kube.client import WHOLE_BODY_BYTES, KubeClient, encoded
from efrit.resources import PODS, REQUESTS
from tests.unit.controller.fake_api import FakeApi

COLLECTION = REQUESTS.path("team")
WORK = f"{COLLECTION}/work"


def work(**meta: Any) -> dict[str, Any]:
    return resources.REQUESTS.manifest({"name": "work", "namespace": "team", "uid": "u", **meta})


async def test_an_object_is_read(api: FakeApi, kube: KubeClient) -> None:
    api.put(WORK, work())

    assert (await kube.get(REQUESTS, "team", "work"))["metadata"]["name"] == "work"


async def test_an_object_is_created_in_our_name(api: FakeApi, kube: KubeClient) -> None:
    await kube.create(work())

    (call,) = api.calls
    assert (call.method, call.path, call.query) == ("POST", COLLECTION, {"fieldManager": "efrit-test"})
    assert call.body == work()


async def test_an_object_is_applied_server_side_and_our_fields_win(api: FakeApi, kube: KubeClient) -> None:
    await kube.apply({**work(), "metadata": {"name": "work", "namespace": "team"}})

    (call,) = api.calls
    assert (call.method, call.path) == ("PATCH", WORK)
    assert call.content_type == "application/apply-patch+yaml"
    assert call.query == {"fieldManager": "efrit-test", "force": "true"}


async def test_a_status_is_merged_into_its_subresource(api: FakeApi, kube: KubeClient) -> None:
    api.put(WORK, {**work(), "status": {"phase": "Running", "progress": {"step": 1}}})

    obj = await kube.patch_status(REQUESTS, "team", "work", {"status": {"phase": "x", "progress": None}})

    assert obj["status"] == {"phase": "x"}
    (call,) = api.calls
    assert (call.path, call.content_type) == (f"{WORK}/status", "application/merge-patch+json")


async def test_an_object_is_deleted_only_if_it_is_still_this_one(api: FakeApi, kube: KubeClient) -> None:
    api.put(WORK, work())

    with pytest.raises(ApiConflict):
        await kube.delete(REQUESTS, "team", "work", uid="another")
    await kube.delete(REQUESTS, "team", "work", uid="u")

    assert api.objects == {}


async def test_a_collection_comes_page_by_page(api: FakeApi, kube: KubeClient) -> None:
    api.page_size = 2
    for number in range(5):
        api.put(f"{COLLECTION}/{number}", work(name=str(number)))

    names = [obj["metadata"]["name"] async for obj in kube.pages(REQUESTS, "team", labelSelector="a=b")]

    assert names == ["0", "1", "2", "3", "4"]
    assert len(api.calls) == 3
    assert {call.query["labelSelector"] for call in api.calls} == {"a=b"}
    assert [call.query.get("continue") for call in api.calls] == [None, "2", "4"]


async def test_a_collection_of_the_whole_cluster_names_no_namespace(api: FakeApi, kube: KubeClient) -> None:
    api.put(WORK, work())

    assert [obj["metadata"]["name"] async for obj in kube.pages(REQUESTS, None)] == ["work"]


async def test_one_object_is_listed_by_its_name_for_who_may_not_get_it(api: FakeApi, kube: KubeClient) -> None:
    for name in ("work", "other"):
        api.put(f"{COLLECTION}/{name}", work(name=name))

    listing = kube.named(REQUESTS, "team", "work", labelSelector="")
    assert [obj["metadata"]["name"] async for obj in listing] == ["work"]
    assert [obj async for obj in kube.named(REQUESTS, "team", "missing")] == []
    assert listing.version
    assert {call.path for call in api.calls} == {COLLECTION}


async def test_an_empty_collection_yields_nothing(api: FakeApi, kube: KubeClient) -> None:
    assert [obj async for obj in kube.pages(PODS, "team")] == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, ApiNotFound),
        (409, ApiConflict),
        *((code, ApiRefused) for code in (400, 403, 415, 422)),
        (413, ApiTooLarge),
        *((code, ApiUnavailable) for code in (401, 410, 429, 502, 503, 504)),
        (500, ApiFailed),
    ],
)
async def test_every_status_is_the_error_it_stands_for(
    api: FakeApi, kube: KubeClient, status: int, kind: type[ApiError]
) -> None:
    api.fail("GET", WORK, status, {"message": "the reason"})

    with pytest.raises(kind, match=f"{status}: the reason"):
        await kube.get(REQUESTS, "team", "work")


async def test_a_refusal_carries_the_api_servers_sentence(api: FakeApi, kube: KubeClient) -> None:
    api.fail("PATCH", WORK, 422, {"message": "spec.content is immutable"})

    with pytest.raises(ApiRefused) as caught:
        await kube.apply(work())

    assert caught.value.sentence == "spec.content is immutable"


@pytest.mark.parametrize(
    "sentence",
    [
        'failed to create typed patch object (team/x; apps/v1): .spec: duplicate entries for key [name="a"]',
        "failed to convert new object (team/x; apps/v1) to proper version: quantities must match",
    ],
)
async def test_what_server_side_apply_cannot_read_is_refused_though_it_comes_as_a_failure_of_the_server(
    api: FakeApi, kube: KubeClient, sentence: str
) -> None:
    api.fail("PATCH", WORK, 500, {"message": sentence})

    with pytest.raises(ApiRefused) as caught:
        await kube.apply(work())

    assert caught.value.sentence == sentence


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", "[1]", ""])
async def test_an_error_that_is_no_status_object_is_an_error_nevertheless(
    api: FakeApi, kube: KubeClient, body: str
) -> None:
    api.fail("GET", WORK, 502, body)

    with pytest.raises(ApiUnavailable, match="502"):
        await kube.get(REQUESTS, "team", "work")


async def test_a_connection_that_breaks_is_no_answer(api: FakeApi, kube: KubeClient) -> None:
    api.put(WORK, work())
    api.fail("GET", WORK, 0, times=5)

    with pytest.raises(ApiUnavailable, match="no answer"):
        await kube.get(REQUESTS, "team", "work")


async def test_nothing_is_repeated_behind_the_callers_back(api: FakeApi, kube: KubeClient) -> None:
    api.fail("POST", COLLECTION, 503, times=3)

    with pytest.raises(ApiUnavailable):
        await kube.create(work())

    assert len(api.calls) == 1


async def test_text_of_every_kind_arrives_as_it_was_sent(api: FakeApi, kube: KubeClient) -> None:
    text = 'é\u2028"\\\n\x00😀'

    stored = await kube.create({**work(), "spec": {"content": text}})

    assert stored["spec"]["content"] == text


async def test_a_body_of_bytes_is_sent_as_it_is(api: FakeApi, kube: KubeClient) -> None:
    odd = json.dumps({**work(), "spec": {"content": "<&>"}}, indent=3).encode()

    stored = await kube.call("POST", COLLECTION, body=odd)

    assert stored["spec"]["content"] == "<&>"


async def test_a_long_body_is_sent_whole_and_without_a_warning(api: FakeApi, kube: KubeClient) -> None:
    text = "x" * (WHOLE_BODY_BYTES + 1)

    stored = await kube.create({**work(), "spec": {"content": text}})

    assert stored["spec"]["content"] == text


@pytest.mark.parametrize("status", [429, 500, 503, 504])
@pytest.mark.parametrize("header", ["7", None])
async def test_the_pause_the_api_server_asks_for_comes_with_the_error(
    api: FakeApi, kube: KubeClient, status: int, header: str | None
) -> None:
    api.retry_after = header
    api.fail("GET", WORK, status, {"message": "busy", "details": {} if header else {"retryAfterSeconds": 7}})

    with pytest.raises(ApiUnavailable) as raised:
        await kube.get(REQUESTS, "team", "work")
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("header", ["Sun, 06 Nov 1994 08:49:37 GMT", "-1", "0", "nan", "inf", ""])
async def test_a_pause_that_makes_no_sense_is_none(api: FakeApi, kube: KubeClient, header: str) -> None:
    api.retry_after = header
    api.fail("GET", WORK, 429, {"message": "busy", "details": {"retryAfterSeconds": "soon"}})

    with pytest.raises(ApiUnavailable) as raised:
        await kube.get(REQUESTS, "team", "work")
    assert raised.value.retry_after is None


async def test_a_pause_may_be_a_date(api: FakeApi, kube: KubeClient) -> None:
    api.retry_after = "Fri, 31 Dec 9999 23:59:59 GMT"
    api.fail("GET", WORK, 429)

    with pytest.raises(ApiUnavailable) as raised:
        await kube.get(REQUESTS, "team", "work")
    assert (raised.value.retry_after or 0) > 3600


async def test_a_list_that_is_throttled_says_for_how_long(api: FakeApi, kube: KubeClient) -> None:
    api.retry_after = "3"
    api.fail("GET", WORK.rpartition("/")[0], 429)

    with pytest.raises(ApiUnavailable) as raised:
        _ = [obj async for obj in kube.pages(REQUESTS, "team")]
    assert raised.value.retry_after == 3


def test_a_body_is_written_as_the_api_server_writes_it() -> None:
    assert encoded({"a": ["<b> & c", 1]}) == b'{"a":["\\u003cb\\u003e \\u0026 c",1]}'
    assert encoded({"a": "\u00e4\u2028\u2029\U0001f600"}) == b'{"a":"\xc3\xa4\\u2028\\u2029\xf0\x9f\x98\x80"}'
    for text in ("<b> & \u00e4\u2028\U0001f600", "half of a pair: \ud83d"):
        assert json.loads(encoded({"a": text})) == {"a": text}
