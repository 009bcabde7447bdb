"""Reads the events of a watch from the body of its answer: one JSON object a line."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from efrit.errors import ApiExpired
from efrit.kube.lines import lines_of
from efrit.kube.loop_yield import LoopYield
from efrit.kube.nested_json import decoded

MAX_LINE_BYTES = 16 << 20
"""Of one event. An object has 1.5 MiB in etcd at most; in JSON, some of its bytes become six, as in `\\u003c`."""
READ_BYTES = 1 << 16
"""That are taken from the transport at a time."""


async def read_events(response: aiohttp.ClientResponse) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Yield (ADDED | MODIFIED | DELETED, object) until the watch ends, and close its connection.

    It ends when its time is over, by an error event, by a broken connection or by a line that is longer than
    MAX_LINE_BYTES: to go on, list again.
    """
    with contextlib.suppress(ApiExpired):
        async with contextlib.aclosing(follow_events(response)) as events:
            async for kind, item in events:
                if kind != "BOOKMARK":
                    yield kind, item


async def follow_events(response: aiohttp.ClientResponse) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Yield (ADDED | MODIFIED | DELETED | BOOKMARK, object) as they come, until the connection ends, and close it.

    To go on, watch from the version of the last one. Raises ApiExpired where that is no use: an error event, which
    says that the version is too old or what the server could not do, or a line that is too long or no JSON.
    """
    loop_yield = LoopYield()
    try:
        async with contextlib.aclosing(lines_of(response.content.iter_chunked(READ_BYTES), MAX_LINE_BYTES)) as lines:
            async for line in lines:
                event = await decoded(line)
                if event.get("type") == "ERROR":
                    raise _watch_error(event.get("object"))
                yield event["type"], event["object"]
                await loop_yield.tick()
    except (aiohttp.ClientError, TimeoutError, OSError):
        return
    except ValueError as error:
        raise ApiExpired(f"an event of the watch cannot be read: {error!r}") from error
    finally:
        abandon(response)


def _watch_error(status: object) -> ApiExpired:
    """Return the error that an error event stands for, with the code of its Status."""
    code = status.get("code") if isinstance(status, dict) else None
    text = f"the watch was ended by the API server: {str(status)[:500]}"
    return ApiExpired(text, status=code if isinstance(code, int) else None)


def abandon(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that was not read to its end: an unread stream is of no use to the next call.

    At once, not after a farewell of TLS, for which nobody would wait: the program may end first.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
