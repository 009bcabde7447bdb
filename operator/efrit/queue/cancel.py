"""Ending a request before its time: taking back one that waits, ordering one that runs to stop.

Blocking functions for the disk thread.
"""

import contextlib
import errno
import os
from datetime import datetime

from efrit.protocol import RequestId, RequestReason, failure, request_file, response_file
from efrit.queue.archive import MAX_REQUEST_FILE
from efrit.queue.durable import Disk, publish, temporary_name
from efrit.queue.layout import Area, cancel_file, id_of_cancel_file, withdrawn_file
from efrit.queue.recover import CANCELLED_MESSAGE, finish_withdrawal
from efrit.queue.submit import VIA_BRIDGE, Submission, has_file


def withdraw(disk: Disk, rid: RequestId, name: str, now: datetime) -> bool:
    """Withdraw requests/`name` and answer it `Cancelled`. Return False if Emacs has claimed it."""
    withdrawn = withdrawn_file(rid)
    # An earlier try may have got as far as this.
    # gate: withdraw-rename
    if not disk.rename(Area.REQUESTS, name, Area.TMP, withdrawn) and disk.stat(Area.TMP, withdrawn) is None:
        return False
    try:
        finish_withdrawal(disk, rid, now)
    except OSError:
        if disk.stat_any(Area.RESPONSES, response_file(rid)) is None:
            # No answer came of it (a full volume): it waits again as if nobody had asked.
            disk.rename(Area.TMP, withdrawn, Area.REQUESTS, name)
        raise
    return True


def withdraw_in_place(disk: Disk, rid: RequestId, name: str, now: datetime) -> bool:
    """Withdraw requests/`name` and write the response `Cancelled` over it, for `finish_in_place`: needs no new file.

    Returns False if Emacs has claimed it. Raises `OSError`; then the request is pending as before.
    """
    withdrawn = withdrawn_file(rid)
    if not disk.rename(Area.REQUESTS, name, Area.TMP, withdrawn):
        return False
    answer = cancelled_answer(rid, now)
    stat = disk.stat(Area.TMP, withdrawn)
    try:
        # A file that has another name too is somebody's; one without blocks of its own would need some.
        if stat is None or stat.st_nlink != 1 or stat.st_blocks * _BLOCK_BYTES < len(answer):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        content = disk.read(Area.TMP, withdrawn, limit=MAX_REQUEST_FILE) or b""
        try:
            disk.overwrite(Area.TMP, withdrawn, answer)
        except OSError:
            disk.overwrite(Area.TMP, withdrawn, content)
            raise
    except OSError:
        disk.rename(Area.TMP, withdrawn, Area.REQUESTS, name)
        raise
    return True


def finish_in_place(disk: Disk, rid: RequestId) -> bool:
    """Publish a response that was written over its request. Return False if there is none. Safe to repeat."""
    withdrawn = withdrawn_file(rid)
    if disk.stat(Area.TMP, withdrawn) is None:
        return False
    with contextlib.suppress(FileExistsError):
        disk.link(Area.TMP, withdrawn, Area.RESPONSES, response_file(rid))
    disk.sync_dir(Area.RESPONSES)
    disk.remove(Area.TMP, withdrawn)
    disk.remove(Area.CONTROL, cancel_file(rid))
    return True


_BLOCK_BYTES = 512
"""What `st_blocks` counts."""


def decline(disk: Disk, item: Submission, now: datetime) -> bool:
    """Answer a request that does not exist yet with `Cancelled`; a later submission finds that response.

    Returns False if the request exists.
    """
    temporary = temporary_name()
    disk.sync_file(disk.create(Area.TMP, temporary, item.data))
    try:
        if _is_somewhere(disk, item.id):
            return False
        disk.link(Area.TMP, temporary, Area.TMP, withdrawn_file(item.id))  # gate: cancelled-before-it-came
    finally:
        disk.remove(Area.TMP, temporary)
    finish_withdrawal(disk, item.id, now)
    return True


def decline_without_request(disk: Disk, rid: RequestId, now: datetime) -> bool:
    """Do what `decline` does where there is room for the response only. Return False if the request exists."""
    if _is_somewhere(disk, rid):
        return False
    with contextlib.suppress(FileExistsError):
        publish(disk, Area.RESPONSES, response_file(rid), cancelled_answer(rid, now))
    disk.sync_dir(Area.RESPONSES)
    return True


def _is_somewhere(disk: Disk, rid: RequestId) -> bool:
    return has_file(disk, rid) or disk.stat_any(Area.REQUESTS, request_file(rid)) is not None


def cancelled_answer(rid: RequestId, now: datetime) -> bytes:
    """Return a response without a request beside it; the response itself says that it is not acknowledged yet."""
    answer = failure(rid, RequestReason.CANCELLED, CANCELLED_MESSAGE, timestamp=now)
    return answer.with_unknown(via=VIA_BRIDGE).to_json().encode()  # gate: bridge-mark


def order_stop(disk: Disk, rid: RequestId, reason: RequestReason) -> None:
    """Write control/cancel_<id>; the reason of the first order stays."""
    try:
        publish(disk, Area.CONTROL, cancel_file(rid), f"{reason}\n".encode())
    except FileExistsError:
        return
    disk.sync_dir(Area.CONTROL)  # gate: fsync-control


def orders(disk: Disk) -> dict[RequestId, RequestReason]:
    """Return the stop orders in control/."""
    reasons = {}
    for name in disk.names(Area.CONTROL):
        rid = id_of_cancel_file(name)
        data = None if rid is None else disk.read(Area.CONTROL, name, limit=64)
        if rid is not None and data is not None:
            timed_out = data.strip() == RequestReason.TIMED_OUT.value.encode()
            reasons[rid] = RequestReason.TIMED_OUT if timed_out else RequestReason.CANCELLED
    return reasons
