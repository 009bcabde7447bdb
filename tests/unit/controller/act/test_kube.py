"""act/kube.py: paths, bodies and errors of the Kubernetes API, against a real HTTP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from efrit.controller.act.kube import Kube, path
from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiFailed,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiRefused,
    ApiTooLarge,
    ApiUnavailable,
)
from tests.unit.controller.fake_api import FakeApi

GROUP = "efrit.dev/v1alpha1"
REQUESTS = "/apis/efrit.dev/v1alpha1/namespaces/team/efritrequests"
WORK = f"{REQUESTS}/work"


def work(**meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "EfritRequest",
        "metadata": {"name": "work", "namespace": "team", "uid": "u", **meta},
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((GROUP, "EfritRequest", "team", "work", "status"), f"{WORK}/status"),
        ((GROUP, "EfritInstance", None), "/apis/efrit.dev/v1alpha1/efritinstances"),
        (("v1", "Secret", "team", "s"), "/api/v1/namespaces/team/secrets/s"),
        (("apps/v1", "StatefulSet", "team"), "/apis/apps/v1/namespaces/team/statefulsets"),
    ],
)
def test_paths_are_spelled_as_the_api_server_spells_them(arguments: Any, expected: str) -> None:
    assert path(*arguments) == expected


async def connected(to: str, directory: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> Kube:
    """Connect by a kubeconfig that names the server `to`, in this environment."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": to}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (directory / "kubeconfig").write_text(json.dumps(config))
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    # The client reads the name of the file when it is imported.
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(directory / "kubeconfig")
    )
    return await Kube.connect()


async def test_a_proxy_that_the_environment_names_is_asked(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(WORK, work())
    kube = await connected("http://server.invalid", tmp_path, monkeypatch, http_proxy=api.url)
    try:
        assert (await kube.get(GROUP, "EfritRequest", "team", "work"))["metadata"]["name"] == "work"
    finally:
        await kube.close()


@pytest.mark.parametrize("exempt", ["", "127.0.0.1"])
async def test_without_a_proxy_no_call_waits_for_a_thread_that_looks_for_one(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exempt: str
) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("environment and netrc are read for each call")

    monkeypatch.setattr("aiohttp.client.get_env_proxy_for_url", looked)
    monkeypatch.setattr("aiohttp.client.netrc_from_env", looked)
    api.put(WORK, work())
    proxy = {"http_proxy": "http://proxy.invalid", "no_proxy": exempt} if exempt else {}
    kube = await connected(api.url, tmp_path, monkeypatch, **proxy)
    try:
        assert (await kube.get(GROUP, "EfritRequest", "team", "work"))["metadata"]["name"] == "work"
    finally:
        await kube.close()


async def test_an_object_is_read(api: FakeApi, kube: Kube) -> None:
    api.put(WORK, work())

    assert (await kube.get(GROUP, "EfritRequest", "team", "work"))["metadata"]["name"] == "work"


async def test_an_object_is_created_in_our_name(api: FakeApi, kube: Kube) -> None:
    await kube.create(work())

    (call,) = api.calls
    assert (call.method, call.path, call.query) == ("POST", REQUESTS, {"fieldManager": "efrit-operator"})
    assert call.body == work()


async def test_an_object_is_applied_server_side_and_our_fields_win(api: FakeApi, kube: Kube) -> None:
    await kube.apply(work())

    (call,) = api.calls
    assert (call.method, call.path) == ("PATCH", WORK)
    assert call.content_type == "application/apply-patch+yaml"
    assert call.query == {"fieldManager": "efrit-operator", "force": "true"}


async def test_a_status_is_merged_into_its_subresource(api: FakeApi, kube: Kube) -> None:
    api.put(WORK, {**work(), "status": {"phase": "Running", "progress": {"step": 1}}})

    obj = await kube.patch_status(GROUP, "EfritRequest", "team", "work", {"status": {"phase": "x", "progress": None}})

    assert obj["status"] == {"phase": "x"}
    (call,) = api.calls
    assert (call.path, call.content_type) == (f"{WORK}/status", "application/merge-patch+json")


async def test_an_object_is_deleted_only_if_it_is_still_this_one(api: FakeApi, kube: Kube) -> None:
    api.put(WORK, work())

    with pytest.raises(ApiConflict):
        await kube.delete(GROUP, "EfritRequest", "team", "work", "another")
    await kube.delete(GROUP, "EfritRequest", "team", "work", "u")

    assert api.objects == {}


async def test_a_collection_comes_page_by_page(api: FakeApi, kube: Kube) -> None:
    api.page_size = 2
    for number in range(5):
        api.put(f"{REQUESTS}/{number}", work(name=str(number)))

    names = [
        each["metadata"]["name"] async for each in kube.pages(GROUP, "EfritRequest", "team", labelSelector="a=b")
    ]

    assert names == ["0", "1", "2", "3", "4"]
    assert len(api.calls) == 3
    assert {call.query["labelSelector"] for call in api.calls} == {"a=b"}
    assert [call.query.get("continue") for call in api.calls] == [None, "2", "4"]


async def test_a_collection_of_the_whole_cluster_names_no_namespace(api: FakeApi, kube: Kube) -> None:
    api.put(WORK, work())

    assert [each["metadata"]["name"] async for each in kube.pages(GROUP, "EfritRequest", None)] == ["work"]


async def test_an_empty_collection_yields_nothing(api: FakeApi, kube: Kube) -> None:
    assert [each async for each in kube.pages("v1", "Pod", "team")] == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, ApiNotFound),
        (409, ApiConflict),
        *((each, ApiRefused) for each in (400, 403, 415, 422)),
        (413, ApiTooLarge),
        *((each, ApiUnavailable) for each in (401, 410, 429, 502, 503, 504)),
        (500, ApiFailed),
    ],
)
async def test_every_status_is_the_error_it_stands_for(
    api: FakeApi, kube: Kube, status: int, kind: type[ApiError]
) -> None:
    api.fail("GET", WORK, status, {"message": "the reason"})

    with pytest.raises(kind, match=f"{status}: the reason"):
        await kube.get(GROUP, "EfritRequest", "team", "work")


async def test_a_refusal_carries_the_api_servers_sentence(api: FakeApi, kube: Kube) -> None:
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
    api: FakeApi, kube: Kube, sentence: str
) -> None:
    api.fail("PATCH", WORK, 500, {"message": sentence})

    with pytest.raises(ApiRefused) as caught:
        await kube.apply(work())

    assert caught.value.sentence == sentence


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", "[1]", ""])
async def test_an_error_that_is_no_status_object_is_an_error_nevertheless(
    api: FakeApi, kube: Kube, body: str
) -> None:
    api.fail("GET", WORK, 502, body)

    with pytest.raises(ApiUnavailable, match="502"):
        await kube.get(GROUP, "EfritRequest", "team", "work")


async def test_a_connection_that_breaks_is_no_answer(api: FakeApi, kube: Kube) -> None:
    api.put(WORK, work())
    api.fail("GET", WORK, 0, times=5)

    with pytest.raises(ApiUnavailable, match="no answer"):
        await kube.get(GROUP, "EfritRequest", "team", "work")


async def test_nothing_is_repeated_behind_the_callers_back(api: FakeApi, kube: Kube) -> None:
    api.fail("POST", REQUESTS, 503, times=3)

    with pytest.raises(ApiUnavailable):
        await kube.create(work())

    assert len(api.calls) == 1


async def test_text_of_every_kind_arrives_as_it_was_sent(api: FakeApi, kube: Kube) -> None:
    text = 'é\u2028"\\\n\x00😀'

    stored = await kube.create({**work(), "spec": {"content": text}})

    assert stored["spec"]["content"] == text


@pytest.mark.parametrize("status", [429, 500, 503, 504])
@pytest.mark.parametrize("header", ["7", None])
async def test_the_pause_the_api_server_asks_for_comes_with_the_error(
    api: FakeApi, kube: Kube, status: int, header: str | None
) -> None:
    api.retry_after = header
    api.fail("GET", WORK, status, {"message": "busy", "details": {} if header else {"retryAfterSeconds": 7}})

    with pytest.raises(ApiUnavailable) as raised:
        await kube.get(GROUP, "EfritRequest", "team", "work")
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("header", ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "0", "nan", "inf", ""])
async def test_a_pause_that_makes_no_sense_is_none(api: FakeApi, kube: Kube, header: str) -> None:
    api.retry_after = header
    api.fail("GET", WORK, 429, {"message": "busy", "details": {"retryAfterSeconds": "soon"}})

    with pytest.raises(ApiUnavailable) as raised:
        await kube.get(GROUP, "EfritRequest", "team", "work")
    assert raised.value.retry_after is None


async def test_a_list_that_is_throttled_says_for_how_long(api: FakeApi, kube: Kube) -> None:
    api.retry_after = "3"
    api.fail("GET", WORK.rpartition("/")[0], 429)

    with pytest.raises(ApiUnavailable) as raised:
        _ = [each async for each in kube.pages(GROUP, "EfritRequest", "team")]
    assert raised.value.retry_after == 3


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
