"""Simulated bridges: one TLS server that is the bridge of every instance, distinguished by the host name of the call.

It speaks the protocol of a bridge and runs nothing. An instance that holds keeps its requests waiting; any other one
answers an eval at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web
from msgspec import structs

from efrit.controller.model.credentials import Identity, credentials, server_name
from efrit.protocol import Outcome, Request, RequestId, RequestReason, RequestState, Response
from efrit.protocol.events import Event, EventId, Reset
from efrit.protocol.view import EmacsStats, RequestView, Stats

ALIVE_SECONDS = 8.0


@dataclass
class Bridge:
    """The bridge of one instance."""

    uid: str
    holds: bool
    views: dict[str, RequestView] = field(default_factory=dict)
    stream: web.StreamResponse | None = None
    count: int = 0

    @property
    def queue_id(self) -> str:
        return self.uid[:32]

    def figures(self) -> Stats:
        waiting = sum(not view.state.final for view in self.views.values())
        emacs = EmacsStats(alive=True, responsive=True, version="30.1")
        return Stats(queue_id=self.queue_id, emacs=emacs, pending=waiting)

    async def tell(self, event: Event) -> None:
        if self.stream is None:
            return
        name = "reset" if isinstance(event, Reset) else "request" if isinstance(event, RequestView) else "stats"
        self.count += 1
        head = f"id: {EventId('epoch', self.count)}\n" if name == "stats" else ""
        with contextlib.suppress(ConnectionError):
            await self.stream.write(f"{head}event: {name}\ndata: {event.to_json()}\n\n".encode())


class Bridges:
    """All of them. `begin` serves, `end` stops."""

    def __init__(self, identity: Identity, directory: Path) -> None:
        self._identity = identity
        self._directory = directory
        self._bridges: dict[str, Bridge] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._asked: dict[int, str] = {}
        self.port = 0
        self.connected: set[str] = set()

    def add(self, uid: str, *, holds: bool) -> None:
        """Make the bridge of an instance."""
        made = credentials(self._identity, uid, datetime.now(UTC))
        pair = self._directory / f"{uid}.pem"
        pair.write_bytes(made.private_key + made.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair)
        pair.unlink()
        self._contexts[server_name(uid)] = context
        self._bridges[made.token] = Bridge(uid, holds)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve on a free port of the loopback."""
        app = web.Application()
        app.router.add_get("/v1/events", self._events)
        app.router.add_route("*", "/v1/requests/{uid}", self._request)
        app.router.add_post("/v1/requests/{uid}/cancel", self._cancel)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = self._choose
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, backlog=2048)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    @property
    def held(self) -> int:
        """How many requests the bridges have that hold them."""
        return sum(len(bridge.views) for bridge in self._bridges.values() if bridge.holds)

    async def answer_held(self) -> str:
        """Have the bridge that holds most requests answer its last one; return the name of that."""
        bridge = max((bridge for bridge in self._bridges.values() if bridge.holds), key=lambda one: len(one.views))
        view = next(view for view in reversed(bridge.views.values()) if not view.state.final)
        answered = structs.replace(view, state=RequestState.ANSWERED, attempt=1, response=_answer(view.id))
        bridge.views[view.id] = answered
        await bridge.tell(answered)
        assert view.metadata is not None
        return str(view.metadata["name"])

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name in self._contexts:
            connection.context = self._contexts[name]

    def _of(self, http: web.Request) -> Bridge:
        bridge = self._bridges.get(http.headers.get("Authorization", "").removeprefix("Bearer "))
        if bridge is None:
            raise web.HTTPUnauthorized
        return bridge

    async def _events(self, http: web.Request) -> web.StreamResponse:
        bridge = self._of(http)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        bridge.stream = response
        await bridge.tell(Reset(queue_id=bridge.queue_id, epoch="epoch"))
        for view in list(bridge.views.values()):
            await bridge.tell(view)
        await bridge.tell(bridge.figures())
        self.connected.add(bridge.uid)
        try:
            while True:
                await asyncio.sleep(ALIVE_SECONDS)
                await response.write(b": alive\n\n")
        except ConnectionError:
            return response
        finally:
            self.connected.discard(bridge.uid)

    async def _request(self, http: web.Request) -> web.Response:
        bridge, uid = self._of(http), http.match_info["uid"]
        if http.method == "DELETE":
            bridge.views.pop(uid, None)
            return web.Response(status=204)
        if http.method == "PUT":
            request = Request.parse(await http.read())
            queued = RequestView(id=request.id, state=RequestState.QUEUED, metadata=request.metadata)
            bridge.views[uid] = structs.replace(queued, queued_time=datetime.now(UTC))
            if not bridge.holds:
                answer = RequestView(
                    id=request.id, state=RequestState.ANSWERED, attempt=1, response=_answer(request.id)
                )
                bridge.views[uid] = answer
            asyncio.get_running_loop().create_task(bridge.tell(bridge.figures()))
        if uid not in bridge.views:
            return web.json_response({"error": {"code": "NotFound", "message": "no such request"}}, status=404)
        return web.Response(body=bridge.views[uid].to_json(), content_type="application/json")

    async def _cancel(self, http: web.Request) -> web.Response:
        del http
        return web.json_response({"error": {"code": "NotFound", "message": "no such request"}}, status=404)


def _answer(uid: RequestId) -> Response:
    return Response(
        id=uid,
        status=RequestReason.SUCCEEDED.status,
        reason=RequestReason.SUCCEEDED,
        outcome=Outcome.SUCCESS,
        result="3",
        attempt=1,
        started=datetime.now(UTC),
    )
