"""One connection to an HTTP server of ours, each of whose requests has to be there within limits of time and size.

Shared by the bridge and the MCP server. The parser is that of Node.js (llhttp, by httptools), which has no limits of
its own. Knows nothing of what is asked for, and counts no connections.
"""

import asyncio
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""Of what is not a body: the head of a request, its trailers, the frames of chunks. Where that begins or ends in the
middle of what one read brought, as much may come: at most `TLS_BUFFER_BYTES` by TLS in a bridge, else 256 KiB."""
FRAME_BYTES = 16
"""So much more of it may come with each byte of a body: whoever sends small chunks has a frame around each."""
MAX_HEADERS = 100
MAX_PIPELINED_REQUESTS = 4
"""Requests that wait for the answer to one before them; the connection ends after these where there are more."""
INVALID_HTTP = "not a valid HTTP/1.1 request of a known method, or its head is too long; send a valid one"
_VERSIONS = ("1.0", "1.1")


def receive_timeout_message(seconds: float) -> str:
    """Return why a request is refused that is not there after so long."""
    return f"the request was not there within {seconds:.0f} s; send it without pauses"


def check_head(version: str, hosts: int) -> None:
    """Raise `ValueError` where a head has another version of HTTP or does not say, once, whom it is for."""
    if version not in _VERSIONS or hosts > 1 or (version == "1.1" and not hosts):
        raise ValueError


def http_response(status: int, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    """Return the last answer on a connection; without its body, that to HEAD."""
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body if with_body else head.encode()


class TimedConnection(HttpToolsProtocol):
    """uvicorn's protocol. A request that is not there in time, is too long, or is not HTTP, is refused."""

    receive_seconds: float = 30.0
    """From the first byte of a request (or the opening of the connection) until all of it is there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._receive_timer: asyncio.TimerHandle | None = None
        self._in_head = self._in_body = False
        self._is_refused = False
        """Whether a request was refused. Nothing more is read: there is no end of it where the next could begin."""
        self._overhead_bytes = 0
        """Bytes of the request under way that are not its body: head, trailers, frames of chunks."""
        self._active_cycle = self.cycle
        """The request that is answered, or was last: uvicorn's `cycle` is the one that came last."""
        self._head_to_replay = b""
        """The head of a request that asks for another protocol, without that header: parsed again."""

    # What the loop calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._update_receive_timer()

    def data_received(self, data: bytes) -> None:
        """Take in bytes of a request."""
        if self._is_refused or self.transport.is_closing():
            return
        self._overhead_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse_invalid_http()
        else:
            is_incomplete = self._in_head or self._in_body
            if is_incomplete and self._overhead_bytes > MAX_HEAD_BYTES:  # gate: endless-request-head
                self._refuse_invalid_http()
        self._update_receive_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the receive timeout, and tell whoever answers a request."""
        self._cancel_receive_timer()
        if self._active_cycle is not None and not self._active_cycle.response_complete:
            self._active_cycle.disconnected = True
            self._active_cycle.message_event.set()
        super().connection_lost(exc)

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # The parser takes what follows for the other protocol; it is the body.
                data = self._head_to_replay + data[int(upgrade.args[0]) :]
            else:
                return

    # What the parser calls. An exception ends the parsing with an `HttpParserError`.

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:  # gate: most-pipelined
            raise ValueError
        self._in_head = True
        self._unset_keepalive_if_required()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header. Trailers are none: what they say was not there when the request began."""
        if not self._in_head:  # gate: trailers-are-no-headers
            return
        if len(self.headers) >= MAX_HEADERS:  # gate: most-headers
            raise ValueError
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Begin to answer, unless it has another version of HTTP or does not say whom it is for."""
        version = self.parser.get_http_version()
        hosts = sum(name == b"host" for name, _ in self.headers)
        check_head(version, hosts)
        if self.parser.should_upgrade():  # gate: no-other-protocol
            self._head_to_replay = self._head_without_upgrade(version)
            return
        if version == "1.0":
            # It would take an answer before the answer for the answer.
            self.expect_100_continue = False
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        if not self.pipeline:
            self._active_cycle = self.cycle

    def _head_without_upgrade(self, version: str) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise ValueError
        lines = [method + b" " + self.url + b" HTTP/" + version.encode()]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_body(self, body: bytes) -> None:
        """Take in a part of the body."""
        self._overhead_bytes = max(0, self._overhead_bytes - (1 + FRAME_BYTES) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take in that a request is there."""
        if self._in_head:
            # It asks for another protocol, and is sent again without that.
            return
        self._in_body = False
        self._overhead_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, which may have begun already."""
        if self.pipeline:
            self._active_cycle = self.pipeline[-1][0]
        super().on_response_complete()
        if self._in_head or self._in_body:
            # The connection does not rest: the time of the request under way counts.
            self._unset_keepalive_if_required()
        self._update_receive_timer()

    # Limits

    def _update_receive_timer(self) -> None:
        if not self._awaits_request():
            self._cancel_receive_timer()
        elif self._receive_timer is None:
            self._receive_timer = self.loop.call_later(self.receive_seconds, self._on_receive_timeout)

    def _awaits_request(self) -> bool:
        if self._is_refused or self.transport.is_closing():
            return False
        if self._in_head or self.pipeline:
            # While one before it is answered, nothing is read.
            return not self._is_answering()
        # Between two requests a connection may rest, before its first it may not.
        return self._in_body or self.cycle is None

    def _is_answering(self) -> bool:
        """Return whether the answer to a request is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _cancel_receive_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def _on_receive_timeout(self) -> None:
        self._receive_timer = None
        self._refuse(408, receive_timeout_message(self.receive_seconds))

    def _refuse_invalid_http(self) -> None:
        self._refuse(400, INVALID_HTTP)

    def refusal(self, status: int, message: str) -> tuple[str, bytes]:
        """Return content type and body of a refusal; a subclass answers as its routes do."""
        return "text/plain; charset=utf-8", f"{message}\n".encode()

    def _refuse(self, status: int, message: str) -> None:
        self._is_refused = True
        if self._in_body and self.pipeline:
            # It has not been begun, and never will be.
            self.pipeline.popleft()
            self.cycle, self._in_body = self.pipeline[0][0] if self.pipeline else self._active_cycle, False
        if self._is_answering() and not self._in_body:
            # Those before it get their answers, and the connection ends after the last.
            self.cycle.keep_alive = False
            return
        # An answer may be on its way already: then the connection only ends.
        if not self._in_body or not self.cycle.response_started:
            self.transport.write(http_response(status, *self.refusal(status, message)))
        if self._in_body:
            # There is no second answer to it.
            self.cycle.disconnected = True
        self.transport.close()
