"""One connection to the bridge, within limits of number and time: whoever reaches the port may open any.

Answers what is no HTTP with JSON, as the routes do for what is. Knows nothing of what is asked for.
"""

import asyncio
import contextlib
import gc
import time
import weakref
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from efrit.protocol import ErrorBody, ErrorDetail

MOST_CONNECTIONS = 160
"""Each takes a quarter of a megabyte for TLS, from before its first byte. A controller opens nine."""
RECEIVE_SECONDS = 30.0
"""From the first byte of a request (or the opening of the connection) until all of it is there."""

# Those that have not finished their handshake included: such a one is never told that it is lost.
_alive: weakref.WeakSet["Connection"] = weakref.WeakSet()
_collected = 0.0


def _still_too_many() -> bool:
    """Count again, at most once a second, without what only garbage holds: a failed handshake leaves a cycle."""
    global _collected
    if time.monotonic() - _collected > 1:
        gc.collect()
        _collected = time.monotonic()
    return len(_alive) >= MOST_CONNECTIONS


class Connection(H11Protocol):
    """uvicorn's protocol; its state is h11's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(_alive) >= MOST_CONNECTIONS and _still_too_many():
            # Before TLS there is nobody to be told: asyncio drops the connection.
            raise ConnectionRefusedError("too many connections")
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        _alive.add(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch_the_time()

    def data_received(self, data: bytes) -> None:
        """Take in bytes of a request."""
        super().data_received(data)
        self._watch_the_time()

    def on_response_complete(self) -> None:
        """Go on with the next request, which may have begun already."""
        super().on_response_complete()
        self._watch_the_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_the_clock()
        super().connection_lost(exc)

    def _watch_the_time(self) -> None:
        if self._request_is_whole():
            self._stop_the_clock()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(RECEIVE_SECONDS, self._too_slow)

    def _request_is_whole(self) -> bool:
        if self.transport.is_closing():
            return True
        if self.conn.their_state is h11.IDLE:
            # Between two requests a connection may rest, before its first it may not.
            return self.cycle is not None and not self.conn.trailing_data[0]
        return self.conn.their_state is not h11.SEND_BODY

    def _stop_the_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._refuse(408, f"the request was not there within {RECEIVE_SECONDS:.0f} s; send it without pauses")

    def send_400_response(self, msg: str) -> None:
        """Say that this was no HTTP."""
        self._refuse(400, "this is no HTTP/1.1 request, or its head is too long; send one that is")

    def _refuse(self, status: int, message: str) -> None:
        body = ErrorBody(error=ErrorDetail(code="Invalid", message=message)).to_json().encode()
        head = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        # An answer may be on its way already: then the connection only ends.
        with contextlib.suppress(h11.LocalProtocolError):
            response = h11.Response(status_code=status, headers=head)
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
