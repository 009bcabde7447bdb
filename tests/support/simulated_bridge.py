"""Simulated instances: bridges that answer evals by themselves, or hang, flood and refuse as the test says. No Emacs.

They speak HTTPS with the certificates that the controller has made, all in one thread; `SimulatedNode` plays the
StatefulSet controller and the kubelet for them. What the controller does is real, and so is the API server.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

from efrit import resources
from efrit.protocol import Outcome, RequestReason, RequestState, Response, request_id
from efrit.protocol.events import Reset
from efrit.protocol.handover import MAX_BATCH_ELEMENTS, BatchElement, BatchOperation, BatchResult
from efrit.protocol.view import DiskProblem, DiskStats, EmacsStats, ErrorDetail, RequestView, Stats
from tests.support.kube import Json, Kube, until
from tests.support.timeout import TIMEOUT
from tests.support.transports import abort_all, stop_serving

T = TypeVar("T")
FLOOD = 64
"""Events in one write of a flood; `processed` counts the writes."""


class Mode(Enum):
    """What a bridge does with calls."""

    ANSWERS = "answers"
    HANGS = "hangs"
    """Calls get no answer until the mode is another one, as where a sync to the disk does not return."""
    FULL = "full"
    """Requests are refused, as where the volume's quota is used up; the figures say so."""
    WORKS = "works"
    """What is handed over runs until it is stopped."""


METHODS = {BatchOperation.SUBMIT: "PUT", BatchOperation.CANCEL: "POST", BatchOperation.ACKNOWLEDGE: "DELETE"}
"""What an element of a batch is as a call of its own."""


class Refusal(NamedTuple):
    """What is said of a call that is not taken."""

    status: int
    code: str
    message: str


@dataclass
class SimulatedBridge:
    """One instance's; used by the thread of its node alone, but for what is said to be read."""

    name: str
    mode: Mode = Mode.ANSWERS
    flooding: bool = False
    takes_batches: bool = True
    """Not: it gets a call for each request, as a bridge of an earlier version."""
    ends_streams: bool = False
    """Whether each stream of events ends after its first flood."""
    connections: int = 0
    """Streams so far. Any thread may read it."""
    in_flight: int = 0
    most_in_flight: int = 0
    """Calls that were open at the same time. Any thread may read it."""
    handed_over: list[str] = field(default_factory=list)
    """The requests that were handed over, in their order. Any thread may read it."""
    views: dict[str, RequestView] = field(default_factory=dict)
    streams: set[asyncio.Queue[bytes]] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    processed: int = 0
    order: list[str] = field(default_factory=list)
    """The names of bridges by the hand-overs to them, shared by those of a node. Any thread may read it."""

    def set(self, mode: Mode | None = None, flooding: bool | None = None) -> None:
        if mode is not None:
            self.mode = mode
        if flooding is not None:
            self.flooding = flooding
        for stream in self.streams:
            stream.put_nowait(_event("stats", self.stats().to_json()))
        self.changed.set()
        self.changed = asyncio.Event()

    def stats(self) -> Stats:
        emacs = EmacsStats(alive=True, responsive=True, version="30.1")
        full = DiskProblem.FULL if self.mode is Mode.FULL else None
        disk = DiskStats(total_bytes=1 << 30, free_bytes=0 if full else 1 << 29, problem=full)
        most = MAX_BATCH_ELEMENTS if self.takes_batches else 0
        return Stats(
            queue_id=f"queue-{self.name}", emacs=emacs, processed=self.processed, disk=disk, batch_elements=most
        )

    async def call(self, http: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            while self.mode is Mode.HANGS:
                await self.changed.wait()
            return _http(self._answer(http.method, http.match_info["uid"]))
        finally:
            self.in_flight -= 1

    async def batch(self, http: web.Request) -> web.StreamResponse:
        elements = [BatchElement.parse(line) for line in (await http.read()).splitlines()]
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            while self.mode is Mode.HANGS:
                await self.changed.wait()
            results = [self._result(index, element) for index, element in enumerate(elements)]
            return web.Response(body=b"".join(results), content_type="application/x-ndjson")
        finally:
            self.in_flight -= 1

    def _result(self, index: int, element: BatchElement) -> bytes:
        answer = self._answer(METHODS[element.op], element.id)
        if isinstance(answer, Refusal):
            error = ErrorDetail(code=answer.code, message=answer.message)
            return BatchResult(index=index, error=error).to_line()
        return BatchResult(index=index, request=answer).to_line()

    def _answer(self, method: str, uid: str) -> RequestView | Refusal | None:
        if method == "PUT" and self.mode is Mode.FULL:
            return Refusal(507, "NoSpace", "the volume is full")
        if method == "PUT":
            if uid not in self.views:
                self.handed_over.append(uid)
                self.order.append(self.name)
                if self.mode is Mode.WORKS:
                    now, state = datetime.now(UTC), RequestState.RUNNING
                    self._report(RequestView(id=request_id(uid), state=state, attempt=1, started_time=now))
                else:
                    self._finish(uid)
            return RequestView(id=request_id(uid), state=RequestState.QUEUED, queued_time=datetime.now(UTC))
        if uid not in self.views:
            return Refusal(404, "NotFound", "no such request")
        if method == "DELETE":
            del self.views[uid]
            return None
        if method == "POST" and not self.views[uid].state.final:
            self._finish(uid, RequestReason.CANCELLED)
        return self.views[uid]

    def _finish(self, uid: str, reason: RequestReason = RequestReason.SUCCEEDED) -> None:
        self.processed += 1
        response = Response(
            id=request_id(uid),
            status=reason.status,
            outcome=Outcome.SUCCESS if reason == RequestReason.SUCCEEDED else Outcome.FAILURE,
            reason=reason,
            result="3" if reason == RequestReason.SUCCEEDED else None,
            attempt=1,
        )
        self._report(RequestView(id=request_id(uid), state=RequestState.ANSWERED, response=response, attempt=1))

    def _report(self, view: RequestView) -> None:
        self.views[view.id] = view
        for stream in self.streams:
            stream.put_nowait(_event("request", view.to_json()))

    async def events(self, http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        self.connections += 1
        mine: asyncio.Queue[bytes] = asyncio.Queue()
        whole = [("reset", Reset(queue_id=f"queue-{self.name}", epoch="e").to_json())]
        whole += [("request", view.to_json()) for view in self.views.values()]
        whole.append(("stats", self.stats().to_json()))
        with suppress(ConnectionError):
            await response.write(b"".join(_event(*event) for event in whole))
            self.streams.add(mine)
            try:
                await self._stream(response, mine)
            finally:
                self.streams.discard(mine)
        return response

    async def _stream(self, response: web.StreamResponse, mine: asyncio.Queue[bytes]) -> None:
        while True:
            if self.flooding:
                # Figures that differ, as fast as they are taken.
                self.processed += 1
                await response.write(_event("stats", self.stats().to_json()) * FLOOD)
                if self.ends_streams:
                    return
            try:
                async with asyncio.timeout(0.001 if self.flooding else 5):
                    event = await mine.get()
            except TimeoutError:
                event = b": keepalive\n\n"
            await response.write(event)


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def _http(answer: RequestView | Refusal | None) -> web.Response:
    if isinstance(answer, Refusal):
        error = {"code": answer.code, "message": answer.message}
        return web.json_response({"error": error}, status=answer.status)
    if answer is None:
        return web.Response(status=204)
    return web.Response(text=answer.to_json(), content_type="application/json")


class SimulatedNode:
    """Runs the bridges of all instances that `serve` is called for, in a thread, until it is left."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated-node", daemon=True)
        self._runners: list[web.AppRunner] = []
        self.order: list[str] = []
        """The names of bridges, one for each hand-over to any of them."""

    def __enter__(self) -> SimulatedNode:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            await asyncio.gather(*(stop_serving(runner) for runner in self._runners))
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await abort_all(self._loop)

        self._wait_for(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, step: Callable[[], object]) -> None:
        """Do something to a bridge, in the thread that it belongs to, and return when it is done."""

        async def done() -> None:
            step()

        self._wait_for(done())

    def serve(self, namespace: str, names: Sequence[str]) -> list[SimulatedBridge]:
        """Create instances, and play their pods once the controller has made their StatefulSets."""
        for name in names:
            self._kube.create("efritinstances", namespace, {"metadata": {"name": name}, "spec": {}})
        return [self.play(namespace, name) for name in names]

    def play(self, namespace: str, name: str) -> SimulatedBridge:
        """Play the pod of an instance that is there, once the controller has made its StatefulSet."""
        statefulset = until(lambda: self._kube.find("statefulsets", namespace, f"efrit-{name}"), f"no set of {name}")
        template = statefulset["spec"]["template"]
        volumes = template["spec"]["volumes"]
        secret_name = next(volume["secret"]["secretName"] for volume in volumes if volume["name"] == "bridge")
        secret = self._kube.get("secrets", namespace, secret_name)["data"]
        bridge = SimulatedBridge(f"{namespace}-{name}", order=self.order)
        port = self._wait_for(self._listen(bridge, secret))
        pod = _pod(statefulset, port)
        self._kube.create("pods", namespace, pod)
        self._kube.patch("pods", namespace, pod["metadata"]["name"], {"status": _running(pod)}, "status")
        return bridge

    async def _listen(self, bridge: SimulatedBridge, secret: Json) -> int:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.write_bytes(b"".join(base64.b64decode(secret[name]) for name in ("tls.key", "tls.crt")))
            tls.load_cert_chain(pair)
        app = web.Application()
        app.router.add_get("/v1/events", bridge.events)
        app.router.add_post("/v1/batch", bridge.batch)
        app.router.add_route("*", "/v1/requests/{uid}", bridge.call)
        app.router.add_route("*", "/v1/requests/{uid}/cancel", bridge.call)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self._runners.append(runner)
        return int(runner.addresses[0][1])

    def _wait_for(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        future: Future[T] = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        return future.result(TIMEOUT)


def _pod(statefulset: Json, port: int) -> dict[str, Any]:
    meta, template = statefulset["metadata"], statefulset["spec"]["template"]
    owner = resources.STATEFULSETS.reference(meta["name"], meta["uid"])
    spec = {**template["spec"], "nodeName": "node"}
    first = {**spec["initContainers"][0], "ports": [{"name": "bridge", "containerPort": port}]}
    spec["initContainers"] = [first, *spec["initContainers"][1:]]
    own = {
        "name": f"{meta['name']}-0",
        "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"],
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"metadata": own, "spec": spec}


def _running(pod: Json) -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def container(of: Json) -> Json:
        state = {"running": {"startedAt": now}}
        names = {"name": of["name"], "image": of["image"], "imageID": ""}
        return {**names, "ready": True, "started": True, "restartCount": 0, "state": state}

    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "startTime": now,
        "initContainerStatuses": [container(init_container) for init_container in pod["spec"]["initContainers"]],
        "containerStatuses": [container(spec) for spec in pod["spec"]["containers"]],
    }
