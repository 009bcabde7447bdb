"""The HTTP side: reads calls, sends what the player made, breaks what a fault says. No scenario is understood here.

Beside the API: GET /_health, /_scenarios[/NAME], /_log[?scenario=NAME]; POST /_keys {"accept": [...]}, /_reset;
PUT /_scenarios/NAME with TOML.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import json
import secrets
import select
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .book import Book
from .player import Play, play
from .rules import MESSAGES, ApiError, check_headers, invalid
from .scenario import Fault, ScenarioError, parse
from .stream import error_event, events

Json = dict[str, Any]
GONE_AFTER_MS = 200
GATE_MS = 20


class ModelServer(ThreadingHTTPServer):
    """Answers each connection in a thread of its own."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], book: Book, max_request_bytes: int) -> None:
        self.book = book
        self.max_request_bytes = max_request_bytes
        self.stopping = threading.Event()
        self.to_reset: set[socket.socket] = set()
        super().__init__(address, Handler)

    def begin_stop(self) -> None:
        """Let `serve_forever` return; may be called from a signal handler in its thread."""
        self.stopping.set()
        threading.Thread(target=self.shutdown, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone; anything else is a defect here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection: with a reset where a fault wants one."""
        if request in self.to_reset:
            self.to_reset.discard(request)
            self.close_request(request)
        else:
            super().shutdown_request(request)


class _GoneError(Exception):
    """The client has closed the connection."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ModelServer
    entry: Json

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: the log is the book's."""

    def do_GET(self) -> None:
        """Answer about the server itself."""
        url = urlsplit(self.path)
        if url.path == "/_log":
            name = parse_qs(url.query).get("scenario", [None])[0]
            self._json(200, self.server.book.entries(name))
        elif url.path == "/_gates":
            self._json(200, self.server.book.waiting())
        elif url.path == "/_scenarios":
            self._json(200, self.server.book.names())
        elif url.path.startswith("/_scenarios/"):
            scenario = self.server.book.scenario(url.path.removeprefix("/_scenarios/"))
            self._json(200 if scenario else 404, asdict(scenario) if scenario else None)
        elif url.path == "/_health":
            self._json(200, {"status": "ok"})
        else:
            status = 405 if url.path == "/v1/messages" else 404
            self._json(status, ApiError(status).body(_new_id()))

    def do_PUT(self) -> None:
        """Take a scenario."""
        name = urlsplit(self.path).path.removeprefix("/_scenarios/")
        try:
            self.server.book.add(parse(name, self._read().decode()))
        except (ScenarioError, ValueError) as problem:
            self._json(400, invalid(str(problem)).body(_new_id()))
        else:
            self._json(200, {"scenario": name})

    def do_POST(self) -> None:
        """Answer a call of the API, or change the server."""
        url = urlsplit(self.path)
        if url.path == "/v1/messages":
            self._call(via_proxy=bool(url.netloc))
            return
        raw = self._read()
        if url.path == "/_keys":
            self.server.book.take_keys(json.loads(raw)["accept"])
            self._json(200, {"accepted": len(self.server.book.keys)})
        elif url.path.startswith("/_gates/"):
            self.server.book.open(url.path.removeprefix("/_gates/"))
            self._json(200, {})
        elif url.path == "/_reset":
            self.server.book.reset()
            self._json(200, {})
        else:
            self._json(404, ApiError(404).body(_new_id()))

    # The API

    def _call(self, *, via_proxy: bool) -> None:
        book = self.server.book
        key = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
        request_id = _new_id()
        self.entry = book.begin(
            request_id=request_id,
            via_proxy=via_proxy,
            key_sha256=hashlib.sha256(key.encode()).hexdigest() if key else None,
            headers={
                name.lower(): value
                for name, value in self.headers.items()
                if name.lower() not in ("x-api-key", "authorization")
            },
        )
        ended = "failed"
        try:
            ended = self._answer(request_id)
        except (_GoneError, ConnectionError):
            ended = "client-gone"
            self.close_connection = True
        finally:
            book.end(self.entry, ended)

    def _answer(self, request_id: str) -> str:
        book = self.server.book
        try:
            raw = self._read(self.server.max_request_bytes)
            body = _decoded(raw)
            book.note(self.entry, body=body)
            check_headers({name.lower(): value for name, value in self.headers.items()}, book.keys)
            if body is None:
                raise invalid("The request body is not valid JSON")
            playing = play(body, book, self.entry)
            while book.shut(self.entry["scenario"]):
                self._wait(GATE_MS)
        except ApiError as error:
            return self._refuse(error, request_id)
        fault = playing.fault
        if fault is None:
            return self._send(playing, Fault(), request_id)
        if fault.drop or fault.hang:
            if fault.hang:
                self._wait(None)
            return self._break("reset" if fault.drop else "close")
        if fault.raw is not None:
            return self._raw(fault, request_id)
        if fault.status is not None:
            headers = {}
            if fault.retry_after is not None:
                headers["retry-after"] = fault.retry_after
            if fault.retry_after_date is not None:
                headers["retry-after"] = email.utils.formatdate(time.time() + fault.retry_after_date, usegmt=True)
            return self._refuse(ApiError(fault.status, fault.message, fault.type, headers), request_id)
        return self._send(playing, fault, request_id)

    def _refuse(self, error: ApiError, request_id: str) -> str:
        self.server.book.note(self.entry, status=error.status)
        self._json(error.status, error.body(request_id), {"request-id": request_id, **error.headers})
        return "error"

    def _raw(self, fault: Fault, request_id: str) -> str:
        status = fault.status or 200
        self.server.book.note(self.entry, status=status)
        headers = {"content-type": fault.content_type, "request-id": request_id}
        self._whole(status, str(fault.raw).encode(), headers)
        return "raw"

    def _send(self, playing: Play, fault: Fault, request_id: str) -> str:
        self.server.book.note(self.entry, status=200)
        self._wait(playing.pace.first_ms)
        if playing.streamed:
            return self._stream(playing, fault, request_id)
        body = json.dumps(playing.message).encode()
        self._wait(playing.pace.delay_ms * (len(body) // playing.pace.chunk))
        if fault.error_event is not None:
            return self._refuse(ApiError(529, fault.message, fault.error_event), request_id)
        cut = fault.cut_after_bytes if fault.cut_after_bytes is not None else fault.cut_after_events
        if cut is None and fault.stall_after_events is None:
            self._whole(200, body, {"content-type": "application/json", "request-id": request_id})
            return "complete"
        self._head(
            200, {"content-type": "application/json", "content-length": str(len(body)), "request-id": request_id}
        )
        self.wfile.write(body[: len(body) // 2])
        if cut is None:
            self._wait(None)
        return self._break(fault.how if cut is not None else "close")

    def _stream(self, playing: Play, fault: Fault, request_id: str) -> str:
        self._head(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "transfer-encoding": "chunked",
                "request-id": request_id,
            },
        )
        size = 0
        for sent, event in enumerate(events(playing.message, playing.pace.chunk)):
            if event.paced:
                self._wait(playing.pace.delay_ms)
            if fault.cut_after_events == sent:
                return self._break(fault.how)
            if fault.stall_after_events == sent:
                self._wait(None)
                return self._break("close")
            if fault.error_event is not None and fault.after_events == sent:
                self._chunk(error_event(fault.error_event, fault.message or MESSAGES[529]).encoded())
                self._chunk(b"")
                return "error-event"
            data = event.encoded()
            if fault.cut_after_bytes is not None and size + len(data) > fault.cut_after_bytes:
                if fault.cut_after_bytes > size:
                    self._chunk(data[: fault.cut_after_bytes - size])
                return self._break(fault.how)
            self._chunk(data)
            size += len(data)
            self.server.book.note(self.entry, events=sent + 1)
        self._chunk(b"")
        return "complete"

    # Reading and writing

    def _read(self, most: int = 1 << 26) -> bytes:
        """Return the body; one that is too large is read to its end all the same, else the answer gets lost."""
        pieces: list[bytes] = []
        size = 0
        for piece in self._incoming():
            size += len(piece)
            if size <= most:
                pieces.append(piece)
        if size > most:
            raise ApiError(413)
        return b"".join(pieces)

    def _incoming(self) -> Any:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while length := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return
        remaining = int(self.headers.get("content-length") or 0)
        while remaining:
            piece = self.rfile.read(min(remaining, 1 << 20))
            if not piece:
                raise _GoneError
            remaining -= len(piece)
            yield piece

    def _wait(self, milliseconds: float | None) -> None:
        """Wait, with None for ever; a client that goes away meanwhile ends it."""
        end = None if milliseconds is None else time.monotonic() + milliseconds / 1000
        poll = select.poll()
        poll.register(self.connection, select.POLLIN | select.POLLRDHUP)
        while not self.server.stopping.is_set():
            remaining_ms = GONE_AFTER_MS if end is None else (end - time.monotonic()) * 1000
            if remaining_ms <= 0:
                return
            for _, event in poll.poll(min(remaining_ms, GONE_AFTER_MS)):
                if event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
                    raise _GoneError
                # More of the same connection: nothing to be reported until it is read.
                poll.modify(self.connection, select.POLLRDHUP)
        raise _GoneError

    def _json(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        self._whole(status, json.dumps(value).encode(), {"content-type": "application/json", **(headers or {})})

    def _whole(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, {**headers, "content-length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status, "Overloaded" if status == 529 else None)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _break(self, how: str) -> str:
        """End the connection before the answer has ended: in a good way, by closing it, or by a reset."""
        if how == "end":
            self._chunk(b"")
            return "ended-early"
        if how == "reset":
            with contextlib.suppress(OSError):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.server.to_reset.add(self.request)
        self.close_connection = True
        return "cut"


def _new_id() -> str:
    return f"req_{secrets.token_hex(12)}"


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
