"""Lines on stdin that are not JSON: JSON-RPC has an answer for them, which the SDK sends over HTTP alone."""

from __future__ import annotations

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import PARSE_ERROR, JSONRPCError
from pydantic import ValidationError


class JsonLines(ObjectReceiveStream[SessionMessage | Exception]):
    """What `mcp.server.stdio` reads, without lines that are not JSON: each is answered by an error without an id.

    An empty line gets no answer. What is JSON and no message goes on: it may be an answer, which gets none either.
    """

    def __init__(
        self, incoming: ObjectReceiveStream[SessionMessage | Exception], outgoing: ObjectSendStream[SessionMessage]
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or what was wrong with it."""
        while (problem := _parse_error(item := await self._incoming.receive())) is not None:
            error = types.ErrorData(code=PARSE_ERROR, message=problem)
            await self._outgoing.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
        return item

    async def aclose(self) -> None:
        """Close what is read."""
        await self._incoming.aclose()


def _parse_error(item: SessionMessage | Exception) -> str | None:
    """Return the problem of a line that is not JSON."""
    if not isinstance(item, ValidationError):
        return None
    details = item.errors(include_url=False, include_context=False)[0]
    if details["type"] != "json_invalid" or not str(details["input"]).strip():
        return None
    return f"Parse error: {details['msg']}"
