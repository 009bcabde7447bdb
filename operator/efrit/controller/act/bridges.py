"""The connections to the bridges: one event stream and one small connection pool per running instance.

A stream resumes where it broke off; its events go to the store as they arrive. Answers are read from it, so
that an answer costs no call of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from dataclasses import dataclass, field

import httpx
from httpx_sse import SSEError, aconnect_sse

from efrit.controller.act.bridge_transport import BridgeTransport, read_events
from efrit.controller.model.actions import ConnectBridge
from efrit.controller.model.credentials import Identity, server_name, token
from efrit.controller.model.keys import Key
from efrit.controller.store.store import Store
from efrit.errors import (
    BridgeError,
    BridgeUnreachable,
    EfritError,
    ProtocolError,
    RequestNotFound,
    Unauthorized,
    error_for_code,
)
from efrit.protocol import ErrorBody, Request, RequestView

log = logging.getLogger(__name__)

CALL_TIMEOUT = httpx.Timeout(15, connect=5)
# Those are between two bytes; this is for the whole of a call, which a bridge may feed us drop by drop.
CALL_SECONDS = 60
# The bridge sends a comment every 10 s: half a minute of silence is a broken stream.
STREAM_TIMEOUT = httpx.Timeout(30, connect=5)
# One for the stream. More would not be faster, and each costs the bridge a quarter of a megabyte of TLS buffer.
LIMITS = httpx.Limits(max_connections=9, max_keepalive_connections=9, keepalive_expiry=60)
# What a bridge says of an error ends in a status.
MAX_MESSAGE_CHARS = 1000
FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 5.0


@dataclass(slots=True)
class _Link:
    """One connection: to which pod, over which client, fed by which task."""

    wanted: ConnectBridge
    client: httpx.AsyncClient
    tokens: tuple[str, ...]
    """The bearer tokens to try; the first is the one that worked last."""
    task: asyncio.Task[None] = field(init=False)

    def headers(self) -> dict[str, str]:
        """Return the header that says who we are."""
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    def next_token(self) -> bool:
        """Go on to the other token while a rotation is under way; whether there is one."""
        self.tokens = (*self.tokens[1:], self.tokens[0])
        return len(self.tokens) > 1


class Bridges:
    """All connections. `connect` and `disconnect` say what is wanted; the rest keeps it so."""

    def __init__(self, identity: Identity, store: Store) -> None:
        self._identity = identity
        self._store = store
        self._links: dict[Key, _Link] = {}
        self._tls = ssl.create_default_context(cadata=identity.ca_certificate.decode())

    def __len__(self) -> int:
        return len(self._links)

    async def connect(self, wanted: ConnectBridge) -> None:
        """Keep a stream open to this pod; nothing happens where one is."""
        known = self._links.get(wanted.instance)
        if known is not None:
            if known.wanted == wanted and not known.task.done():
                return
            await self._close(wanted.instance)
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        client = httpx.AsyncClient(
            base_url=f"https://{host}:{wanted.port}",
            transport=BridgeTransport(verify=self._tls, limits=LIMITS, trust_env=False),
            timeout=CALL_TIMEOUT,
            trust_env=False,
        )
        link = _Link(wanted, client, self._tokens(wanted.instance_uid))
        self._links[wanted.instance] = link
        link.task = asyncio.create_task(self._follow(link), name=f"bridge {'/'.join(wanted.instance)}")
        link.task.add_done_callback(self._ended)

    async def disconnect(self, instance: Key) -> None:
        """Close the stream of an instance, if there is one."""
        await self._close(instance)
        self._store.bridges.closed(instance)

    async def close(self) -> None:
        """Close every stream."""
        for instance in list(self._links):
            await self._close(instance)

    async def submit(self, instance: Key, request: Request) -> RequestView:
        """PUT a request. Raises the QueueError the bridge names, or BridgeUnreachable."""
        body = await self._call("PUT", instance, request.id, content=request.to_json().encode(), json=True)
        return _view(body, request.id)

    async def read(self, instance: Key, uid: str) -> RequestView:
        """GET a request with its answer. Raises RequestNotFound, BridgeUnreachable."""
        return _view(await self._call("GET", instance, uid), uid)

    async def cancel(
        self, instance: Key, uid: str, request: Request | None = None, *, running: bool = True
    ) -> RequestView:
        """Ask to withdraw a request, or, if `running`, to stop it; with `request` to refuse it should it come later.

        Raises RequestNotFound, InvalidRequest, BridgeUnreachable.
        """
        content = request.to_json().encode() if request is not None else None
        where = f"{uid}/cancel" if running else f"{uid}/cancel?only=waiting"
        return _view(await self._call("POST", instance, where, content=content, json=bool(content)), uid)

    async def acknowledge(self, instance: Key, uid: str) -> None:
        """Say that the answer is stored. A request that is unknown was acknowledged long ago."""
        try:
            await self._call("DELETE", instance, uid)
        except RequestNotFound:
            log.debug("%s/%s: acknowledged request %s is gone from its queue", *instance, uid)

    def _tokens(self, instance_uid: str) -> tuple[str, ...]:
        keys = (self._identity.hmac_key, self._identity.previous_hmac_key)
        return tuple(token(key, instance_uid) for key in keys if key is not None)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Log a stream that ended without being cancelled: a defect."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the event stream failed", task.get_name(), exc_info=error)
            for instance, link in self._links.items():
                if link.task is task:
                    self._store.bridges.lost(instance, link.wanted.pod_uid, repr(error))

    async def _close(self, instance: Key) -> None:
        link = self._links.pop(instance, None)
        if link is None:
            return
        link.task.cancel()
        await asyncio.gather(link.task, return_exceptions=True)
        await link.client.aclose()

    async def _call(
        self, method: str, instance: Key, where: str, *, content: bytes | None = None, json: bool = False
    ) -> bytes:
        link = self._links.get(instance)
        if link is None:
            raise BridgeUnreachable(f"{instance[0]}/{instance[1]}: not connected to its bridge")
        try:
            async with asyncio.timeout(CALL_SECONDS):
                response = await link.client.request(
                    method,
                    f"/v1/requests/{where}",
                    content=content,
                    headers=link.headers() | ({"Content-Type": "application/json"} if json else {}),
                    extensions=_tls_name(link.wanted),
                )
        except (httpx.TransportError, httpx.InvalidURL, RuntimeError, TimeoutError) as error:
            # RuntimeError: the client was closed under us because the pod was replaced.
            raise BridgeUnreachable(f"{instance[0]}/{instance[1]}: its bridge does not answer: {error!r}") from error
        if response.is_success:
            return response.content
        refusal = _error(response)
        if isinstance(refusal, Unauthorized):
            link.next_token()
        raise refusal

    async def _follow(self, link: _Link) -> None:
        """Read the stream for ever, coming back after each break."""
        instance, pod_uid = link.wanted.instance, link.wanted.pod_uid
        failures, last_id = 0, ""
        while True:
            began = asyncio.get_running_loop().time()
            problem = "it ended the event stream"
            try:
                async with aconnect_sse(
                    link.client,
                    "GET",
                    "/v1/events",
                    timeout=STREAM_TIMEOUT,
                    headers=link.headers() | ({"Last-Event-ID": last_id} if last_id else {}),
                    extensions=_tls_name(link.wanted),
                ) as source:
                    if not source.response.is_success:
                        await source.response.aread()
                        raise _error(source.response)
                    async for event, event_id in read_events(source):
                        if event is not None:
                            self._store.bridges.event(instance, pod_uid, event)
                        last_id, failures = event_id or last_id, 0
            except (httpx.TransportError, SSEError, EfritError) as error:
                problem = str(error) or repr(error)
                if isinstance(error, Unauthorized) and link.next_token():
                    log.info("%s/%s: trying the other token, a rotation is under way", *instance)
                if isinstance(error, ProtocolError):
                    # What could not be read may be what matters: start over from a whole picture.
                    last_id = ""
            if asyncio.get_running_loop().time() - began > LAST_BACKOFF_SECONDS:
                failures = 0
            failures += 1
            log.debug("%s/%s: bridge stream: %s (failure %d)", *instance, problem, failures)
            self._store.bridges.lost(instance, pod_uid, problem)
            backoff = min(FIRST_BACKOFF_SECONDS * 1.6 ** (failures - 1), LAST_BACKOFF_SECONDS)
            await asyncio.sleep(backoff * random.uniform(0.8, 1.2))  # noqa: S311


def _view(body: bytes, uid: str) -> RequestView:
    view = RequestView.parse(body)
    if view.id != uid:
        raise BridgeError(f"asked about request {uid}, the bridge told of {view.id}")
    return view


def _tls_name(wanted: ConnectBridge) -> dict[str, str]:
    return {"sni_hostname": server_name(wanted.instance_uid)}


def _error(response: httpx.Response) -> EfritError:
    try:
        detail = ErrorBody.parse(response.content).error
    except ProtocolError:
        return BridgeError(f"the bridge answered {response.status_code}: {response.text[:200]!r}")
    return error_for_code(detail.code, detail.message[:MAX_MESSAGE_CHARS])
