"""The API server's answers as a client sees them: a server of the test's own behind the official transport."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from kubernetes.aio.client import Configuration
from msgspec.structs import replace

from efrit import resources
from efrit.backend.cluster.api import Api, client_error
from efrit.backend.cluster.backend import ClusterBackend
from efrit.backend.cluster.convert import request_name
from efrit.backend.errors import (
    ClientError,
    Conflict,
    Forbidden,
    NoCluster,
    NotFound,
    NotLoggedIn,
    NotReady,
    Refused,
    RequestNotFound,
    ResultGone,
    ResultTruncated,
)
from efrit.backend.interface import Handle, Phase, RequestType, Work
from efrit.errors import (
    ApiCommandFailed,
    ApiError,
    ApiExists,
    ApiFailed,
    ApiForbidden,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiTooLarge,
    ApiUnauthorized,
    ApiUnavailable,
    ApiUnreachable,
)
from efrit.kube.output_budget import SMALL_OUTPUT_BYTES, OutputBudget
from efrit.protocol.enums import UNSTORED_RESULT

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
REQUESTS = resources.REQUESTS.path("team")
EXEC = resources.PODS.path("team", "efrit-one-0", "exec")


@asynccontextmanager
async def served(routes: dict[str, Answer]) -> AsyncIterator[ClusterBackend]:
    """Yield a backend before a server that answers by path."""

    async def answer(request: web.Request) -> web.StreamResponse:
        handler = routes.get(request.path)
        if handler is None:
            return web.json_response({"message": f"{request.path} not found"}, status=404)
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    backend = ClusterBackend(Api(Configuration(host=f"http://{host}:{port}")), "team", "a test")
    try:
        yield backend
    finally:
        await backend.close()
        await runner.cleanup()


def request(phase: str = "", version: str = "1", **status: Any) -> dict[str, Any]:
    reported = {"phase": phase, "reason": phase, "instanceName": "one", **status} if phase else {}
    meta = {"name": "r", "uid": "u", "resourceVersion": version}
    return {"metadata": meta, "spec": {"type": "eval", "content": "1"}, "status": reported}


def refusing(status: int) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "no, because"}, status=status)

    return answer


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Forbidden),
        (403, Forbidden),
        (404, RequestNotFound),
        (422, Refused),
        (500, NotReady),
    ],
)
async def test_a_refusal_becomes_the_clients_own_error(status: int, error: type[ClientError]) -> None:
    async with served({f"{REQUESTS}/r": refusing(status)}) as backend:
        with pytest.raises(error):
            await backend.get(Handle("r"))


@pytest.mark.parametrize(
    ("error", "expected", "message", "advice"),
    [
        (ApiNotFound("GET x: 404: no", "no", status=404), NotFound, "no", ""),
        (ApiCommandFailed("no such file"), NotFound, "no such file", ""),
        (ApiExists("POST x: 409: no", "no", status=409), Conflict, "no", ""),
        (
            ApiUnauthorized("GET x", "no", status=401),
            NotLoggedIn,
            "the cluster does not accept your credentials: no",
            "log in again",
        ),
        (ApiForbidden("GET x", "no", status=403), Forbidden, "no", "ask for a role"),
        (ApiNamespaceTerminating("POST x", "no", status=403), Forbidden, "no", "choose a namespace"),
        (ApiNamespaceTerminating("POST x", "no", status=404), NotFound, "no", ""),
        (ApiTooLarge("POST x", "no", status=500), Refused, "no", ""),
        (ApiUnreachable("GET x", "no"), NoCluster, "no", "kubectl cluster-info"),
        (ApiUnavailable("GET x", "no"), NotReady, "no", "try again"),
        (ApiFailed("GET x", "no", status=500), NotReady, "the API server answers 500: no", "try again"),
    ],
)
def test_every_error_of_the_api_server_says_what_to_do(
    error: ApiError, expected: type[ClientError], message: str, advice: str
) -> None:
    translated = client_error(error)
    assert type(translated) is expected
    assert translated.message == message
    assert advice in translated.advice
    assert bool(advice) == bool(translated.advice)


async def test_a_server_that_does_not_answer_is_no_cluster() -> None:
    backend = ClusterBackend(Api(Configuration(host="http://127.0.0.1:1")), "team", "a test")
    try:
        with pytest.raises(NoCluster, match="does not answer"):
            await backend.instances()
        (finding,) = await backend.examine()
        assert not finding.ok
    finally:
        await backend.close()


async def test_a_watch_that_breaks_is_begun_again_and_nothing_is_missed_or_reported_twice() -> None:
    lists = iter(
        [request("Queued"), request("Running", "2"), request("Succeeded", "4", outcome="Success", result="7")]
    )
    watches: list[str] = []

    async def answer(web_request: web.Request) -> web.StreamResponse:
        if "watch" not in web_request.query:
            item = next(lists)
            return web.json_response(
                {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"]}, "items": [item]}
            )
        watches.append(web_request.query["resourceVersion"])
        stream = web.StreamResponse()
        await stream.prepare(web_request)
        if len(watches) == 1:
            event: dict[str, Any] = {"type": "MODIFIED", "object": request("Running", "2")}
        else:
            event = {"type": "ERROR", "object": {"code": 410}}
        await stream.write(json.dumps(event).encode() + b"\n")
        return stream

    async with served({REQUESTS: answer}) as backend:
        states = [update.state async for update in backend.watch(Handle("r"))]
    assert [state.phase for state in states if state] == [Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED]
    assert watches == ["1", "2"]


async def test_an_event_of_a_large_object_is_read_from_the_watch() -> None:
    lists = 0

    async def answer(web_request: web.Request) -> web.StreamResponse:
        nonlocal lists
        if "watch" not in web_request.query:
            lists += 1
            assert lists == 1, "listed again"
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [request("Running")]})
        done = request("Succeeded", "2", outcome="Success", result="7")
        done["spec"]["content"] = "x" * 1_048_576
        stream = web.StreamResponse()
        await stream.prepare(web_request)
        await stream.write(json.dumps({"type": "BOOKMARK", "object": {}}).encode() + b"\n")
        await stream.write(json.dumps({"type": "MODIFIED", "object": done}).encode() + b"\n")
        return stream

    async with served({REQUESTS: answer}) as backend:
        states = [update.state async for update in backend.watch(Handle("r"))]
    assert [state.phase for state in states if state] == [Phase.RUNNING, Phase.SUCCEEDED]


async def test_a_version_that_is_too_old_to_watch_from_is_listed_again() -> None:
    lists = iter([request("Running"), request("Succeeded", "4", outcome="Success", result="7")])

    async def answer(web_request: web.Request) -> web.StreamResponse:
        if "watch" in web_request.query:
            return web.json_response({"message": "too old resource version"}, status=410)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [next(lists)]})

    async with served({REQUESTS: answer}) as backend:
        states = [update.state async for update in backend.watch(Handle("r"))]
    assert [state.phase for state in states if state] == [Phase.RUNNING, Phase.SUCCEEDED]


async def test_a_request_deleted_while_it_is_watched_is_reported() -> None:
    async def answer(web_request: web.Request) -> web.StreamResponse:
        if "watch" not in web_request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [request("Running")]})
        return web.json_response({"type": "DELETED", "object": request("Running", "2")})

    async with served({REQUESTS: answer}) as backend:
        with pytest.raises(RequestNotFound):
            _ = [update async for update in backend.watch(Handle("r"))]


async def test_a_create_whose_answer_was_lost_is_the_same_request_when_it_has_a_key() -> None:
    stored: dict[str, dict[str, Any]] = {}

    async def create(web_request: web.Request) -> web.StreamResponse:
        made = await web_request.json()
        name = made["metadata"]["name"]
        if name in stored:
            return web.json_response({"message": "it exists"}, status=409)
        stored[name] = made
        return web.json_response({"message": "the answer is lost"}, status=504)

    async def instance(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "one"}})

    async def read(web_request: web.Request) -> web.Response:
        resource = stored.get(web_request.path.rpartition("/")[2])
        return web.json_response(resource or {"message": "not found"}, status=200 if resource else 404)

    work = Work(RequestType.EVAL, "1", instance="one", key="k")
    name = request_name(work, "")
    instances = REQUESTS.replace("efritrequests", "efritinstances")
    routes: dict[str, Answer] = {REQUESTS: create, f"{REQUESTS}/{name}": read, f"{instances}/one": instance}
    async with served(routes) as backend:
        with pytest.raises(NotReady):
            await backend.submit(work)
        assert (await backend.submit(work)).id == name
        with pytest.raises(Conflict, match="used before for other work"):
            await backend.submit(replace(work, content="2"))
    assert list(stored) == [name]


def shell(*messages: bytes, fail: str = "") -> Answer:
    """Return a pod in which every command writes `messages`, and ends well or not."""

    async def answer(web_request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(web_request)
        for message in messages:
            await socket.send_bytes(message)
        status = {"status": "Failure", "message": fail} if fail else {"status": "Success"}
        await socket.send_bytes(b"\x03" + json.dumps(status, separators=(",", ":")).encode())
        await socket.close()
        async for received in socket:
            assert received.type is not WSMsgType.ERROR
        return socket

    return answer


LOG = '{"type":"text","text":"größer"}\n'.encode()


async def test_a_work_log_is_read_in_the_pod_however_its_bytes_are_split() -> None:
    async def get_request(_: web.Request) -> web.Response:
        chat = {"type": "chat", "content": "Hello."}
        return web.json_response({**request("Succeeded", startTime="2026-01-31T09:30:00Z"), "spec": chat})

    middle = LOG.index("ö".encode()) + 1
    pod = shell(b"\x01" + LOG[:middle], b"\x01" + LOG[middle:], b"\x01half a li")
    async with served({f"{REQUESTS}/r": get_request, EXEC: pod}) as backend:
        assert [line async for line in backend.log(Handle("r"))] == [LOG.decode().rstrip()]


async def test_a_result_on_the_workspace_is_read_in_the_pod_and_compared_with_what_it_should_be() -> None:
    reference = {
        "workspacePath": "/workspace/.efrit/results/u.txt",
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }

    async def get_request(_: web.Request) -> web.Response:
        return web.json_response(request("Succeeded", result="a", truncated=True, resultRef=reference))

    async with served({f"{REQUESTS}/r": get_request, EXEC: shell(b"\x01a", b"\x01bc")}) as backend:
        assert await backend.result(Handle("r")) == "abc"
    async with served({f"{REQUESTS}/r": get_request, EXEC: shell(b"\x01abd")}) as backend:
        with pytest.raises(ResultGone, match="was changed"):
            await backend.result(Handle("r"))
    async with served(
        {f"{REQUESTS}/r": get_request, EXEC: shell(b"\x02cat: no such file", fail="exit 1")}
    ) as backend:
        with pytest.raises(ResultGone, match="no such file"):
            await backend.result(Handle("r"))
    async with served({f"{REQUESTS}/r": get_request, EXEC: refusing(403)}) as backend:
        with pytest.raises(Forbidden):
            await backend.result(Handle("r"))
    # Code in the pod has put one in its place that has no end.
    async with served({f"{REQUESTS}/r": get_request, EXEC: shell(b"\x01abc", *[b"\x01d" * 1000] * 10)}) as backend:
        with pytest.raises(ResultGone, match="writes more than 3 bytes"):
            await backend.result(Handle("r"))


PAGES = 50
OBJECTS = 2


def pages(obj: dict[str, Any]) -> Answer:
    """Many pages of one object again and again: more than a server has memory for."""
    # Written once: the server's own work is not part of what is measured.
    items = json.dumps([{**obj, "metadata": {**obj["metadata"], "name": f"r{number}"}} for number in range(OBJECTS)])

    async def answer(web_request: web.Request) -> web.Response:
        number = int(web_request.query.get("continue", 0)) + 1
        after = str(number) if number < PAGES else ""
        return web.json_response(text=f'{{"metadata": {{"continue": "{after}"}}, "items": {items}}}')

    return answer


LONG = "x" * 100_000
"""10 MB of them for each field."""


@pytest.mark.parametrize("kind", ["efritrequests", "efritinstances", "efritplans"])
async def test_a_list_takes_no_more_memory_than_a_page_and_what_is_known_of_each_object(kind: str) -> None:
    obj = request("Succeeded", result=LONG[:32_768], output=LONG[:32_768])
    obj["spec"] |= {"content": LONG, "podTemplate": {"annotations": {"a": LONG}}}
    # Of a plan.
    obj["spec"] |= {"intent": {"description": LONG}, "amendments": [LONG]}
    async with served({resources.resource_named(kind).path("team"): pages(obj)}) as backend:
        tracemalloc.start()
        try:
            if kind == "efritrequests":
                assert len(await backend.requests(brief=True)) == PAGES * OBJECTS
            elif kind == "efritplans":
                assert len(await backend.planning().plans(brief=True)) == PAGES * OBJECTS
            else:
                assert len(await backend.instances()) == PAGES * OBJECTS
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 5_000_000


async def test_what_fails_in_a_pod_is_not_found() -> None:
    async with served({EXEC: shell(b"\x02no", fail="exit 1")}) as backend:
        with pytest.raises(NotFound, match="no"):
            await backend.api.exec_output("team", "efrit-one-0", "emacs", ["false"])


async def test_what_a_command_in_a_pod_writes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("efrit.kube.client.KubeClient.max_output_bytes", 8)
    async with served({EXEC: shell(b"\x0112345678")}) as backend:
        assert await backend.api.exec_output("team", "efrit-one-0", "emacs", ["cat"]) == b"12345678"
    async with served({EXEC: shell(b"\x0112345", b"\x016789")}) as backend:
        with pytest.raises(Refused, match="more than 8 bytes"):
            await backend.api.exec_output("team", "efrit-one-0", "emacs", ["cat"])
    async with served({EXEC: shell(*[b"\x02" + b"e" * 60_000] * 3, fail="exit 1")}) as backend:
        with pytest.raises(NotFound) as caught:
            await backend.api.exec_output("team", "efrit-one-0", "emacs", ["cat"])
    assert len(caught.value.message) == 65_536


async def test_outputs_of_all_commands_that_are_read_at_once_are_bounded() -> None:
    size, most = 100_000, 100_000 - SMALL_OUTPUT_BYTES
    budget = OutputBudget(2 * most, most)

    async def read(backend: ClusterBackend, reader: str) -> int:
        backend.api.output_budget, backend.api.output_reader = budget, reader
        return len(await backend.api.exec_output("team", "efrit-one-0", "emacs", ["cat"]))

    async with served({EXEC: shell(*[b"\x01" + b"x" * (size // 2)] * 2)}) as backend:
        # What another call has read so far.
        with budget.reading("ann") as count:
            count(size)
            with pytest.raises(NotReady, match="all the memory") as refused:
                await read(backend, "ann")
            assert refused.value.advice == "try again"
            assert await read(backend, "bob") == size
            with budget.reading("bob") as count_of_bob:
                count_of_bob(size)
                with pytest.raises(NotReady, match="all the memory"):
                    await read(backend, "eve")
        assert await read(backend, "ann") == size
    async with served({EXEC: shell(b"\x01" + b"x" * SMALL_OUTPUT_BYTES)}) as backend:
        with budget.reading("ann") as count:
            count(size)
            assert await read(backend, "ann") == SMALL_OUTPUT_BYTES
    assert budget.held_bytes == 0


async def test_attaching_runs_kubectl_in_the_instances_pod() -> None:
    async with served({}) as backend:
        command = list(backend.attach_command("one"))
    assert command[:3] == ["kubectl", "--namespace", "team"]
    assert command[3:] == [
        *("exec", "--stdin", "--tty", "efrit-one-0", "--container", "emacs", "--"),
        *("emacsclient", "--tty", "--socket-name=efrit"),
    ]


async def test_the_daemon_names_of_instances_that_were_read_last_are_known_and_no_others() -> None:
    async def instance(request: web.Request) -> web.Response:
        name = request.path.rsplit("/", 1)[-1]
        return web.json_response({"metadata": {"name": name}, "spec": {"emacs": {"daemonName": f"emacs-{name}"}}})

    paths = [resources.INSTANCES.path("team", name) for name in ("one", "two", "three")]
    async with served(dict.fromkeys(paths, instance)) as backend:
        backend.max_daemon_names = 2
        for name in ("one", "two", "one", "three"):
            await backend.instance(name)
        sockets = [backend.attach_command(name)[-1] for name in ("one", "two", "three")]
    assert sockets == ["--socket-name=emacs-one", "--socket-name=efrit", "--socket-name=emacs-three"]


@pytest.mark.parametrize(
    ("note", "explanation", "advice"),
    [
        (
            f" {UNSTORED_RESULT} its Secret was refused: exceeded quota. The whole result is in /queue/x of pod p.",
            "is truncated: its Secret was refused: exceeded quota. The whole result is in /queue/x of pod p.",
            "read the file",
        ),
        ("", "is truncated: Emacs kept the first 9 bytes", "maxResultBytes"),
    ],
)
async def test_why_a_result_has_only_its_beginning_is_reported(note: str, explanation: str, advice: str) -> None:
    async def cut(request: web.Request) -> web.Response:
        complete = {"type": "Complete", "status": "True", "reason": "Succeeded", "message": f"It is done.{note}"}
        status = {"phase": "Succeeded", "result": "beginning", "truncated": True, "conditions": [complete]}
        return web.json_response({"metadata": {"name": "r"}, "spec": {"type": "eval"}, "status": status})

    async with served({f"{REQUESTS}/r": cut}) as backend:
        with pytest.raises(ResultTruncated) as caught:
            await backend.result(Handle("r"))
    assert (explanation in caught.value.message, advice in caught.value.advice) == (True, True), caught.value.message
    assert caught.value.kept == "beginning"
