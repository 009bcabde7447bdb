"""HTTP/1.1 as the controller speaks it to a bridge, and to the API server what it calls most: a few connections to
one place, one call at a time on each.

The parser is that of Node.js (llhttp, by httptools). Input from a bridge is untrusted: all but bodies is bounded,
and an idle connection on which anything comes is dropped. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import httptools

from efrit import tls_buffer

MAX_HEAD_BYTES = 64 * 1024
"""Of what is not a body: the head of an answer, those before it, trailers, the frames of chunks."""
FRAME_BYTES = 16
"""So much more of it may come with each byte of a body: whoever sends small chunks has a frame around each."""
HIGH_WATER_BYTES = 64 * 1024
"""So much of a body is kept unread; what is beyond it stays in the socket, and its sender waits."""
WRITE_BYTES = 64 * 1024
"""So much of a call is written at once: TLS passes on all it is given, and says too late that it is too much."""
PLAIN_PATH = "/?=&"
RETRY_HEADERS = {b"retry-after": "Retry-After", b"date": "Date"}

tls_buffer.keep_small()


class TransportError(ConnectionError):
    """A call got no answer, or not all of it."""


class ConnectError(TransportError):
    """No connection could be made."""


class ConnectTimeout(TransportError):  # noqa: N818 - as httpx calls it
    """No connection was made in time."""


class PoolTimeout(TransportError):  # noqa: N818 - as httpx calls it
    """No connection became free in time."""


class ReadTimeout(TransportError):  # noqa: N818 - as httpx calls it
    """Nothing came, or was taken, for too long."""


class ReadError(TransportError):
    """The connection broke."""


class RemoteProtocolError(TransportError):
    """The answer ended early, or it is not HTTP."""


class Timeouts(NamedTuple):
    """Seconds: until there is a connection, between two bytes, and for a place in the pool."""

    connect: float
    read: float
    pool: float


class Head(NamedTuple):
    """What is used of the head of an answer.

    kind: the media type in lower case, without parameters; retry: the headers that say when to retry.
    """

    status: int
    kind: str
    retry: Mapping[str, str]


class Connection(asyncio.Protocol):
    """One connection. `send`, `head`, then `read` until there is nothing more; then it may be used again."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        """Of the answer under way; None at rest."""
        self._head: Head | None = None
        self._kind = ""
        self._retry: dict[str, str] = {}
        self._body = bytearray()
        self._framed = self._complete = self._broken = False
        self._overhead_bytes = 0
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._paused = self._writes = self._ended = False
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether another call can be made on it."""
        if self._broken or self._ended or self._error is not None or self._transport is None:
            return False
        # What has not been sent yet of a call that was answered early would grow with each call.
        return self._parser is None and not self._transport.get_write_buffer_size()

    async def send(self, data: bytes, seconds: float) -> None:
        """Send a call, or as much of it as there is until it is answered. Raises `TransportError`."""
        self._parser = httptools.HttpResponseParser(self)
        self._head, self._kind, self._retry = None, "", {}
        self._framed = self._complete = False
        self._overhead_bytes = 0
        if self._transport is None or self._error is not None:
            raise self._error or ReadError
        rest = memoryview(data)
        while rest and not self._transport.is_closing():
            self._writes = True
            self._transport.write(rest[:WRITE_BYTES])
            self._writes = False
            rest = rest[WRITE_BYTES:]
            if self._writable is not None:
                await self._within(self._writable, seconds)
            if self._head is not None:
                # What remains would be taken for the next call, or that for what remains.
                self._ended = True
                return

    async def head(self, seconds: float) -> Head:
        """Return the head of the answer. Raises `TransportError`; seconds: between two bytes."""
        while self._head is None:
            await self._wait_for_data(seconds)
        return self._head

    async def read(self, seconds: float) -> bytes:
        """Return what has come of the body, empty at its end. Raises `TransportError`; seconds: between two bytes."""
        while not self._body and not self._complete:
            await self._wait_for_data(seconds)
        part = bytes(self._body)
        self._body.clear()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return part

    def finish(self) -> None:
        """Let the answer go. One that has not been read to its end takes the connection with it."""
        if not self._complete or self._body:
            self.abort()
        self._parser = None

    def abort(self) -> None:
        """Close the connection at once."""
        self._broken = True
        if self._transport is not None:
            self._transport.abort()

    async def _wait_for_data(self, seconds: float) -> None:
        """Wait until something comes. Raises the error of the connection."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._within(self._waiter, seconds)

    @staticmethod
    async def _within(future: asyncio.Future[None], seconds: float) -> None:
        """Wait for a future. Raises `ReadTimeout`: it is never CALL_SECONDS' own `TimeoutError`."""
        handle = asyncio.get_running_loop().call_later(seconds, _time_out, future)
        try:
            await future
        finally:
            handle.cancel()

    def _wake(self) -> None:
        is_answered = self._head is not None or self._error is not None
        for future in (self._waiter, self._writable if is_answered else None):
            if future is not None and not future.done():
                if self._error is None:
                    future.set_result(None)
                else:
                    future.set_exception(self._error)

    def _fail(self, error: TransportError) -> None:
        self._error = self._error or error
        self.abort()
        self._wake()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take in the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_connection makes
        self._transport = transport

    def pause_writing(self) -> None:
        """Take in that the other side takes no more for now. An answer ends the wait, too: it may refuse early."""
        if not self._writes:
            # It makes TLS itself answer (new keys), and does not take that: nothing else bounds it.
            self.abort()
            return
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Take in that it does again."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        if self._parser is None or self._complete:
            # Nobody asked: what came would be taken for the next answer.
            self.abort()  # gate: nobody-asked
            return
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:
                self._fail(RemoteProtocolError(f"the answer is not HTTP: {error}"[:200]))
                return
            # Surplus: what came before it is an answer, and the last on this connection.
            self.abort()
        if self._overhead_bytes > MAX_HEAD_BYTES and not self._complete:  # gate: endless-head
            self._fail(RemoteProtocolError(f"the head of an answer is longer than {MAX_HEAD_BYTES} bytes"))
            return
        if len(self._body) > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Take in that the other side says no more: the end of a body that named no length."""
        self._ended = True
        if self._head is not None and not self._framed:
            self._complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take in that the connection is gone."""
        self._transport = None
        if self._complete or self._error is not None:
            self._broken = True
            self._error = self._error or ReadError()
        elif exc is not None or self._broken:
            self._error = ReadError(str(exc or ""))
        elif self._head is None:
            self._error = RemoteProtocolError("Server disconnected without sending a response.")
        else:
            self._error = RemoteProtocolError("peer closed connection without sending complete message body")
        self._wake()

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin an answer: none follows the one that was asked for."""
        if self._complete:
            raise ValueError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in what is used of a header."""
        name = name.lower()
        if name == b"content-type":
            self._kind = value.partition(b";")[0].strip().lower().decode("latin-1")
        elif name in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif name in RETRY_HEADERS:
            self._retry[RETRY_HEADERS[name]] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take in the head, unless another one follows it."""
        status = self._parser.get_status_code() if self._parser is not None else 0
        if status < 200:
            self._kind, self._retry, self._framed = "", {}, False
        else:
            self._head = Head(status, self._kind, self._retry)

    def on_body(self, data: bytes) -> None:
        """Take in a part of the body. What an answer before the one asked for would hold is none."""
        if self._head is None:
            raise ValueError
        self._overhead_bytes = max(0, self._overhead_bytes - (1 + FRAME_BYTES) * len(data))
        self._body += data

    def on_message_complete(self) -> None:
        """Take in that the answer is whole."""
        if self._head is not None:
            self._complete = True
            self._broken = self._broken or self._parser is None or not self._parser.should_keep_alive()


def _time_out(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(ReadTimeout())


class Place(NamedTuple):
    """Where the connections go, and which name the certificate has to have there; no TLS without a context.

    next_address: seconds after which another address of the host is tried beside the first; None: once that fails.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    name: str | None = None
    next_address: float | None = None


class Connections:
    """At most so many connections to one place; the one that was used last is used next."""

    def __init__(self, place: Place, limit: int, idle_seconds: float) -> None:
        """Keep idle connections for `idle_seconds`."""
        self._place = place
        self._places = asyncio.Semaphore(limit)
        self._idle_seconds = idle_seconds
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        host = f"[{place.host}]" if ":" in place.host else place.host
        self._authority = f"{host}:{place.port}"
        self._closed = False

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | None, timeouts: Timeouts
    ) -> tuple[Connection, Head]:
        """Make a call; return its connection, to be released, and the answer's head. Raises `TransportError`."""
        lines = [f"{method} {quote(path, safe=PLAIN_PATH)} HTTP/1.1", f"Host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None:
            lines.append(f"Content-Length: {len(content)}")
        data = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + (content or b"")
        connection = await self._take(timeouts)
        try:
            await connection.send(data, timeouts.read)
            return connection, await connection.head(timeouts.read)
        except BaseException:
            self.release(connection)
            raise

    def release(self, connection: Connection) -> None:
        """Take a connection back, as often as one likes."""
        if connection not in self._used:
            return
        connection.finish()
        self._used.remove(connection)
        self._places.release()
        now = asyncio.get_running_loop().time()
        if connection.is_usable and not self._closed:
            connection.idle_since = now
            self._idle.append(connection)
        else:
            connection.abort()
        self._drop_rested(now)

    def close(self) -> None:
        """End all connections, and the calls on them."""
        self._closed = True
        for connection in (*self._idle, *self._used):
            connection.abort()
        self._idle.clear()

    def _drop_rested(self, now: float) -> None:
        while self._idle and now - self._idle[0].idle_since > self._idle_seconds:
            self._idle.pop(0).abort()

    async def _take(self, timeouts: Timeouts) -> Connection:
        try:
            async with asyncio.timeout(timeouts.pool if self._places.locked() else None):
                await self._places.acquire()
        except TimeoutError as error:
            raise PoolTimeout from error
        try:
            connection = self._rested() or await self._open(timeouts.connect)
        except BaseException:
            self._places.release()
            raise
        self._used.add(connection)
        return connection

    def _rested(self) -> Connection | None:
        self._drop_rested(asyncio.get_running_loop().time())
        while self._idle:
            if (connection := self._idle.pop()).is_usable:
                return connection
        return None

    async def _open(self, seconds: float) -> Connection:
        if self._closed:
            raise ReadError("the connections are closed")
        place = self._place
        try:
            async with asyncio.timeout(seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    place.host,
                    place.port,
                    ssl=place.tls,
                    server_hostname=place.name if place.tls is not None else None,
                    happy_eyeballs_delay=place.next_address,
                )
        except TimeoutError as error:
            raise ConnectTimeout from error
        except ssl.SSLError as error:
            raise ConnectError(str(error)) from error
        except OSError as error:
            raise ConnectError("All connection attempts failed") from error
        if self._closed:
            connection.abort()
            raise ReadError("the connections are closed")
        return connection
