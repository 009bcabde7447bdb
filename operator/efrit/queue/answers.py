"""Answers: reading those Emacs wrote, and writing the few that are ours to give.

Blocking functions for the disk thread.
"""

import hashlib
import stat

from msgspec import Struct

from efrit.errors import InvalidResponse
from efrit.protocol import RequestId, RequestReason, Response, failure, from_epoch, response_file
from efrit.queue.durable import Disk, publish
from efrit.queue.layout import Area

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""What we read of an answer file: the largest result, escaped and with its context, and room to spare."""


class Answer(Struct, frozen=True):
    """An answer file: the response, the size of the file in bytes and when it was written (epoch, ns)."""

    response: Response
    size: int
    written_ns: int


def read_answer(disk: Disk, area: Area, rid: RequestId) -> Answer | None:
    """Return the response to `rid` in `area`, or None. An unreadable one is returned as a failure, not hidden."""
    name = response_file(rid)
    info = disk.stat_any(area, name)
    if info is None:
        return None
    regular = stat.S_ISREG(info.st_mode)
    data = disk.read(area, name, limit=MAX_RESPONSE_BYTES + 1) if regular else b""
    if data is None:
        return None
    try:
        if not regular:
            # No other answer can take the name: the first one wins.
            raise InvalidResponse("it is not a regular file")
        if len(data) > MAX_RESPONSE_BYTES:
            raise InvalidResponse(f"it is longer than {MAX_RESPONSE_BYTES} bytes")
        response = Response.parse(data)
        if response.id != rid:  # gate: answer-id
            raise InvalidResponse(f"it answers {response.id}")
        _check_result(response)
    except InvalidResponse as error:
        message = f"The answer file {name} is not a response: {error}. What the request did is unknown."
        response = failure(rid, RequestReason.INTERRUPTED, message, timestamp=from_epoch(info.st_mtime_ns / 1e9))
    return Answer(response, info.st_size, info.st_mtime_ns)


def _check_result(response: Response) -> None:
    if response.result is None or response.sha256 is None or response.truncated or response.result_path is not None:
        return
    if hashlib.sha256(response.result.encode(errors="surrogatepass")).hexdigest() != response.sha256:
        raise InvalidResponse("its result does not match its sha256")


def write_answer(disk: Disk, response: Response) -> bool:
    """Write `response` into responses/, durably. Return False if there is a response already: the first one wins."""
    try:
        publish(disk, Area.RESPONSES, response_file(response.id), response.to_json().encode())
    except FileExistsError:
        written = False
    else:
        written = True
    disk.sync_dir(Area.RESPONSES)  # gate: fsync-own-answer
    return written
