"""What the bridge puts right when it starts, before anybody learns that the queue is open.

Emacs recovers its own side (processing/, claimed requests) when it starts; see docs/queue.md.
Blocking functions for the disk thread.
"""

import os
import re
from datetime import datetime

from efrit.protocol import (
    RequestId,
    RequestReason,
    failure,
    id_of_request_file,
    id_of_response_file,
    request_file,
    response_file,
)
from efrit.queue.answers import write_answer
from efrit.queue.archive import MAX_REQUEST_FILE, is_ours
from efrit.queue.durable import Disk
from efrit.queue.layout import (
    BRIDGE_PREFIX,
    IDENTITY,
    Area,
    cancel_file,
    id_of_cancel_file,
    id_of_withdrawn_file,
    withdrawn_file,
)

_IDENTITY = re.compile(rb"[A-Za-z0-9-]{1,64}")
LOST_MESSAGE = "The answer to this request was lost in a crash; what the request did is unknown."
CANCELLED_MESSAGE = "The request was cancelled before it ran."


def identity(disk: Disk) -> str:
    """Return the queue's own id, made once: another id means another volume."""
    data = disk.read(Area.ROOT, IDENTITY, limit=4096) or b""
    for line in data.splitlines():
        if _IDENTITY.fullmatch(line):
            return line.decode()
    queue_id = os.urandom(16).hex()
    # Appended, not replaced: the lock is held on this very file. On a line of its own, whatever was there.
    disk.append(Area.ROOT, IDENTITY, f"\n{queue_id}\n".encode())
    disk.sync_dir(Area.ROOT)  # gate: fsync-identity
    return queue_id


def finish_withdrawal(disk: Disk, rid: RequestId, now: datetime) -> None:
    """Answer a withdrawn request `Cancelled` and archive it. Safe to repeat."""
    if disk.stat_any(Area.ARCHIVE, response_file(rid)) is None:
        write_answer(disk, failure(rid, RequestReason.CANCELLED, CANCELLED_MESSAGE, timestamp=now))
    disk.remove_non_file(Area.ARCHIVE, request_file(rid))
    disk.rename(Area.TMP, withdrawn_file(rid), Area.ARCHIVE, request_file(rid))
    disk.remove(Area.CONTROL, cancel_file(rid))


def recover(disk: Disk, now: datetime) -> int:
    """Finish interrupted withdrawals and delete half-written files; return how many were found."""
    count = 0
    for name in disk.names(Area.TMP):
        rid = id_of_withdrawn_file(name)
        if rid is not None and disk.stat(Area.TMP, name) is not None:
            finish_withdrawal(disk, rid, now)  # gate: finish-withdrawal
            count += 1
        elif name.startswith(BRIDGE_PREFIX):
            count += disk.remove(Area.TMP, name)
    count += _answer_unanswered_in_archive(disk, now)
    for name in disk.names(Area.CONTROL):
        rid = id_of_cancel_file(name)
        if rid is not None and not _is_open(disk, rid):
            count += disk.remove(Area.CONTROL, name)
    return count


def _answer_unanswered_in_archive(disk: Disk, now: datetime) -> int:
    """Answer archived requests without a response; return how many.

    Emacs archives a request after it has linked the response, but cannot sync either directory: a crash may keep the
    second step and lose the first.
    """
    answered = {id_of_response_file(name) for area in (Area.RESPONSES, Area.ARCHIVE) for name in disk.names(area)}
    count = 0
    for name in disk.names(Area.ARCHIVE):
        rid = id_of_request_file(name)
        # An answer that has no request beside it is of a bridge, too.
        if rid is None or request_file(rid) != name or rid in answered or _has_answer(disk, rid):
            continue
        if _is_elsewhere(disk, name):  # gate: archived-elsewhere
            continue
        data = disk.read(Area.ARCHIVE, name, limit=MAX_REQUEST_FILE)
        # Other clients may take their answers away; nothing was confirmed to them.
        if data is not None and is_ours(data):
            write_answer(disk, failure(rid, RequestReason.INTERRUPTED, LOST_MESSAGE, timestamp=now))
            count += 1
    return count


def _is_elsewhere(disk: Disk, name: str) -> bool:
    """Return whether an archived request waits or runs under another name, or is archived no more.

    On a queue that hosts share, each claim links the request into archive/ and takes the link back.
    """
    archived = disk.stat_any(Area.ARCHIVE, name)
    others = [disk.stat_any(area, name) for area in (Area.PROCESSING, Area.REQUESTS)]
    return archived is None or any(status is not None and os.path.samestat(archived, status) for status in others)


def _has_answer(disk: Disk, rid: RequestId) -> bool:
    return any(disk.stat_any(area, response_file(rid)) for area in (Area.RESPONSES, Area.ARCHIVE))


def _is_open(disk: Disk, rid: RequestId) -> bool:
    """Return whether the request is pending or claimed and has no response."""
    if disk.stat_any(Area.RESPONSES, response_file(rid)) is not None:
        return False
    return any(disk.stat(area, request_file(rid)) is not None for area in (Area.PROCESSING, Area.REQUESTS))
