"""Step 1 of the protocol: a request becomes a file in requests/, durably, or leaves no trace.

Blocking functions for the disk thread; the decisions (known id? room left?) are made in `efrit.queue.submissions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from efrit.errors import RequestConflict
from efrit.protocol import RequestId, request_file, response_file
from efrit.queue.durable import Disk, storage_error, temporary_name
from efrit.queue.layout import Area, withdrawn_file

if TYPE_CHECKING:
    from efrit.protocol import Request

VIA_BRIDGE = "bridge"
"""Value of the key `via` in a request that came through the bridge: its answer waits to be acknowledged."""


class IdTaken(RequestConflict):
    """The id already has a file somewhere; whether it is the same request is for the caller to find out."""


class Submission(Struct, frozen=True):
    """A request ready to be written: `data` is the whole file."""

    id: RequestId
    data: bytes


def submission(request: Request) -> Submission:
    """Return `request` as it is written to requests/, marked as ours."""
    marked = request.with_unknown(via=VIA_BRIDGE)
    return Submission(request.id, marked.to_json().encode())


def commit(disk: Disk, batch: Sequence[Submission]) -> list[Exception | None]:
    """Write all of `batch` with one directory sync; return one entry each: None, `IdTaken` or `StorageError`."""
    results: list[Exception | None] = [None] * len(batch)
    temporary = [temporary_name() for _ in batch]
    try:
        _write_all(disk, batch, temporary, results)
        for index, item in enumerate(batch):
            if results[index] is None:
                results[index] = _make_visible(disk, item, temporary[index])
    finally:
        for name in temporary:
            _discard(disk, name)
    _sync_names(disk, batch, results)
    return results


def _write_all(
    disk: Disk, batch: Sequence[Submission], temporary: list[str], results: list[Exception | None]
) -> None:
    opened: list[tuple[int, int]] = []
    for index, item in enumerate(batch):
        try:
            fd = disk.create(Area.TMP, temporary[index], item.data, hurry=len(batch) == 1)
        except OSError as error:
            results[index] = storage_error(error, f"write request {item.id}")
        else:
            opened.append((index, fd))
    for index, fd in opened:
        try:
            disk.sync_file(fd)  # gate: fsync-submitted
        except OSError as error:
            results[index] = storage_error(error, f"sync request {batch[index].id}")


def _make_visible(disk: Disk, item: Submission, temporary: str) -> Exception | None:
    try:
        if has_file(disk, item.id):  # gate: taken-id
            return IdTaken(f"request {item.id} exists already")
        disk.link(Area.TMP, temporary, Area.REQUESTS, request_file(item.id))
    except FileExistsError:
        return IdTaken(f"request {item.id} exists already")
    except OSError as error:
        return storage_error(error, f"submit request {item.id}")
    return None


def has_file(disk: Disk, rid: RequestId) -> bool:
    """Return whether the request has a file outside requests/ (which the link itself guards).

    That is a run, a response, or an archived or withdrawn request.
    """
    places = (
        (Area.PROCESSING, request_file(rid)),
        (Area.RESPONSES, response_file(rid)),
        (Area.ARCHIVE, request_file(rid)),
        (Area.ARCHIVE, response_file(rid)),
        (Area.TMP, withdrawn_file(rid)),
    )
    return any(disk.stat_any(area, name) is not None for area, name in places)


def _sync_names(disk: Disk, batch: Sequence[Submission], results: list[Exception | None]) -> None:
    if all(result is not None for result in results):
        return
    try:
        disk.sync_dir(Area.REQUESTS)  # gate: fsync-requests
    except OSError as error:
        for index, item in enumerate(batch):
            if results[index] is None:
                take_back(disk, item.id)  # gate: take-back
                results[index] = storage_error(error, f"sync requests/ for {item.id}")


def take_back(disk: Disk, rid: RequestId) -> bool:
    """Remove a request whose submission failed; return False if Emacs claimed it first and it runs after all."""
    temporary = temporary_name()
    try:
        # A rename, not an unlink: against a claim exactly one of the two finds the file.
        if not disk.rename(Area.REQUESTS, request_file(rid), Area.TMP, temporary):
            return False
    except OSError:
        return False
    _discard(disk, temporary)
    return True


def _discard(disk: Disk, temporary: str) -> None:
    try:
        disk.remove(Area.TMP, temporary)
    except OSError:
        # Only litter is left behind, and the next start sweeps it.
        return
