"""One queue directory without a bridge: each client does itself what a bridge would.

Uses the steps of `efrit.queue`, so that every promise of docs/queue.md holds; several clients may use one directory
at once, and take no lock: links and renames decide. Blocking, for a millisecond or two. Starts no process, reads no
configuration.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from efrit.backend.errors import ClientError, Conflict, NotReady, ResultGone, ResultTruncated
from efrit.backend.interface import Handle, RequestReason, RequestState
from efrit.backend.local import answers
from efrit.backend.local.request_file import check_file_size
from efrit.errors import EfritError, NoSpace, QueueNotTrusted
from efrit.protocol.ids import RequestId, id_of_request_file, id_of_response_file, request_file, response_file
from efrit.protocol.request import Request
from efrit.queue.answers import read_answer
from efrit.queue.archive import Sessions, acknowledge, sweep
from efrit.queue.cancel import order_stop, withdraw
from efrit.queue.durable import Disk, publish
from efrit.queue.layout import CLAIMS, CLOCK, HEARTBEAT, Area, id_of_withdrawn_file, withdrawn_file
from efrit.queue.recover import finish_withdrawal
from efrit.queue.submit import IdTaken, Submission, commit

_LONGEST_REQUEST = 16 << 20
_LONGEST_RESULT = 256 << 20
_SWEEP_STAMP = "swept"
_READS = 5
_LITTER_SECONDS = 3600.0


class _SharedDisk(Disk):
    """Closed when nothing uses it any more: a thread of a call that has ended may still read there."""

    def __del__(self) -> None:
        self.close()


class QueueFiles:
    """Opened when first used; `close` gives the descriptors back, once whatever still uses them has ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._disk: Disk | None = None

    @property
    def disk(self) -> Disk:
        """The open directory. Raises `NotReady`."""
        if self._disk is None:
            disk = _SharedDisk(self.root)
            with _as_client_errors(self.root):
                disk.join()
            self._disk = disk
        return self._disk

    def close(self) -> None:
        """Let go of the directory; it is opened again where it is used again."""
        self._disk = None

    # Submitting

    def submit(self, request: Request) -> None:
        """Store the request durably. Storing the same again is allowed. Raises `Conflict`, `NotReady`, `Refused`."""
        data = request.to_json().encode()
        check_file_size(request, len(data))
        with _as_client_errors(self.root):
            (problem,) = commit(self.disk, [Submission(request.id, data)])
        if isinstance(problem, IdTaken):
            self._check_same(request)
        elif problem is not None:
            raise storage_problem(self.root, problem)

    def _check_same(self, request: Request) -> None:
        stored = self._request_data(request.id)
        try:
            same = stored is None or Request.parse(stored).digest() == request.digest()
        except EfritError:
            same = False
        # An answer whose request is gone cannot be compared; running it twice would be worse.
        if not same:
            raise Conflict(f"{request.id} was submitted before with other content", "choose another key")
        self.disk.sync_dir(Area.REQUESTS)

    # Reading

    def has_request(self, rid: str) -> bool:
        """Return whether the request is anywhere here."""
        return self.state(Handle(rid)) is not None

    def state(self, handle: Handle) -> RequestState | None:
        """Return the state of the request; None if it is not here."""
        # A request that moves meanwhile is found in a later directory; but a retry moves back.
        for _ in range(2):
            state = self._sighting(handle)
            if state is not None:
                return state
        return None

    def _sighting(self, handle: Handle) -> RequestState | None:
        disk, rid = self.disk, RequestId(handle.id)
        with _as_client_errors(self.root):
            for area, reason in ((Area.REQUESTS, RequestReason.QUEUED), (Area.PROCESSING, RequestReason.RUNNING)):
                stat = disk.stat(area, request_file(rid))
                if stat is not None and disk.stat_any(Area.RESPONSES, response_file(rid)) is None:
                    data = disk.read(area, request_file(rid), limit=_LONGEST_REQUEST)
                    queued = datetime.fromtimestamp(stat.st_mtime, UTC)
                    return answers.open_state(handle, reason, answers.json_object(data), queued)
            if disk.stat_any(Area.TMP, withdrawn_file(rid)) is not None:
                return answers.open_state(handle, RequestReason.QUEUED, {}, None)
            answer = read_answer(disk, Area.RESPONSES, rid)
            if answer is not None:
                # Emacs cannot sync a directory: the answer counts once somebody has.
                disk.sync_dir(Area.RESPONSES)
            else:
                answer = read_answer(disk, Area.ARCHIVE, rid)
            if answer is None:
                return None
            return answers.final_state(handle, answer.response, answers.json_object(self._request_data(rid)))

    def is_answered(self, rid: str) -> bool:
        """Return whether it has its answer: two calls of stat, for a loop that waits."""
        name = response_file(RequestId(rid))
        return any(self.disk.stat_any(area, name) is not None for area in (Area.RESPONSES, Area.ARCHIVE))

    def area_of(self, rid: str) -> Area | None:
        """Return the directory of the request, requests/ or processing/; None if it is in neither."""
        name = request_file(RequestId(rid))
        return next((area for area in (Area.REQUESTS, Area.PROCESSING) if self.disk.stat(area, name)), None)

    def timeout_of(self, rid: str) -> float | None:
        """Return the request's time limit in seconds, if it has one."""
        options = answers.json_object(self._request_data(rid)).get("options")
        timeout = options.get("timeout") if isinstance(options, dict) else None
        return float(timeout) if isinstance(timeout, int | float) else None

    def ids(self) -> list[str]:
        """Return the id of every request here, oldest first by the time of its file."""
        times: dict[str, float] = {}
        for area in (Area.REQUESTS, Area.PROCESSING, Area.RESPONSES, Area.ARCHIVE):
            for name in self.disk.names(area):
                rid = id_of_response_file(name)
                if rid is None and name.startswith("req_"):
                    rid = id_of_request_file(name)
                stat = self.disk.stat(area, name) if rid is not None else None
                if rid is not None and stat is not None:
                    times[rid] = min(stat.st_mtime, times.get(rid, stat.st_mtime))
        return sorted(times, key=lambda rid: times[rid])

    def running(self) -> list[str]:
        """Return the requests that Emacs has claimed and not answered."""
        return [rid for name in self.disk.names(Area.PROCESSING) if (rid := id_of_request_file(name)) is not None]

    def counts(self) -> tuple[int, int, float]:
        """Return how many requests are pending, how many run, and the age of the oldest pending one in seconds."""
        waiting = [name for name in self.disk.names(Area.REQUESTS) if name.endswith(".json")]
        running = [name for name in self.disk.names(Area.PROCESSING) if name.endswith(".json")]
        times = [stat.st_mtime for name in waiting if (stat := self.disk.stat(Area.REQUESTS, name))]
        return len(waiting), len(running), max(0.0, time.time() - min(times, default=time.time()))

    def heartbeat(self) -> dict[str, Any]:
        """Return the last heartbeat of Emacs; empty if there is none."""
        for _ in range(_READS):
            try:
                return answers.json_object(self.disk.read(Area.ROOT, HEARTBEAT, limit=65536))
            except OSError as error:
                # NFS: another host has replaced it since it was opened.
                if error.errno != errno.ESTALE:
                    raise
        raise NotReady(f"the heartbeat in {self.root} cannot be read", "try again")

    def heartbeat_age(self) -> float:
        """Return how many seconds ago the heartbeat was written, by the clock of the file server."""
        with _as_client_errors(self.root):
            now = self.disk.touch(Area.ROOT, CLOCK)
            written = self.disk.modified(Area.ROOT, HEARTBEAT)
        # One that is being replaced at this moment is new.
        return max(0.0, now - written) if written is not None else 0.0

    def result(self, rid: str) -> str | None:
        """Return the whole result, maybe empty; None without an answer. Raises `ResultGone`, `ResultTruncated`."""
        answer = None
        for area in (Area.RESPONSES, Area.ARCHIVE):
            answer = answer or read_answer(self.disk, area, RequestId(rid))
        if answer is None:
            return None
        response = answer.response
        path = response.result_path
        result = response.result if path is None else _whole_result(rid, path, response.sha256)
        if response.truncated:  # gate: truncated-result
            beginning = result or ""
            raise ResultTruncated(
                f"the result of {rid} is truncated: Emacs kept the first {len(beginning.encode())} bytes",
                "have the work write it to a file, or start the daemon with a larger EFRIT_MAX_RESULT_BYTES",
                beginning,
            )
        return result or ""

    # Ending

    def withdraw(self, rid: str) -> bool:
        """Withdraw the request and answer it `Cancelled`; return False if Emacs has claimed it."""
        with _as_client_errors(self.root):
            return withdraw(self.disk, RequestId(rid), request_file(RequestId(rid)), datetime.now(UTC))

    def order_stop(self, rid: str, reason: RequestReason) -> None:
        """Write a stop order where Emacs looks for it."""
        with _as_client_errors(self.root):
            order_stop(self.disk, RequestId(rid), reason)

    def acknowledge(self, rid: str) -> None:
        """Archive a response that was handed over. It can be read until it is swept."""
        with _as_client_errors(self.root):
            acknowledge(self.disk, RequestId(rid))

    # Housekeeping

    def sweep_if_due(self, interval: float, keep: float) -> None:
        """Delete, at most once in `interval` seconds, requests answered more than `keep` seconds ago."""
        stamp = self.root / _SWEEP_STAMP
        with contextlib.suppress(OSError, ClientError):
            if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < interval:
                return
            first = not stamp.exists()
            stamp.touch(mode=0o600)
            if not first:
                self._sweep(time.time() - keep)

    def _sweep(self, before: float) -> None:
        disk = self.disk
        # Those a client that died left half done; a live one takes no hour.
        for name in disk.names(Area.TMP):
            stat = disk.stat(Area.TMP, name)
            if stat is None or time.time() - max(stat.st_mtime, stat.st_ctime) < _LITTER_SECONDS:
                continue
            rid = id_of_withdrawn_file(name)
            if rid is not None:
                finish_withdrawal(disk, rid, datetime.now(UTC))
            elif name.startswith("bridge_"):
                disk.remove(Area.TMP, name)
        under_way = [
            (rid, stat.st_mtime)
            for area in (Area.REQUESTS, Area.PROCESSING)
            for name in disk.names(area)
            if (rid := id_of_request_file(name)) and (stat := disk.stat(area, name))
        ]
        live = {rid for rid, _ in under_way}
        # Every session is kept that anything under way might continue.
        sessions = Sessions(since=min((moment for _, moment in under_way), default=before))
        sweep(disk, before=before, is_live=live.__contains__, sessions=sessions)

    def ensure_journal(self) -> None:
        """Create claims.log, so that its name is on the disk before the first claim."""
        if self.disk.stat(Area.ROOT, CLAIMS) is None:
            with _as_client_errors(self.root), contextlib.suppress(FileExistsError):
                publish(self.disk, Area.ROOT, CLAIMS, b"")
                self.disk.sync_dir(Area.ROOT)

    def _request_data(self, rid: str) -> bytes | None:
        name = request_file(RequestId(rid))
        for area in (Area.ARCHIVE, Area.REQUESTS, Area.PROCESSING):
            data = self.disk.read(area, name, limit=_LONGEST_REQUEST)
            if data is not None:
                return data
        return self.disk.read(Area.TMP, withdrawn_file(RequestId(rid)), limit=_LONGEST_REQUEST)


def _whole_result(rid: str, path: str, sha256: str | None) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            data = file.read(_LONGEST_RESULT + 1)
    except OSError as error:
        raise ResultGone(f"the result of {rid} is no longer in {path}: {error.strerror}") from error
    if len(data) > _LONGEST_RESULT:
        raise ResultGone(f"the result of {rid} in {path} is larger than {_LONGEST_RESULT >> 20} MiB", "read the file")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise ResultGone(f"{path} is no longer the result of {rid}: it was changed")
    return data.decode(errors="replace")


@contextlib.contextmanager
def _as_client_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except ClientError:
        raise
    except (EfritError, OSError) as error:
        raise storage_problem(root, error) from error


def storage_problem(root: Path, error: Exception) -> NotReady:
    """Return the error for a failure of the disk below `root`: a full one is named as such."""
    if isinstance(error, QueueNotTrusted):
        return NotReady(error.message, error.advice)
    full = isinstance(error, NoSpace) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    if full:
        return NotReady(f"the disk of {root} is full", "free some space on it, and try again")
    return NotReady(f"the queue does not work: {error}", "run `efrit doctor`")
