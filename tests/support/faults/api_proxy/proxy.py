"""Stands between one controller and the API server: logs every call and injects faults into calls and watches.

    with Proxy(plane) as proxy:
        operator = site.operator(server=proxy.url)
        proxy.kill_controller = operator.kill
        operator.start()
        lost = proxy.arm(Fault(Effect.LOST_REPLY, "patch", "efritrequests", "status", when=final_status))
        ...
        proxy.heal()

Runs in a thread of its own with its own event loop; every public method may be called from any thread. Bearer tokens
pass through, and its certificate is the API server's, so that only the address differs for the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web

from tests.cluster.control_plane import ControlPlane
from tests.support.faults.api_proxy.calls import OPERATIONS, Call, CallLog, Json, Target, parse_target
from tests.support.faults.api_proxy.rules import FOR_EVER, KILLING_EFFECTS, ArmedFault, Effect, Fault, FaultRules
from tests.support.faults.api_proxy.streams import Cut, Holds, Stream
from tests.support.timeout import TIMEOUT
from tests.support.transports import abort_all, stop_serving

HOP_HEADERS = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"}
LONGEST_LINE = 2**24
START_SECONDS = TIMEOUT
GRACE_SECONDS, POLL_SECONDS = 1.0, 0.05
"""At the end: how long calls may go on, and how often their connections are cut after that until all have ended."""

REFUSALS = {
    Effect.CONFLICT_409: (
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest version",
    ),
    Effect.TOO_MANY_429: (429, "TooManyRequests", "too many requests, please try again later"),
    Effect.ERROR_500: (500, "InternalError", "etcdserver: leader changed"),
    Effect.GONE_410: (410, "Expired", "too old resource version"),
}

Route = Callable[[Target], str | None]
"""Returns another API server's URL for a call, or None for the usual one."""


class Proxy:
    """One proxy for one controller. Close it, or use it as a context manager."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._rules = FaultRules()
        self._log = CallLog()
        self._streams: set[Stream] = set()
        self._opening: set[asyncio.Future[aiohttp.ClientResponse]] = set()
        self._answering: set[asyncio.Future[web.StreamResponse]] = set()
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.kill_controller: Callable[[], None] = _no_controller
        """Called in the proxy's thread, so it must not wait for the proxy."""
        self.route: Route = lambda _: None
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"

    # For tests and nemeses

    def arm(self, fault: Fault) -> ArmedFault:
        """Arm a fault; `injected` of the result is set at its first hit."""
        armed = ArmedFault(fault) if fault.now else self._rules.add(fault)
        if fault.now:
            self._call_soon(self._inject, armed)
        return armed

    def heal(self) -> None:
        """Disarm every fault, and release what is held."""
        self._rules.clear()
        self._call_soon(self._release)

    def release_calls(self) -> None:
        """Let go the calls that are held; events of watches stay held, and faults armed."""
        self._call_soon(self._held_calls.release)

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call so far, in order of arrival."""
        return self._log.all()

    @property
    def armed(self) -> tuple[ArmedFault, ...]:
        """Every armed fault, spent or not."""
        return self._rules.all()

    def watching(self, resource: str) -> int:
        """Return how many watches on a resource are open."""
        return sum(1 for stream in list(self._streams) if stream.resource == resource)

    def start(self) -> None:
        """Start the thread. Return once the proxy listens."""
        self._thread.start()
        self._ready.result(START_SECONDS)

    def close(self) -> None:
        """Cut every connection and end the thread."""
        if self._thread.is_alive():
            self.heal()
            self._call_soon(self._stopping.set)
            self._thread.join(START_SECONDS)
        self._socket.close()

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # In the proxy's own thread

    def _call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None, "the proxy is not started"
        self._loop.call_soon_threadsafe(function, *arguments)

    def _release(self) -> None:
        self._held_calls.release()
        self._held_events.release()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._held_calls, self._held_events, self._stopping = Holds(), Holds(), asyncio.Event()
        pki = self._plane.authority
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(pki.certificate("apiserver"), pki.key("apiserver"))
        self._calling = ssl.create_default_context(cafile=str(pki.ca))
        app = web.Application(client_max_size=LONGEST_LINE)
        app.router.add_route("*", "/{path:.*}", self._serve)
        # A watch must end when its controller does: nothing else would notice.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._calling)
        async with aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            read_bufsize=LONGEST_LINE,
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        ) as self._session:
            await runner.setup()
            try:
                await web.SockSite(runner, self._socket, ssl_context=serving).start()
                self._ready.set_result(None)
                await self._stopping.wait()
            finally:
                await stop_serving(runner)
                await self._end_calls(self._loop)

    async def _end_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        """Return when no call is under way: one that is cancelled while it connects leaves its socket open."""
        grace = GRACE_SECONDS
        while calls := self._calls():
            await asyncio.wait(calls, timeout=grace)
            grace = POLL_SECONDS
            if self._calls():
                await abort_all(loop)
        await abort_all(loop)

    def _calls(self) -> set[asyncio.Future[Any]]:
        return {*self._opening, *self._answering}

    def _inject(self, armed: ArmedFault) -> None:
        for stream in self._streams:
            if armed.fault.resource in ("", stream.resource):
                stream.inject(armed)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        body = _parsed(data)
        target = parse_target(request.method, request.path, request.query, request.headers.get("Content-Type", ""))
        number = self._log.began(time.time(), target, request.query.get("fieldManager", ""), body)
        fault = self._rules.for_call(target, body, time.time())
        released = self._held_calls.next_release
        if fault is not None:
            self._log.note(number, effect=fault.effect.value)
        try:
            # A write that was sent arrives, even if its sender is killed.
            answering = asyncio.ensure_future(self._answer(request, data, target, number, fault, released))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
            answering.add_done_callback(_seen)
            return await (asyncio.shield(answering) if target.writes else answering)
        except (Cut, aiohttp.ClientError, OSError):
            _reset(request)
            return web.Response(status=502)
        finally:
            self._log.note(number, ended=time.time())

    async def _answer(
        self,
        request: web.Request,
        data: bytes,
        target: Target,
        number: int,
        fault: Fault | None,
        released: asyncio.Event,
    ) -> web.StreamResponse:
        effect = fault.effect if fault is not None else None
        if fault is not None:
            match effect:
                case Effect.KILL_BEFORE_SEND:
                    self.kill_controller()
                    raise Cut
                case Effect.RESET:
                    raise Cut
                case Effect.CONFLICT_409 | Effect.TOO_MANY_429 | Effect.ERROR_500 | Effect.GONE_410:
                    self._log.note(number, status=REFUSALS[fault.effect][0])
                    return _refusal(fault)
                case Effect.DELAYED:
                    await self._held_calls.hold(fault.seconds, released)
                case Effect.STALE_AFTER_COMMIT:
                    self._rules.add(_stale(fault, target, data))
        query = dict(request.query)
        if fault is not None and effect == Effect.STALE_LIST and "continue" not in query:
            query |= {"resourceVersion": fault.value, "resourceVersionMatch": "Exact"}
        server = self.route(target) or self._plane.url
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP_HEADERS]
        async with await self._open(
            request.method, server + request.path, params=query, headers=headers, data=data or None
        ) as answer:
            self._log.note(number, status=answer.status)
            if target.verb == "watch" and answer.status == 200:
                return await self._relay(request, answer, target.resource)
            content = await answer.read()
            reply = web.Response(status=answer.status, body=content, headers=_kept(answer))
        if effect in (Effect.KILL_AFTER_COMMIT, Effect.LOST_REPLY):
            if effect in KILLING_EFFECTS:
                self.kill_controller()
            raise Cut
        if effect == Effect.KILL_AFTER_REPLY:
            await reply.prepare(request)
            await reply.write_eof()
            self.kill_controller()
        return reply

    async def _open(self, method: str, url: str, **more: Any) -> aiohttp.ClientResponse:
        """Begin a call. One cancelled while it connects is followed up: asyncio would leave its socket open."""
        opening: asyncio.Future[aiohttp.ClientResponse] = asyncio.ensure_future(
            self._session.request(method, url, **more)
        )
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_closed)
            raise

    async def _relay(self, request: web.Request, answer: aiohttp.ClientResponse, resource: str) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_kept(answer))
        await response.prepare(request)
        stream = Stream(resource, self._rules, self._held_events, response.write)
        self._streams.add(stream)
        reading = asyncio.ensure_future(_read(answer, stream))
        try:
            await stream.run()
            if reading.done():
                # A stream that broke off at the API server breaks off here.
                reading.result()
            await response.write_eof()
        finally:
            self._streams.discard(stream)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return response


async def _read(answer: aiohttp.ClientResponse, stream: Stream) -> None:
    try:
        async for line in answer.content:
            stream.feed(line)
    finally:
        stream.feed(None)


def _stale(fault: Fault, target: Target, data: bytes) -> Fault:
    body = _parsed(data) or {}
    name = target.name or str(body.get("metadata", {}).get("name", ""))
    return replace(
        fault,
        effect=Effect.EVENT_DELAYED,
        verb="",
        resource=target.resource,
        sub=None,
        name=name,
        when=None,
        skip=0,
        times=1,
    )


def _refusal(fault: Fault) -> web.Response:
    code, reason, message = REFUSALS[fault.effect]
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"message": message, "reason": reason, "code": code}
    headers = {}
    if fault.effect == Effect.TOO_MANY_429:
        status["details"] = {"retryAfterSeconds": max(1, round(fault.seconds))}
        headers["Retry-After"] = str(max(1, round(fault.seconds)))
    return web.json_response(status, status=code, headers=headers)


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in HOP_HEADERS}


def _parsed(data: bytes) -> Json | None:
    try:
        body: Any = json.loads(data) if data else None
    except ValueError:
        return None
    if isinstance(body, list):
        return {OPERATIONS: body}
    return body if isinstance(body, dict) else None


def _reset(request: web.Request) -> None:
    """End the connection with a RST, so that nobody takes it for an answer."""
    transport = request.transport
    if transport is not None:
        connection: socket.socket | None = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            # The other side may have gone already.
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


def _closed(opening: asyncio.Future[aiohttp.ClientResponse]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _seen(answering: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an answer that nobody waits for any more."""
    if not answering.cancelled():
        answering.exception()


def _no_controller() -> None:
    raise AssertionError("a fault is to kill the controller: set proxy.kill_controller")


__all__ = ["FOR_EVER", "ArmedFault", "Call", "Effect", "Fault", "Proxy", "Target"]
