"""The connections to the bridges: one event stream and one small connection pool per running instance.

A stream resumes where it broke off; its events go to the store as they arrive. Answers are read from it, so
that an answer costs no call of its own. Where a bridge takes batches, as its figures say, what is handed over,
acknowledged and cancelled travels in them (handover_calls.py); an earlier bridge gets a call for each.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from efrit.controller.act.bridge_transport import BridgeTransport, NotEvents, TooLong, read_events
from efrit.controller.act.bulkhead import FAILURES, MAX_CALLS, Bulkhead, Depth
from efrit.controller.act.handover_batch import MAX_BATCHES, MAX_ELEMENT_BYTES
from efrit.controller.act.handover_calls import HandoverCalls
from efrit.controller.act.http_calls import (
    ConnectError,
    Connections,
    ConnectTimeout,
    Place,
    PoolTimeout,
    ReadTimeout,
    Timeouts,
    TransportError,
)
from efrit.controller.act.stream_rate import Shared, StreamRate
from efrit.controller.model.actions import ConnectBridge, Parked
from efrit.controller.model.credentials import Identity, generation_of, server_name, token, trusted_certificates
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.store.store import Store
from efrit.errors import (
    BridgeError,
    BridgeUnreachable,
    BridgeUnresponsive,
    EfritError,
    ProtocolError,
    QueueNotReady,
    RequestNotFound,
    StorageError,
    Unauthorized,
    error_for_code,
)
from efrit.protocol import Request
from efrit.protocol.events import Event
from efrit.protocol.handover import BatchElement
from efrit.protocol.view import ErrorBody, RequestView, Stats

log = logging.getLogger(__name__)

CALL_TIMEOUTS = Timeouts(connect=5.0, read=15.0, pool=15.0)
# Those are between two bytes; this is for the whole of a call, which a bridge may feed us drop by drop.
CALL_SECONDS = 60
# The bridge sends a comment every 10 s: half a minute of silence is a broken stream.
STREAM_TIMEOUTS = Timeouts(connect=5.0, read=30.0, pool=30.0)
MAX_CONNECTIONS = MAX_CALLS + MAX_BATCHES + 2
"""One for the stream, one for a probe. Each costs the bridge a TLS buffer."""
REST_SECONDS = 60.0
"""How long a connection is kept on which there are no calls."""
MAX_GATHERED_BYTES = 16 * 1024 * 1024
"""Lines of all batches that wait or are under way; beyond it each call is made on its own, by a worker."""
LOADED_KEYS = 8
"""Where so many keys of a namespace wait for a worker, its batches follow each other slowly."""
# What a bridge says of an error ends in a status.
MAX_MESSAGE_CHARS = 1000
FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 5.0
FIRST_UNREADABLE_SECONDS = 1.0
LAST_UNREADABLE_SECONDS = 60.0
READABLE_SECONDS = 60.0
"""A stream that could be read for so long makes up for those before that could not."""
MAX_PROBLEM_CHARS = 200
UNSENT = (ConnectError, ConnectTimeout, PoolTimeout)
"""There was no connection: the bridge cannot have got the call."""
UNANSWERED = (TransportError, TimeoutError)
ABOUT_A_BATCH = (BridgeError, QueueNotReady, StorageError)
"""What a bridge may refuse a whole batch with. All else is about one request, or says that no such batch is taken."""
PROBE = "efrit-probe"
"""Id of a request that no queue has."""


@dataclass(slots=True)
class _Link:
    """One connection: to which pod, over which transport, fed by which task."""

    target: ConnectBridge
    transport: BridgeTransport
    tokens: Callable[[], tuple[str, ...]]
    """The bearer tokens of this moment: of the controller's key, and during a rotation of the former one."""
    generation: int
    """Of the CAs that it trusts."""
    rate: StreamRate
    turn: int = 0
    """Which token is tried: the one that worked last."""
    refused_tokens: int = 0
    """How often one was refused since the stream was opened last."""
    task: asyncio.Task[None] = field(init=False)
    bulkhead: Bulkhead = field(init=False)
    batches: HandoverCalls = field(init=False)
    takes_batches: bool = False
    """Whether its last figures said that it does."""
    probe: asyncio.Task[None] | None = None
    full: bool = False
    """Whether its last figures said that the volume takes no work."""

    def headers(self) -> dict[str, str]:
        """Return the header that says who we are."""
        tokens = self.tokens()
        return {"Authorization": f"Bearer {tokens[self.turn % len(tokens)]}"}

    def next_token(self) -> bool:
        """Go on to the other token while a rotation is under way; whether that was not refused, too."""
        self.turn += 1
        self.refused_tokens += 1
        return self.refused_tokens % len(self.tokens()) != 0


class _LinkCallbacks:
    """What the bulkhead of one link has the bridges do."""

    def __init__(self, bridges: Bridges, link: _Link) -> None:
        self._bridges = bridges
        self._link = link

    def requeue(self, key: WorkKey) -> None:
        self._bridges.requeue(key)

    def invite(self, key: WorkKey) -> None:
        self._bridges.invite(key, self._link.bulkhead)

    def probe(self, depth: Depth) -> None:
        self._bridges.probe(self._link, depth)

    def changed(self, problem: str | None) -> None:
        self._bridges.changed(self._link, problem)


class Bridges:
    """All connections. `connect` and `disconnect` say what is wanted; the rest keeps it so."""

    def __init__(
        self,
        identity: Identity,
        store: Store,
        clock: Callable[[], datetime] | None = None,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        self._identity = identity
        self._leading = leading
        self._clock = clock or (lambda: datetime.now(UTC))
        self._store = store
        self._links: dict[Key, _Link] = {}
        self._invited: dict[WorkKey, list[Bulkhead]] = {}
        self._rates = Shared()
        self._large_bodies = asyncio.Semaphore()
        self._trust: tuple[int, ssl.SSLContext] | None = None
        self._gathered_bytes = 0

    def __len__(self) -> int:
        return len(self._links)

    async def connect(self, target: ConnectBridge) -> None:
        """Keep a stream open to this pod; nothing happens where one is."""
        present_link = self._links.get(target.instance)
        generation, tls = self._trusted_ca()
        if present_link is not None:
            if (
                present_link.target == target
                and present_link.generation == generation
                and not present_link.task.done()
            ):
                return
            await self._close(target.instance)
        rate = StreamRate(self._rates, asyncio.get_running_loop().time)
        place = Place(target.host, target.port, tls, server_name(target.instance_uid))
        transport = BridgeTransport(Connections(place, MAX_CONNECTIONS, REST_SECONDS), self._large_bodies)
        link = _Link(target, transport, lambda: self._tokens(target.instance_uid), generation, rate)
        link.bulkhead = Bulkhead(_LinkCallbacks(self, link))
        link.batches = HandoverCalls(
            lambda body: self._send_batch(link, body),
            lambda error: self._unusable_batch(link, error),
            self._leading,
            lambda: self._store.backlog(target.instance[0]) >= LOADED_KEYS,
        )
        self._links[target.instance] = link
        link.task = asyncio.create_task(self._follow(link), name=f"bridge {'/'.join(target.instance)}")
        link.task.add_done_callback(self._log_failed_stream)

    async def disconnect(self, instance: Key) -> None:
        """Close the stream of an instance, if there is one."""
        await self._close(instance)
        self._store.bridges.bridge_disconnected(instance)

    async def close(self) -> None:
        """Close every stream."""
        for instance in list(self._links):
            await self._close(instance)

    @property
    def parked(self) -> int:
        """How many keys wait for a call to a bridge."""
        return sum(link.bulkhead.parked for link in self._links.values())

    @property
    def unresponsive(self) -> int:
        """How many bridges do not answer."""
        return sum(link.bulkhead.problem is not None for link in self._links.values())

    def call(
        self, instance: Key, key: WorkKey, depth: Depth, *, together: bool = False
    ) -> AbstractContextManager[None]:
        """Make the call of a key in this block. Raises Parked where it has to wait: the key comes back by itself.

        together: as an element of a batch.
        """
        link = self._links.get(instance)
        return link.bulkhead.call(key, depth, together=together) if link is not None else nullcontext()

    def batch_line(self, instance: Key, element: BatchElement) -> bytes | None:
        """Return the line of an element that travels in a batch, None where it is to have a call of its own."""
        link = self._links.get(instance)
        if link is None or not link.takes_batches:
            return None
        line = element.to_line()
        together = len(line) <= MAX_ELEMENT_BYTES and self._gathered_bytes + len(line) <= MAX_GATHERED_BYTES
        return line if together else None  # gate: gathered-bytes

    def key_reconciled(self, key: WorkKey) -> None:
        """Take in that the reconciliation of a key is over: a place it was given and did not use goes to others."""
        for bulkhead in self._invited.pop(key, ()):
            bulkhead.key_reconciled(key)

    def requeue(self, key: WorkKey) -> None:
        """Have a key reconciled."""
        self._store.requeue_after(key, timedelta(0))

    def invite(self, key: WorkKey, bulkhead: Bulkhead) -> None:
        """Have a key reconciled that a place for a call is kept for."""
        self._invited.setdefault(key, []).append(bulkhead)
        self.requeue(key)

    def probe(self, link: _Link, depth: Depth) -> None:
        """See whether a bridge answers that nobody waits for."""
        instance = link.target.instance
        if self._links.get(instance) is link and (link.probe is None or link.probe.done()):
            link.probe = asyncio.create_task(self._probe(link, depth), name=f"probe {'/'.join(instance)}")

    async def _probe(self, link: _Link, depth: Depth) -> None:
        """Read what is not there, or acknowledge it, for which its disk has to answer."""
        try:
            with link.bulkhead.call(None, depth):
                if depth is Depth.READ:
                    await self._call("GET", link.target.instance, PROBE)
                else:
                    await self.acknowledge(link.target.instance, PROBE)
        except (EfritError, Parked) as error:
            log.debug("%s/%s: probe: %s", *link.target.instance, error)

    def changed(self, link: _Link, problem: str | None) -> None:
        """Tell the store that a bridge does not answer, or does again."""
        instance = link.target.instance
        if problem is None:
            log.info("%s/%s: its bridge answers again", *instance)
        else:
            log.warning("%s/%s: its bridge does not answer: %s", *instance, problem)
        self._store.bridges.bridge_responsive(instance, problem)

    async def submit(self, instance: Key, request: Request, line: bytes | None = None) -> RequestView:
        """Hand over a request, as `line` of a batch or on its own.

        Raises the QueueError the bridge names, or BridgeUnreachable.
        """
        if line is not None:
            view = await self._in_batch(instance, line, Depth.SUBMIT)
            return self._batched_view(instance, view, request.id, Depth.SUBMIT)
        body = await self._call("PUT", instance, request.id, content=request.to_json().encode(), json=True)
        return self._view(instance, body, request.id, Depth.SUBMIT)

    async def read(self, instance: Key, uid: str) -> RequestView:
        """GET a request with its answer. Raises RequestNotFound, BridgeUnreachable."""
        return self._view(instance, await self._call("GET", instance, uid), uid)

    async def cancel(
        self,
        instance: Key,
        uid: str,
        request: Request | None = None,
        line: bytes | None = None,
        *,
        running: bool = True,
    ) -> RequestView:
        """Ask to withdraw a request, or, if `running`, to stop it; with `request` to refuse it should it come later.

        Raises RequestNotFound, InvalidRequest, BridgeUnreachable.
        """
        if line is not None:
            view = await self._in_batch(instance, line, Depth.WRITE)
            return self._batched_view(instance, view, uid, Depth.WRITE)
        content = request.to_json().encode() if request is not None else None
        where = f"{uid}/cancel" if running else f"{uid}/cancel?only=waiting"
        body = await self._call("POST", instance, where, content=content, json=bool(content))
        return self._view(instance, body, uid, Depth.WRITE)

    async def acknowledge(self, instance: Key, uid: str, line: bytes | None = None) -> None:
        """Say that the answer is stored. A request that is unknown was acknowledged long ago."""
        try:
            if line is not None:
                await self._in_batch(instance, line, Depth.WRITE, lingers=True)
            else:
                await self._call("DELETE", instance, uid)
        except RequestNotFound:
            log.debug("%s/%s: acknowledged request %s is gone from its queue", *instance, uid)
        self._count_answer(instance, Depth.WRITE)

    def _tokens(self, instance_uid: str) -> tuple[str, ...]:
        now = self._clock()
        return tuple(token(key, instance_uid, now) for key in self._identity.keys)

    def _trusted_ca(self) -> tuple[int, ssl.SSLContext]:
        """Return which CA signs at this time, and a context that trusts it: one for all links."""
        now = self._clock()
        if self._trust is None or self._trust[0] != generation_of(now):
            context = ssl.create_default_context(cadata=trusted_certificates(self._identity, now).decode())
            # A bridge that speaks TLS 1.2 could ask for one handshake after the other, on a connection at rest, too.
            context.options |= ssl.OP_NO_RENEGOTIATION
            self._trust = generation_of(now), context
        return self._trust

    def _log_failed_stream(self, task: asyncio.Task[None]) -> None:
        """Log a stream that ended without being cancelled: a defect."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the event stream failed", task.get_name(), exc_info=error)
            for instance, link in self._links.items():
                if link.task is task:
                    self._store.bridges.bridge_lost(instance, link.target.pod_uid, repr(error))

    async def _close(self, instance: Key) -> None:
        link = self._links.pop(instance, None)
        if link is None:
            return
        tasks = [pending_task for pending_task in (link.task, link.probe) if pending_task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await link.batches.close()
        link.bulkhead.close()
        link.rate.close()
        link.transport.close()

    def _connected(self, instance: Key) -> _Link:
        link = self._links.get(instance)
        if link is None:
            raise BridgeUnreachable(f"{instance[0]}/{instance[1]}: not connected to its bridge", sent=False)
        return link

    async def _call(
        self, method: str, instance: Key, where: str, *, content: bytes | None = None, json: bool = False
    ) -> bytes:
        link = self._connected(instance)
        depth = Depth.READ if method == "GET" else Depth.WRITE
        try:
            async with asyncio.timeout(CALL_SECONDS):
                headers = link.headers() | ({"Content-Type": "application/json"} if json else {})
                path = f"/v1/requests/{where}"
                async with link.transport.call(method, path, headers, CALL_TIMEOUTS, content) as answer:
                    body = await answer.read()
        except UNANSWERED as error:
            raise self._unanswered(link, error, depth) from error
        if answer.is_success:
            return body
        raise self._refused(link, _error(answer.status, body), depth, submits=method == "PUT")

    async def _in_batch(
        self, instance: Key, line: bytes, depth: Depth, *, lingers: bool = False
    ) -> RequestView | None:
        """Have a line travel in a batch, and return what the bridge said of its request. Raises as `_call` does."""
        link = self._connected(instance)
        self._gathered_bytes += len(line)
        try:
            result = await link.batches.add(line, lingers=lingers)
        finally:
            self._gathered_bytes -= len(line)
        if result.error is None:
            return result.request
        refusal = error_for_code(result.error.code, result.error.message[:MAX_MESSAGE_CHARS])
        raise self._refused(link, refusal, depth, submits=depth is Depth.SUBMIT)

    async def _send_batch(self, link: _Link, body: bytes) -> AsyncGenerator[bytes]:
        """Send a batch and yield the parts of its answer. Raises EfritError, once it is counted."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                headers = link.headers() | {"Content-Type": "application/x-ndjson"}
                async with link.transport.call("POST", "/v1/batch", headers, CALL_TIMEOUTS, body) as answer:
                    if answer.is_success:
                        async for part in answer.parts():
                            yield part
                        return
                    refusal = _error(answer.status, await answer.read())
        except UNANSWERED as error:
            for _ in range(min(body.count(b"\n"), FAILURES) - 1):
                # As many calls of their own would have failed.
                self._unanswered(link, error, Depth.WRITE)
            raise self._unanswered(link, error, Depth.WRITE) from error
        if not isinstance(refusal, ABOUT_A_BATCH):  # gate: batch-refused
            # An earlier bridge has come in its place, or one that takes less: that is no verdict on each element.
            link.takes_batches = False
            raise QueueNotReady("the bridge does not take this batch: each request is handed over on its own")
        raise self._refused(link, refusal, Depth.WRITE, submits=False)

    def _unanswered(self, link: _Link, error: Exception, depth: Depth) -> BridgeUnreachable:
        """Count a call that got no answer, and return what to raise."""
        link.bulkhead.failed(_failure_sentence(error), depth)
        kind = BridgeUnreachable if link.bulkhead.problem is None else BridgeUnresponsive
        sent = not isinstance(error, UNSENT)  # gate: call-unsent
        namespace, name = link.target.instance
        return kind(f"{namespace}/{name}: its bridge does not answer: {error!r}", sent=sent)

    def _refused(self, link: _Link, refusal: EfritError, depth: Depth, *, submits: bool) -> EfritError:
        """Count a call that was refused, and return what to raise."""
        if type(refusal) is BridgeError:
            link.bulkhead.failed(f"{refusal.message[:MAX_PROBLEM_CHARS]}.", depth)
        elif isinstance(refusal, StorageError):
            link.bulkhead.succeeded(min(depth, Depth.WRITE))
            if submits:
                link.bulkhead.queue_full(refusal.message[:MAX_PROBLEM_CHARS])
        else:
            # What is refused need not have been tried.
            link.bulkhead.succeeded()
        if isinstance(refusal, Unauthorized):
            link.next_token()
        return refusal

    def _unusable_batch(self, link: _Link, error: EfritError) -> EfritError:
        """Count an answer to a batch that cannot be used, and return the error of those it said nothing of."""
        namespace, name = link.target.instance
        link.bulkhead.failed(f"{error.message[:MAX_PROBLEM_CHARS]}.", Depth.WRITE)
        # It may have got the batch; what it made of it is unknown.
        return BridgeUnreachable(f"{namespace}/{name}: its answer to a batch cannot be used: {error.message}")

    def _count_answer(self, instance: Key, depth: Depth, problem: str | None = None) -> None:
        """Count the answer to a call, one that cannot be used as none."""
        link = self._links.get(instance)
        if link is None:
            return
        if problem is None:
            link.bulkhead.succeeded(depth)
        else:
            link.bulkhead.failed(f"{problem[:MAX_PROBLEM_CHARS]}.", min(depth, Depth.WRITE))

    def _view(self, instance: Key, body: bytes, uid: str, depth: Depth = Depth.READ) -> RequestView:
        try:
            view = _view(body, uid)
        except EfritError as error:
            self._count_answer(instance, depth, error.message)
            raise
        self._count_answer(instance, depth)
        return view

    def _batched_view(self, instance: Key, view: RequestView | None, uid: str, depth: Depth) -> RequestView:
        if view is None or view.id != uid:
            error = _other_view(uid, "none" if view is None else view.id)
            self._count_answer(instance, depth, error.message)
            raise error
        self._count_answer(instance, depth)
        return view

    def _take_figures(self, link: _Link, event: Event) -> None:
        """Learn from figures whether batches are taken, and have requests tried again once there is room for them."""
        if isinstance(event, Stats):
            link.takes_batches = event.batch_elements > 0
            if link.takes_batches:
                link.batches.limit(event.batch_elements)
            link.bulkhead.take_batches(link.takes_batches)
            full = event.disk is not None and event.disk.problem is not None
            if link.full and not full:
                link.bulkhead.queue_has_space()
            link.full = full

    async def _follow(self, link: _Link) -> None:
        """Read the stream for ever, coming back after each break."""
        instance, pod_uid = link.target.instance, link.target.pod_uid
        loop = asyncio.get_running_loop()
        failures, unreadable, last_id = 0, 0, ""
        while True:
            opened = False
            began = loop.time()
            problem = "it ended the event stream"
            try:
                headers = link.headers() | ({"Last-Event-ID": last_id} if last_id else {})
                async with link.transport.call("GET", "/v1/events", headers, STREAM_TIMEOUTS) as answer:
                    if not answer.is_success:
                        raise _error(answer.status, await answer.read())
                    async for event, event_id in read_events(answer.slices(link.rate)):
                        if not opened:
                            opened, link.refused_tokens = True, 0
                            link.bulkhead.stream_opened()
                        if event is not None:
                            busy_since = loop.time()
                            self._take_figures(link, event)
                            self._store.bridges.event(instance, pod_uid, event)
                            link.rate.worked(loop.time() - busy_since)
                        last_id = event_id or last_id
            except (TransportError, TimeoutError, EfritError) as error:
                problem = str(error) or repr(error)
                if isinstance(error, Unauthorized) and link.next_token():
                    # Of two tokens one was refused: that is no trouble that anyone needs to be told of.
                    log.log(
                        logging.DEBUG if failures else logging.INFO,
                        "%s/%s: trying the other token, a rotation is under way",
                        *instance,
                    )
                    continue
                if isinstance(error, ProtocolError):
                    # What could not be read may be what matters: start over from a whole picture.
                    last_id = ""
                if isinstance(error, (ProtocolError, NotEvents, TooLong)):
                    unreadable += 1
                    link.bulkhead.unreadable(f"its event stream cannot be read: {problem[:MAX_PROBLEM_CHARS]}.")
            lasted = loop.time() - began
            if lasted > READABLE_SECONDS:
                unreadable = 0
                link.bulkhead.stream_lasted()
            if lasted > LAST_BACKOFF_SECONDS:
                failures = 0
            failures += 1
            log.debug("%s/%s: bridge stream: %s (failure %d)", *instance, problem, failures)
            self._store.bridges.bridge_lost(instance, pod_uid, problem)
            backoff = min(FIRST_BACKOFF_SECONDS * 1.6 ** min(failures - 1, 30), LAST_BACKOFF_SECONDS)
            if unreadable:
                again = FIRST_UNREADABLE_SECONDS * 2.0 ** min(unreadable - 1, 30)
                backoff = max(backoff, min(again, LAST_UNREADABLE_SECONDS))
            await asyncio.sleep(backoff * random.uniform(0.8, 1.2))  # noqa: S311


def _view(body: bytes, uid: str) -> RequestView:
    view = RequestView.parse(body)
    if view.id != uid:
        raise _other_view(uid, view.id)
    return view


def _other_view(uid: str, answered: str) -> BridgeError:
    return BridgeError(f"asked about request {uid}, the bridge answered about {answered}")


def _failure_sentence(error: Exception) -> str:
    """Return what kept a call from being answered, for people."""
    if isinstance(error, ConnectTimeout):
        return f"no connection within {CALL_TIMEOUTS.connect:.0f} s."
    if isinstance(error, (ReadTimeout, PoolTimeout)):
        return f"no answer within {CALL_TIMEOUTS.read:.0f} s."
    if isinstance(error, TimeoutError):
        return "its answer did not end in time."
    return f"{(str(error) or type(error).__name__)[:MAX_PROBLEM_CHARS]}."


def _error(status: int, body: bytes) -> EfritError:
    try:
        detail = ErrorBody.parse(body).error
    except ProtocolError:
        return BridgeError(f"the bridge answered {status}: {body.decode(errors='replace')[:200]!r}")
    return error_for_code(detail.code, detail.message[:MAX_MESSAGE_CHARS])
