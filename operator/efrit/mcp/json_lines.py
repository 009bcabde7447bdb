"""Lines on stdin that are no message: JSON-RPC has an answer for them, which the SDK sends over HTTP alone."""

from __future__ import annotations

from typing import Any

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import INVALID_REQUEST, PARSE_ERROR, JSONRPCError
from pydantic import ValidationError


class JsonLines(ObjectReceiveStream[SessionMessage | Exception]):
    """What `mcp.server.stdio` reads, without what is not JSON and requests that cannot be read: those are answered.

    An empty line gets no answer. What else is no message goes on: it may be an answer, which gets none either.
    """

    def __init__(
        self, incoming: ObjectReceiveStream[SessionMessage | Exception], outgoing: ObjectSendStream[SessionMessage]
    ) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or what was wrong with it."""
        while (error := _error(item := await self._incoming.receive())) is not None:
            await self._outgoing.send(SessionMessage(error))
        return item

    async def aclose(self) -> None:
        """Close what is read."""
        await self._incoming.aclose()


def _error(item: SessionMessage | Exception) -> JSONRPCError | None:
    """Return the answer to a line that is not JSON, or that has a request which cannot be read as one."""
    if not isinstance(item, ValidationError):
        return None
    problems = item.errors(include_url=False, include_context=False)
    first = problems[0]
    if first["type"] == "json_invalid":
        return _answer(PARSE_ERROR, f"Parse error: {first['msg']}") if str(first["input"]).strip() else None
    # The line itself is the input of what is missing in it, and of what is no object.
    lines = [problem["input"] for problem in problems if len(problem["loc"]) == 1 or _is_missing_member(problem)]
    line: Any = lines[0] if lines else None
    if isinstance(line, list) and any(map(_is_request, line)):
        return _answer(INVALID_REQUEST, "Invalid request: send one message per line, without a list around it")
    if not _is_request(line):
        return None
    member = ".".join(str(part) for part in first["loc"][1:])
    return _answer(INVALID_REQUEST, f"Invalid request: {member}: {first['msg']}", line["id"])


def _is_missing_member(problem: Any) -> bool:
    return problem["type"] == "missing" and len(problem["loc"]) == 2


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and "method" in value and "id" in value


def _answer(code: int, message: str, request_id: Any = None) -> JSONRPCError:
    known = request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None
    return JSONRPCError(jsonrpc="2.0", id=known, error=types.ErrorData(code=code, message=message))
