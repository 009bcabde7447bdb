"""The port of the kubelet's probes: plain HTTP, one answer a connection.

An instance at rest is woken for little else than its probes. With uvicorn and asyncio's transports one takes three
times the processor time; here the loop calls for what can be accepted or read, and the answer is written at once.
Which heads are valid is decided as on the port of the calls (`efrit.timed_connection`).

Whoever reaches the port may open connections. Where there are many, the oldest of the address that has most makes
place for a new one, so that those that send nothing keep no probe out.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any

import httptools

from efrit.bridge import health
from efrit.connection_limit import OUT_OF_RESOURCES, OpenConnections
from efrit.protocol.view import ErrorBody
from efrit.timed_connection import INVALID_HTTP, MAX_HEADERS, check_head, http_response, receive_timeout_message

MAX_CONNECTIONS = 32
"""A probe opens one and ends it."""
ACCEPTED_AT_ONCE = 32
"""In one round of the loop; others have their turn before the next."""
BACKLOG = 2048
"""Connections that may wait to be accepted, as on the port of the calls."""
MAX_HEAD_BYTES = 8 * 1024
"""The head of a probe of the kubelet has 150; nothing behind a head is read."""
RECEIVE_SECONDS = 5.0
"""From the opening of a connection until the head of its request is there."""
_METHODS = (b"GET", b"HEAD")
_ACCEPT_AGAIN_SECONDS = 1.0

Problems = Callable[[], list[str]]
"""What is asked for a path: the problems that speak against its yes."""


class ProbeServer:
    """Answers probes while `serve` runs."""

    def __init__(self, paths: Mapping[bytes, Problems], receive_seconds: float = RECEIVE_SECONDS) -> None:
        self.paths = paths
        self.receive_seconds = receive_seconds
        self.connections: OpenConnections[_Connection] = OpenConnections(MAX_CONNECTIONS)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End `serve`."""
        self._stop.set()

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Answer on these until `stop`, then close them and what is open."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            listening.setblocking(False)
            listening.listen(BACKLOG)
            loop.add_reader(listening, self._accept, listening)
        try:
            await self._stop.wait()
        finally:
            for listening in sockets:
                loop.remove_reader(listening)
                listening.close()
            for connection in list(self.connections):
                connection.close()

    def _accept(self, listening: socket.socket) -> None:
        """Accept what waits, some of it at a time: others have their turn before the next."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                opened, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:  # gate: accept-later
                    self._accept_later(listening)
                    return
                # Otherwise it was closed before it was accepted.
                continue
            self._accepted(opened, peer)

    def _accepted(self, opened: socket.socket, peer: tuple[Any, ...]) -> None:
        opened.setblocking(False)
        connection = _Connection(self, opened)
        other = self.connections.add(connection, peer)
        if other is not None:
            other.close()
        connection.read()

    def _accept_later(self, listening: socket.socket) -> None:
        """Pause: until something is closed, the loop would do nothing but ask."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_ACCEPT_AGAIN_SECONDS, self._accept_again, listening)

    def _accept_again(self, listening: socket.socket) -> None:
        if not self._stop.is_set():
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)


class _Connection:
    """One connection, closed with its answer."""

    def __init__(self, server: ProbeServer, opened: socket.socket) -> None:
        self._server = server
        self._socket = opened
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers = self._hosts = self._received = 0
        self._method = b""
        """Of a request whose head is there."""
        self._receive_timer: asyncio.TimerHandle | None = None

    # What the loop calls

    def read(self) -> None:
        """Take in what has come; answer, and close, once the head of a request is there or cannot be one."""
        ends = True
        try:
            ends = self._receive()
        finally:
            if ends:
                self.close()

    def _on_receive_timeout(self) -> None:
        self._refuse(408, receive_timeout_message(self._server.receive_seconds))
        self.close()

    def close(self) -> None:
        """End it, once."""
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            asyncio.get_running_loop().remove_reader(self._socket)
            self._receive_timer = None
        self._server.connections.remove(self)
        self._socket.close()

    def _receive(self) -> bool:
        """Return whether the connection has had its answer, or gets none."""
        try:
            data = self._socket.recv(MAX_HEAD_BYTES)
        except (BlockingIOError, InterruptedError):
            self._wait()
            return False
        except OSError:
            return True
        if not data:
            return True
        self._received += len(data)
        is_http = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            is_http = False
        if self._method:
            # What follows a head, HTTP or not, makes it no other.
            self._answer()
        elif not is_http or self._received >= MAX_HEAD_BYTES:  # gate: endless-probe-head
            self._refuse(400, INVALID_HTTP)
        else:
            self._wait()
            return False
        return True

    def _wait(self) -> None:
        if self._receive_timer is None:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._socket, self.read)
            self._receive_timer = loop.call_later(self._server.receive_seconds, self._on_receive_timeout)

    # What the parser calls. An exception ends the parsing with an `HttpParserError`.

    def on_url(self, url: bytes) -> None:
        """Take in a part of the path."""
        if self._method:
            # A second request, in what was read with the first.
            raise ValueError
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        if self._headers >= MAX_HEADERS:  # gate: most-probe-headers
            raise ValueError
        self._headers += 1
        self._hosts += name.lower() == b"host"

    def on_headers_complete(self) -> None:
        """Take in that the head is there."""
        check_head(self._parser.get_http_version(), self._hosts)
        self._method = self._parser.get_method()

    # Answers

    def _answer(self) -> None:
        problems = self._server.paths.get(self._url.partition(b"?")[0])
        if problems is None:
            answer = _error(
                404, "NotFound", "only /healthz and /readyz are here: all else is on the port of the calls"
            )
        elif self._method not in _METHODS:
            answer = _error(405, "MethodNotAllowed", "only GET and HEAD are for this path")
        else:
            answer = health.verdict(problems())
        self._send(http_response(*answer, with_body=self._method != b"HEAD"))

    def _refuse(self, status: int, message: str) -> None:
        self._send(http_response(*_error(status, "Invalid", message)))

    def _send(self, data: bytes) -> None:
        # It is shorter than what the kernel keeps for a connection that has sent nothing yet.
        with contextlib.suppress(OSError):
            self._socket.send(data)


def _error(status: int, code: str, message: str) -> tuple[int, str, bytes]:
    return status, "application/json", ErrorBody.of(code, message).to_json().encode()
