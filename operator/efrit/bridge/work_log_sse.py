"""The work log of one request as a stream of server-sent events: its lines as they are appended, then `end`.

The id of an event is the offset behind its line, so that a reader that was cut off goes on where it was, in
archive/ too. No HTTP here.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from efrit.bridge.events import KEEPALIVE_SECONDS
from efrit.errors import EfritError, RequestNotFound
from efrit.protocol import RequestId
from efrit.protocol.events import LogEnd
from efrit.queue.queue import DurableQueue

log = logging.getLogger(__name__)

# inotify is a hint: a line of which it said nothing is found by then.
_POLL_SECONDS = 1.0


def offset_in(last_event_id: str | None) -> int:
    """Return the offset a reader has come to; 0 for none, and for what is not an offset."""
    text = last_event_id or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


async def work_log_events(
    queue: DurableQueue, rid: RequestId, last_event_id: str | None, *, closed: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """Yield the bytes of one reader's stream, until the request is over and its log is sent, or until `closed`."""
    try:
        async with contextlib.aclosing(_events(queue, rid, offset_in(last_event_id), closed)) as parts:
            async for part in parts:
                yield part
    except EfritError as error:
        # Too late for a status; the reader comes back with the id of its last line.
        log.warning("%s", error)


async def _events(
    queue: DurableQueue, rid: RequestId, offset: int, closed: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    offset = await queue.work_logs.resume_offset(rid, offset)
    last_sent = time.monotonic()
    while not closed():
        # Both before the read: a later line sets the event, and a finished log grows no more.
        changed, over = queue.work_logs.change_event(rid), _is_over(queue, rid)
        lines, behind = await queue.work_logs.lines(rid, offset)
        moved, offset = behind != offset, behind
        if lines:
            last_sent = time.monotonic()
            yield b"".join(_event(line.end, line.text) for line in lines)
        elif moved:
            continue
        elif over:
            yield b"event: end\ndata: " + (await _end(queue, rid)).to_json().encode() + b"\n\n"
            return
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await changed.wait()
            if time.monotonic() - last_sent >= KEEPALIVE_SECONDS:
                last_sent = time.monotonic()
                yield b": keepalive\n\n"


def _event(end: int, line: bytes) -> bytes:
    # Somebody else may have written it: nothing but a newline may end a line of the stream.
    text = line.decode("utf-8", "replace").replace("\r", " ")
    return f"id: {end}\ndata: {text}\n\n".encode()


def _is_over(queue: DurableQueue, rid: RequestId) -> bool:
    entry = queue.index.get(rid)
    return entry is None or entry.state.final


async def _end(queue: DurableQueue, rid: RequestId) -> LogEnd:
    try:
        response = (await queue.view(rid)).response
    except RequestNotFound:
        response = None
    return LogEnd(
        id=rid,
        reason=None if response is None else response.reason,
        outcome=None if response is None else response.outcome,
    )
