"""A small real TLS server that answers as a bridge does: requests by script, a stream that the test writes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from efrit.controller.model.actions import ConnectBridge
from efrit.controller.model.credentials import Identity, credentials
from efrit.controller.model.keys import Key
from efrit.protocol import RequestState
from efrit.protocol.events import Event, Reset
from efrit.protocol.handover import BatchElement, BatchOperation, BatchResult
from efrit.protocol.view import ErrorBody, ErrorDetail, RequestView
from tests.support.factory import POD_UID, QUEUE_ID, stats
from tests.support.timeout import TIMEOUT

INSTANCE: Key = ("team", "alpha")
INSTANCE_UID = "uid-alpha"


@dataclass
class Stream:
    """One reader of the event stream."""

    last_event_id: str | None
    _response: web.StreamResponse
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, name: str, data: str, event_id: str | None = None) -> None:
        head = f"id: {event_id}\n" if event_id else ""
        await self._response.write(f"{head}event: {name}\ndata: {data}\n\n".encode())

    async def report(self, event: Event, event_id: str | None = None) -> None:
        name = "reset" if isinstance(event, Reset) else "request" if isinstance(event, RequestView) else "stats"
        await self.send(name, event.to_json(), event_id)

    async def whole_picture(self, *views: RequestView, event_id: str = "epoch-0") -> None:
        await self.report(Reset(queue_id=QUEUE_ID, epoch="epoch"))
        for view in views:
            await self.report(view)
        await self.report(stats(), event_id)

    def end(self) -> None:
        """End the stream from this side."""
        self._over.set()

    async def follow(self) -> None:
        """Last as long as the stream does."""
        try:
            await self._over.wait()
        finally:
            self._gone.set()

    async def dropped(self) -> None:
        """Wait until the reader has gone away."""
        await asyncio.wait_for(self._gone.wait(), TIMEOUT)


@dataclass
class FakeBridge:
    """The server's state; `answers` maps (method, path) to (status, body)."""

    port: int = 0
    token: str = ""
    answers: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    streams: asyncio.Queue[Stream] = field(default_factory=asyncio.Queue)
    refuse_streams: int = 0
    gate: asyncio.Event | None = None
    """Calls are answered once it is set."""
    batches: list[list[BatchElement]] = field(default_factory=list)
    """What came in batches."""
    results: Callable[[list[BatchElement]], AsyncIterator[bytes]] | None = None
    """What is sent as the answer to a batch, part by part; None: no batch is taken."""
    refusal: tuple[int, str] = (404, "NotFound")
    """Status and code of a batch that is not taken: as by an earlier bridge."""

    def connect_action(self, pod_uid: str = POD_UID, instance_uid: str = INSTANCE_UID) -> ConnectBridge:
        """Return the action that connects to this server."""
        return ConnectBridge(INSTANCE, instance_uid, pod_uid, "127.0.0.1", self.port)

    async def reader(self) -> Stream:
        """Return the next reader of the stream."""
        return await asyncio.wait_for(self.streams.get(), TIMEOUT)

    async def request(self, http: web.Request) -> web.StreamResponse:
        if http.headers.get("Authorization") != f"Bearer {self.token}":
            return _error(401, "Unauthorized", "a valid bearer token is required")
        self.calls.append((http.method, http.path, await http.text()))
        if self.gate is not None:
            await self.gate.wait()
        status, body = self.answers.get((http.method, http.path), (404, ""))
        if status == 404 and not body:
            return _error(404, "NotFound", "no such request")
        if status == 0:
            assert http.transport is not None
            http.transport.abort()
        return web.Response(status=status, text=body, content_type="application/json")

    async def batch(self, http: web.Request) -> web.StreamResponse:
        if http.headers.get("Authorization") != f"Bearer {self.token}":
            return _error(401, "Unauthorized", "a valid bearer token is required")
        if self.results is None:
            return _error(*self.refusal, "why")
        elements = [BatchElement.parse(line) for line in (await http.read()).splitlines()]
        self.batches.append(elements)
        if self.gate is not None:
            await self.gate.wait()
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(http)
        async for part in self.results(elements):
            if not part:
                assert http.transport is not None
                http.transport.abort()
            await response.write(part)
        return response

    async def answered(self, elements: list[BatchElement]) -> AsyncIterator[bytes]:
        """Answer each element of a batch as the call of its own is answered."""
        methods = {
            BatchOperation.SUBMIT: ("PUT", ""),
            BatchOperation.CANCEL: ("POST", "/cancel"),
            BatchOperation.ACKNOWLEDGE: ("DELETE", ""),
        }
        for index, element in enumerate(elements):
            method, ending = methods[element.op]
            status, body = self.answers.get((method, f"/v1/requests/{element.id}{ending}"), (404, ""))
            if status == 0:
                yield b""
            elif status == 404 and not body:
                yield result(index, element, "NotFound")
            elif status >= 400:
                yield BatchResult(index=index, error=ErrorBody.parse(body).error).to_line()
            else:
                view = RequestView.parse(body) if body else None
                yield BatchResult(index=index, request=view).to_line()

    async def events(self, http: web.Request) -> web.StreamResponse:
        if http.headers.get("Authorization") != f"Bearer {self.token}":
            return _error(401, "Unauthorized", "a valid bearer token is required")
        if self.refuse_streams:
            self.refuse_streams -= 1
            return _error(503, "NotReady", "the queue is not open yet")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        stream = Stream(http.headers.get("Last-Event-ID"), response)
        await self.streams.put(stream)
        with contextlib.suppress(ConnectionError):
            await stream.follow()
        return response


def result(index: int, element: BatchElement, refusal: str = "") -> bytes:
    """Return what a bridge says of an element that it has taken, or refuses with this code."""
    if refusal:
        return BatchResult(index=index, error=ErrorDetail(code=refusal, message="why")).to_line()
    acknowledged = element.op is BatchOperation.ACKNOWLEDGE
    view = None if acknowledged else RequestView(id=element.id, state=RequestState.QUEUED)
    return BatchResult(index=index, request=view).to_line()


async def takes_all(elements: list[BatchElement]) -> AsyncIterator[bytes]:
    """Answer every element, the last one first."""
    for index, element in reversed(list(enumerate(elements))):
        yield result(index, element)


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


@contextlib.asynccontextmanager
async def fake_bridge(
    identity: Identity, directory: Path, instance_uid: str = INSTANCE_UID
) -> AsyncIterator[FakeBridge]:
    """Yield a bridge with the credentials that the controller would give it."""
    issued = credentials(identity, instance_uid, datetime.now(UTC))
    pair = directory / f"{instance_uid}.pem"
    pair.write_bytes(issued.private_key + issued.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair)
    bridge = FakeBridge(token=issued.token)
    app = web.Application()
    app.router.add_get("/v1/events", bridge.events)
    app.router.add_post("/v1/batch", bridge.batch)
    app.router.add_route("*", "/v1/requests/{tail:.*}", bridge.request)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    bridge.port = runner.addresses[0][1]
    try:
        yield bridge
    finally:
        await runner.cleanup()
