"""kube/watch.py: which lines of a watch are events, and how it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from efrit.errors import ApiExpired
from efrit.kube.watch import MAX_LINE_BYTES, follow_events, read_events

EVENTS = [{"type": "ADDED", "object": {"name": "größer"}}, {"type": "DELETED", "object": {"name": "b"}}]
BODY = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in EVENTS)
SEEN = [(event["type"], event["object"]) for event in EVENTS]


class Body:
    """The body of an answer, which comes in these parts and then ends with `error` if there is one."""

    def __init__(self, parts: Sequence[bytes], error: Exception | None) -> None:
        self._parts = parts
        self._error = error

    async def iter_chunked(self, _most: int) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part
        if self._error is not None:
            raise self._error


class Response:
    """An answer whose body has these bytes, in parts of this length."""

    connection = None

    def __init__(self, body: bytes, error: Exception | None = None, length: int = 1 << 16) -> None:
        parts = [body[begin : begin + length] for begin in range(0, len(body), length)]
        self.content = Body(parts, error)
        self.closed = False

    def close(self) -> None:
        self.closed = True


async def events_of(response: Response) -> list[tuple[str, dict[str, Any]]]:
    return [event async for event in read_events(cast("aiohttp.ClientResponse", response))]


@pytest.mark.parametrize("end", [b'{"type":"ERROR","object":{"code":410}}\n', b"half a li\n"])
async def test_a_watch_ends_with_an_error_event_and_with_what_cannot_be_read(end: bytes) -> None:
    response = Response(BODY + end + BODY)
    assert await events_of(response) == SEEN
    assert response.closed


@pytest.mark.parametrize(
    ("status", "code"),
    [({"code": 410}, 410), ({"code": 500, "message": "?"}, 500), ({"code": "410"}, None), (None, None)],
)
async def test_an_error_event_carries_the_code_of_its_status(status: object, code: int | None) -> None:
    body = json.dumps({"type": "ERROR", "object": status}).encode()
    with pytest.raises(ApiExpired) as caught:
        async for _ in follow_events(cast("aiohttp.ClientResponse", Response(body))):
            pass
    assert caught.value.status == code


@pytest.mark.parametrize(
    "error", [aiohttp.ClientPayloadError("gone"), TimeoutError(), ConnectionResetError(), ValueError("not chunked")]
)
async def test_a_watch_ends_with_its_connection(error: Exception) -> None:
    response = Response(BODY, error)
    assert await events_of(response) == SEEN
    assert response.closed


@pytest.mark.parametrize("length", [1, 7, len(BODY) - 1, len(BODY)])
@pytest.mark.parametrize("end", [b"\n", b""])
async def test_the_events_of_a_watch_are_the_same_in_whatever_parts_its_body_comes(length: int, end: bytes) -> None:
    assert await events_of(Response(BODY.rstrip(b"\n") + end, length=length)) == SEEN


async def _answer_with_a_large_object(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    # As the API server writes `<`.
    await response.write(b'{"type":"MODIFIED","object":{"value":"' + b"\\u003c" * (3 << 19) + b'"}}\n')
    await response.write(BODY)
    return response


async def test_an_object_as_large_as_etcd_takes_it_ends_no_watch() -> None:
    application = web.Application()
    application.add_routes([web.get("/", _answer_with_a_large_object)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session:
            seen = [event async for event in read_events(await session.get(f"http://{host}:{port}/"))]
    finally:
        await runner.cleanup()

    assert seen == [("MODIFIED", {"value": "<" * (3 << 19)}), *SEEN]


async def test_a_watch_ends_with_a_line_that_is_too_long() -> None:
    response = Response(BODY + b" " * (MAX_LINE_BYTES + 1))
    with pytest.raises(ApiExpired, match="a line of more than"):
        _ = [event async for event in follow_events(cast("aiohttp.ClientResponse", response))]
    assert response.closed


async def test_a_bookmark_is_no_event() -> None:
    assert await events_of(Response(b'{"type":"BOOKMARK","object":{}}\n' + BODY)) == SEEN


async def test_a_watch_that_is_followed_yields_its_bookmarks_and_ends_with_its_connection() -> None:
    response = Response(b'{"type":"BOOKMARK","object":{}}\n' + BODY, ConnectionResetError())
    followed = [event async for event in follow_events(cast("aiohttp.ClientResponse", response))]

    assert followed == [("BOOKMARK", {}), *SEEN]
    assert response.closed


@pytest.mark.parametrize("end", [b'{"type":"ERROR","object":{"code":410}}\n', b"half a li\n"])
async def test_a_watch_that_cannot_go_on_is_distinguished_from_a_broken_connection(end: bytes) -> None:
    response = Response(BODY + end)

    with pytest.raises(ApiExpired):
        _ = [event async for event in follow_events(cast("aiohttp.ClientResponse", response))]
    assert response.closed
