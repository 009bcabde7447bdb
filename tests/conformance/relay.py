"""`python -m tests.conformance.relay PORT PROGRAM WORDS...`: HTTP in front of a program that speaks over stdio.

The conformance suite speaks HTTP alone. Each message goes to the program's stdin as it came, each line of its stdout
goes to the client as it is; of a message only `id`, `method` and the revision are looked at, to know which stream
waits for it, and of which program. A POST that names no session starts a program of its own, which ends when its
client stops listening. Messages that name their revision themselves (from 2026-07-28 on) belong to no session: all of
them go to one program.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

SESSION = "mcp-session-id"
REVISION = "io.modelcontextprotocol/protocolVersion"
LONGEST_LINE = 64 * 1024 * 1024
SECONDS_TO_END = 30

Lines = asyncio.Queue[bytes | None]
"""What goes out on one stream; None is its end."""


class Session:
    """One program, and the streams its client has open."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process
        self._calls: dict[str, Lines] = {}
        self._others: Lines = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def write(self, line: bytes) -> None:
        """Hand the program one message."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def call(self, name: str, line: bytes) -> AsyncIterator[bytes]:
        """Hand it a request; what it says until the answer, and the answer."""
        lines = self._calls[name] = asyncio.Queue()
        try:
            await self.write(line)
            while (message := await lines.get()) is not None:
                yield _event(message)
        finally:
            del self._calls[name]

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield what belongs to no call, as long as the client listens."""
        try:
            while (message := await self._others.get()) is not None:
                yield _event(message)
        finally:
            self.close()

    def close(self) -> None:
        """Close the program's stdin, at which it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def ended(self) -> None:
        """Wait until the program has ended; one that does not is killed, and that is an error."""
        try:
            await asyncio.wait_for(self._process.wait(), SECONDS_TO_END)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if "method" not in message and (waiting := self._calls.get(json.dumps(message.get("id")))) is not None:
                waiting.put_nowait(line)
                waiting.put_nowait(None)
            else:
                # Over stdio a message does not say to which call it belongs: to the latest, where there is one.
                next(reversed(self._calls.values()), self._others).put_nowait(line)
        for lines in (*self._calls.values(), self._others):
            lines.put_nowait(None)


def _event(line: bytes) -> bytes:
    return b"event: message\ndata: " + line.rstrip(b"\n") + b"\n\n"


class Relay:
    """The sessions there are."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._sessions: dict[str, Session] = {}
        self._sessionless: Session | None = None
        self._beginning = asyncio.Lock()

    async def post(self, request: Request) -> Response:
        """Answer a message from the client."""
        line = await request.body()
        if b"\n" in line:
            return PlainTextResponse("a message is one line here\n", 400)
        message = json.loads(line)
        session = await self._session_of(request, message)
        if session is None:
            return PlainTextResponse("no such session\n", 404)
        headers = {} if session is self._sessionless else {SESSION: session.name}
        if "method" in message and "id" in message:
            stream = session.call(json.dumps(message["id"]), line)
            return StreamingResponse(stream, headers=headers, media_type="text/event-stream")
        await session.write(line)
        return Response(status_code=202, headers=headers)

    async def get(self, request: Request) -> Response:
        """Answer with the stream of what belongs to no call."""
        session = self._sessions.get(request.headers.get(SESSION, ""))
        if session is None:
            return PlainTextResponse("no such session\n", 404)
        return StreamingResponse(session.listen(), headers={SESSION: session.name}, media_type="text/event-stream")

    async def _session_of(self, request: Request, message: Any) -> Session | None:
        if SESSION in request.headers:
            return self._sessions.get(request.headers[SESSION])
        if REVISION not in ((message.get("params") or {}).get("_meta") or {}):
            return await self._begun()
        async with self._beginning:
            self._sessionless = self._sessionless or await self._begun()
        return self._sessionless

    async def _begun(self) -> Session:
        process = await asyncio.create_subprocess_exec(*self._words, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE)
        session = Session(uuid4().hex, process)
        self._sessions[session.name] = session
        return session

    async def end(self) -> None:
        """End all programs."""
        for session in self._sessions.values():
            session.close()
        for session in self._sessions.values():
            await session.ended()


def make_relay(words: list[str]) -> Starlette:
    """Return the application in front of the program."""
    relay = Relay(words)

    async def alive(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await relay.end()

    routes = [
        Route("/healthz", alive),
        Route("/mcp", relay.post, methods=["POST"]),
        Route("/mcp", relay.get, methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    # A client that still listens is not waited for.
    uvicorn.run(make_relay(sys.argv[2:]), port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)
