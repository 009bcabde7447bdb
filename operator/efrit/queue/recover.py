"""What the bridge puts right when it starts, before anybody is told that the queue is open.

Emacs recovers its own side (processing/, claimed requests) when it starts; see docs/queue.md.
Blocking functions for the disk thread.
"""

import re
import secrets
from datetime import datetime

from efrit.protocol import Reason, RequestId, failure, request_file, response_file
from efrit.queue.answers import write_answer
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
CANCELLED_MESSAGE = "The request was cancelled before it ran."


def identity(disk: Disk) -> str:
    """The queue's own id, made once: another one means another volume."""
    data = disk.read(Area.ROOT, IDENTITY, limit=4096) or b""
    for line in data.splitlines():
        if _IDENTITY.fullmatch(line):
            return line.decode()
    made = secrets.token_hex(16)
    # Appended, not replaced: the lock is held on this very file. On a line of its own, whatever was there.
    disk.append(Area.ROOT, IDENTITY, f"\n{made}\n".encode())
    disk.sync_dir(Area.ROOT)
    return made


def finish_withdrawal(disk: Disk, rid: RequestId, now: datetime) -> None:
    """Answers a withdrawn request `Cancelled` and archives it. Safe to repeat."""
    if disk.whatever_is(Area.ARCHIVE, response_file(rid)) is None:
        write_answer(disk, failure(rid, Reason.CANCELLED, CANCELLED_MESSAGE, timestamp=now))
    disk.make_way(Area.ARCHIVE, request_file(rid))
    disk.rename(Area.TMP, withdrawn_file(rid), Area.ARCHIVE, request_file(rid))
    disk.remove(Area.CONTROL, cancel_file(rid))


def recover(disk: Disk, now: datetime) -> int:
    """Finishes withdrawals cut short and sweeps half-written files; returns how many it found."""
    found = 0
    for name in disk.names(Area.TMP):
        rid = id_of_withdrawn_file(name)
        if rid is not None and disk.stat(Area.TMP, name) is not None:
            finish_withdrawal(disk, rid, now)
            found += 1
        elif name.startswith(BRIDGE_PREFIX):
            found += disk.remove(Area.TMP, name)
    for name in disk.names(Area.CONTROL):
        rid = id_of_cancel_file(name)
        if rid is not None and not _is_open(disk, rid):
            found += disk.remove(Area.CONTROL, name)
    return found


def _is_open(disk: Disk, rid: RequestId) -> bool:
    """Waiting or claimed, and without an answer."""
    if disk.whatever_is(Area.RESPONSES, response_file(rid)) is not None:
        return False
    return any(disk.stat(area, request_file(rid)) is not None for area in (Area.PROCESSING, Area.REQUESTS))
