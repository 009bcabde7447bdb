"""One connection to an HTTP server of ours, each of whose requests has to be there within a limit of time.

Shared by the bridge and the MCP server. Knows nothing of what is asked for, and counts no connections.
"""

import asyncio
import contextlib
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedConnection(H11Protocol):
    """uvicorn's protocol, whose state is h11's; a request that is not there in time, or is not HTTP, is refused."""

    receive_seconds: float = 30.0
    """From the first byte of a request (or the opening of the connection) until all of it is there."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None

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
            self._deadline = self.loop.call_later(self.receive_seconds, self._too_slow)

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
        self._refuse(408, f"the request was not there within {self.receive_seconds:.0f} s; send it without pauses")

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP."""
        self._refuse(400, "not a valid HTTP/1.1 request, or its head is too long; send a valid one")

    def refusal(self, status: int, message: str) -> tuple[str, bytes]:
        """Return content type and body of a refusal; a subclass answers as its routes do."""
        return "text/plain; charset=utf-8", f"{message}\n".encode()

    def _refuse(self, status: int, message: str) -> None:
        content_type, body = self.refusal(status, message)
        head = [("content-type", content_type), ("content-length", str(len(body))), ("connection", "close")]
        # An answer may be on its way already: then the connection only ends.
        with contextlib.suppress(h11.LocalProtocolError):
            response = h11.Response(status_code=status, headers=head)
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
