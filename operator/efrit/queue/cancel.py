"""Ending a request before its time: taking back one that waits, ordering one that runs to stop.

Blocking functions for the disk thread.
"""

from datetime import datetime

from efrit.protocol import Reason, RequestId, request_file, response_file
from efrit.queue.durable import Disk, publish, temporary_name
from efrit.queue.layout import Area, cancel_file, id_of_cancel_file, withdrawn_file
from efrit.queue.recover import finish_withdrawal
from efrit.queue.submit import Submission, has_file


def withdraw(disk: Disk, rid: RequestId, name: str, now: datetime) -> bool:
    """Takes requests/`name` back and answers it `Cancelled`. False if Emacs has claimed it."""
    if not disk.rename(Area.REQUESTS, name, Area.TMP, withdrawn_file(rid)):
        return False
    try:
        finish_withdrawal(disk, rid, now)
    except OSError:
        if disk.whatever_is(Area.RESPONSES, response_file(rid)) is None:
            # No answer came of it (a full volume): it waits again as if nobody had asked.
            disk.rename(Area.TMP, withdrawn_file(rid), Area.REQUESTS, name)
        raise
    return True


def decline(disk: Disk, item: Submission, now: datetime) -> bool:
    """Answers a request `Cancelled` that is nowhere yet; a submission that comes later finds it ended.

    False if it is somewhere.
    """
    temporary = temporary_name()
    disk.sync_file(disk.create(Area.TMP, temporary, item.data))
    try:
        if has_file(disk, item.id) or disk.whatever_is(Area.REQUESTS, request_file(item.id)) is not None:
            return False
        disk.link(Area.TMP, temporary, Area.TMP, withdrawn_file(item.id))
    finally:
        disk.remove(Area.TMP, temporary)
    finish_withdrawal(disk, item.id, now)
    return True


def order_stop(disk: Disk, rid: RequestId, reason: Reason) -> None:
    """Writes control/cancel_<id>; the reason of the first order stays."""
    try:
        publish(disk, Area.CONTROL, cancel_file(rid), f"{reason}\n".encode())
    except FileExistsError:
        return
    disk.sync_dir(Area.CONTROL)


def orders(disk: Disk) -> dict[RequestId, Reason]:
    """The orders to stop that lie in control/."""
    found = {}
    for name in disk.names(Area.CONTROL):
        rid = id_of_cancel_file(name)
        data = None if rid is None else disk.read(Area.CONTROL, name, limit=64)
        if rid is not None and data is not None:
            timed_out = data.strip() == Reason.TIMED_OUT.value.encode()
            found[rid] = Reason.TIMED_OUT if timed_out else Reason.CANCELLED
    return found
