"""kube/watch.py: which lines of a watch are events, and how it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from efrit.errors import ApiExpired
from efrit.kube.watch import follow_events, read_events

EVENTS = [{"type": "ADDED", "object": {"name": "größer"}}, {"type": "DELETED", "object": {"name": "b"}}]
BODY = b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in EVENTS)
SEEN = [(event["type"], event["object"]) for event in EVENTS]


class Response:
    """An answer whose body has these bytes, and then ends with `error` if there is one."""

    connection = None

    def __init__(self, body: bytes, error: Exception | None = None) -> None:
        self.content = self._lines(body, error)
        self.closed = False

    @staticmethod
    async def _lines(body: bytes, error: Exception | None) -> AsyncIterator[bytes]:
        for line in body.splitlines(keepends=True):
            yield line
        if error is not None:
            raise error

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
    "error", [aiohttp.ClientPayloadError("gone"), TimeoutError(), ConnectionResetError(), ValueError("Chunk too big")]
)
async def test_a_watch_ends_with_its_connection_and_with_a_line_that_is_too_long(error: Exception) -> None:
    response = Response(BODY, error)
    assert await events_of(response) == SEEN
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
