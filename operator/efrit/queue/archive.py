"""After the answer: acknowledged pairs move to archive/ and leave it when they are old enough.

The archive is never listed to answer a question, only looked up by name; the sweep is the one reader of
the whole of it. Blocking functions for the disk thread.
"""

import contextlib
import json
import math
import stat
from collections.abc import Callable, Sequence

from msgspec import Struct

from efrit.entry_point import load_entry_point
from efrit.protocol import (
    RequestId,
    id_of_request_file,
    id_of_response_file,
    id_of_session_file,
    request_file,
    response_file,
)
from efrit.protocol.json_limits import exceeds_part_limit
from efrit.queue.answers import read_answer
from efrit.queue.durable import Disk, publish
from efrit.queue.layout import (
    ASIDE_PREFIX,
    Area,
    cancel_file,
    id_of_progress_file,
    log_file,
    progress_file,
    withdrawn_file,
)
from efrit.queue.submit import VIA_BRIDGE


def acknowledge(disk: Disk, rid: RequestId) -> bool:
    """Move the response, and what is left of the request, to archive/. Return False if there is no response.

    Not synced: a crash that loses the move shows the response once more, and acknowledging is idempotent.
    """
    name = response_file(rid)
    disk.remove_non_file(Area.ARCHIVE, name)
    _replace_non_file(disk, rid)
    if not disk.rename(Area.RESPONSES, name, Area.ARCHIVE, name) and disk.stat(Area.ARCHIVE, name) is None:
        return False
    name = request_file(rid)
    disk.remove_non_file(Area.ARCHIVE, name)
    # Whoever answers archives the request itself; this is for one that died, or failed, between the two.
    for area, leftover in ((Area.PROCESSING, name), (Area.REQUESTS, name), (Area.TMP, withdrawn_file(rid))):
        if disk.stat(area, leftover) is not None and disk.rename(area, leftover, Area.ARCHIVE, name):
            break
    remove_traces(disk, rid)
    return True


def _replace_non_file(disk: Disk, rid: RequestId) -> None:
    """Archive the report of a response that is not a regular file: the id must not be free for another run."""
    name = response_file(rid)
    info = disk.stat_any(Area.RESPONSES, name)
    if info is None or stat.S_ISREG(info.st_mode):
        return
    answer = read_answer(disk, Area.RESPONSES, rid)
    if answer is not None:
        with contextlib.suppress(FileExistsError):
            publish(disk, Area.ARCHIVE, name, answer.response.to_json().encode())
        disk.remove_non_file(Area.RESPONSES, name)


def remove_traces(disk: Disk, rid: RequestId) -> None:
    """Remove the stop order of a finished run, and archive its work log."""
    disk.remove(Area.CONTROL, cancel_file(rid))
    name = progress_file(rid)
    info = disk.stat_any(Area.PROGRESS, name)
    if info is None:
        return
    if stat.S_ISREG(info.st_mode):
        disk.remove_non_file(Area.ARCHIVE, log_file(rid))
        disk.rename(Area.PROGRESS, name, Area.ARCHIVE, log_file(rid))
    else:
        disk.remove(Area.PROGRESS, name)


_STEPS_OF_SWEEP = 20_000
"""Files and directories that a sweep removes at most of what was put aside: a fraction of a second."""


class Swept(Struct, frozen=True):
    """What one sweep did: ids retired from responses/ to archive/, and how many files it deleted."""

    retired: tuple[RequestId, ...]
    deleted: int


class Sessions(Struct, frozen=True):
    """Which sessions are not swept: those that open requests continue, and all touched since `since` (epoch seconds),
    when the first of the chats and commands under way came. Which one of them a new session belongs to, its id does
    not tell."""

    continued: frozenset[str] = frozenset()
    since: float = math.inf


def sweep(
    disk: Disk, *, before: float, is_live: Callable[[RequestId], bool], sessions: Sessions | None = None
) -> Swept:
    """Do what `tidy` does, and delete old pairs from the archive and what was put aside, where no index does.

    `before` is an epoch time in seconds.
    """
    swept = tidy(disk, before=before, is_live=is_live, sessions=sessions)
    delete_put_aside = load_entry_point("efrit.queue.put_aside:delete_put_aside")
    delete_put_aside(disk, before, tuple(Area), steps=_STEPS_OF_SWEEP)
    return Swept(swept.retired, swept.deleted + _empty_archive(disk, before, is_live))


def tidy(
    disk: Disk,
    *,
    before: float,
    is_live: Callable[[RequestId], bool],
    sessions: Sessions | None = None,
    ours: set[RequestId] | None = None,
) -> Swept:
    """Archive old responses of foreign clients, and delete sessions and work logs that nothing uses.

    `before` is an epoch time in seconds. Responses to requests that came through the bridge stay in
    responses/ until they are acknowledged, however long the controller is away; `ours` remembers which these are.
    """
    ours = set() if ours is None else ours
    present = {rid: name for name in disk.names(Area.RESPONSES) if (rid := id_of_response_file(name)) is not None}
    ours.intersection_update(present)
    retired = []
    for rid, name in present.items():
        if rid in ours or not _older(disk, Area.RESPONSES, name, before):
            continue
        if _came_through_bridge(disk, rid):
            ours.add(rid)
        elif acknowledge(disk, rid):
            retired.append(rid)
    deleted = _forget_sessions(disk, before, sessions or Sessions()) + _forget_logs(disk, before, is_live)
    return Swept(tuple(retired), deleted)


def _forget_sessions(disk: Disk, before: float, sessions: Sessions) -> int:
    before = min(before, sessions.since)  # gate: sessions-under-way
    deleted = 0
    for name in disk.names(Area.SESSIONS):
        # gate: continued-sessions
        if id_of_session_file(name) not in sessions.continued and _older(disk, Area.SESSIONS, name, before):
            deleted += disk.remove(Area.SESSIONS, name)
    return deleted


def prune_sessions(
    disk: Disk, *, before: float, limit: int, sessions: Sessions, is_known: Callable[[RequestId], bool]
) -> int:
    """Delete the `limit` sessions that were left alone longest, of those not touched since `before`; return how many.

    `before` is an epoch time in seconds. None is deleted while there is a request that `is_known` does not know, in
    requests/ or processing/: it may continue any of them.
    """
    for area in (Area.REQUESTS, Area.PROCESSING):
        for name in disk.names(area):
            if name.endswith(".json") and ((rid := id_of_request_file(name)) is None or not is_known(rid)):
                return 0  # gate: sessions-of-unknown
    bound = min(before, sessions.since)
    sessions_found = []
    for name in disk.names(Area.SESSIONS):
        status = disk.stat_any(Area.SESSIONS, name)
        if status is None or id_of_session_file(name) in sessions.continued:
            continue
        changed = max(status.st_ctime, status.st_mtime)
        if changed < bound:
            sessions_found.append((changed, name))
    return sum(disk.remove(Area.SESSIONS, name) for _, name in sorted(sessions_found)[:limit])


def _forget_logs(disk: Disk, before: float, is_live: Callable[[RequestId], bool]) -> int:
    """Delete work logs that a crash between two steps of an acknowledgement has left."""
    deleted = 0
    for name in disk.names(Area.PROGRESS):
        rid = id_of_progress_file(name)
        if (rid is None or not is_live(rid)) and _older(disk, Area.PROGRESS, name, before):
            deleted += disk.remove(Area.PROGRESS, name)
    return deleted


def _empty_archive(disk: Disk, before: float, is_live: Callable[[RequestId], bool]) -> int:
    """Delete what is old enough, requests before responses: a request without its response looks unanswered."""
    old = []
    for name in disk.names(Area.ARCHIVE):
        rid = id_of_response_file(name) or id_of_request_file(name)
        # The request of an answer still in responses/ says whether a resubmission is the same one.
        if rid is not None and (is_live(rid) or disk.stat_any(Area.RESPONSES, response_file(rid))):
            continue
        if _older(disk, Area.ARCHIVE, name, before):
            old.append(name)
    return delete_archived(disk, old)


def delete_archived(disk: Disk, chosen: Sequence[str]) -> int:
    """Delete these files of archive/, requests before responses: a request without its response looks unanswered.

    A response whose request is still there stays. Returns how many files were deleted.
    """
    if not chosen:
        return 0
    # What was moved here must not be back where it came from once its answer is gone.
    for area in (Area.REQUESTS, Area.PROCESSING, Area.RESPONSES, Area.TMP):
        disk.sync_dir(area)
    answers = {name: rid for name in chosen if (rid := id_of_response_file(name)) is not None}
    deleted = sum(_delete(disk, name) for name in chosen if name not in answers)
    disk.sync_dir(Area.ARCHIVE)
    for name, rid in answers.items():
        if disk.stat(Area.ARCHIVE, request_file(rid)) is None:
            deleted += disk.remove(Area.ARCHIVE, name)
    return deleted


def _delete(disk: Disk, name: str) -> bool:
    if disk.remove(Area.ARCHIVE, name):
        return True
    return name.startswith(ASIDE_PREFIX) and disk.begin_removal(Area.ARCHIVE, name)  # gate: archived-aside


def _older(disk: Disk, area: Area, name: str, before: float) -> bool:
    stat = disk.stat_any(area, name)
    # A rename sets ctime, so this is the time since it was put there, not since it was written.
    return stat is not None and max(stat.st_ctime, stat.st_mtime) < before


def _came_through_bridge(disk: Disk, rid: RequestId) -> bool:
    for area in (Area.ARCHIVE, Area.PROCESSING, Area.REQUESTS):
        data = disk.read(area, request_file(rid), limit=MAX_REQUEST_FILE)
        if data is not None:
            return is_ours(data)
    # On a full volume the answer to a cancel takes the place of its request, and says so itself.
    data = disk.read(Area.RESPONSES, response_file(rid), limit=MAX_REQUEST_FILE)
    return data is not None and is_ours(data)


MAX_REQUEST_FILE = 16 * 1024 * 1024
"""What we read of a request file in bytes; a longer one counts as unreadable."""


def is_ours(data: bytes) -> bool:
    """Return whether this file was written by a bridge: a request, or an answer that has none beside it."""
    if exceeds_part_limit(data):
        return False
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(loaded, dict) and loaded.get("via") == VIA_BRIDGE
