"""What the starts of one queue know of each other: their locks, and the Emacs that does not serve yet.

Whoever starts Emacs, or waits while another process does, holds `daemon.waiting` shared. Who gives up and then gets
it alone was the last: nobody else wants the Emacs that `daemon.starting` names. Without locks there is no such file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from efrit.backend.local.hosts import place_of
from efrit.backend.local.process import is_emacs, start_ticks, state_of
from efrit.queue.process_place import here

LOCK = "daemon.lock"
WAITING = "daemon.waiting"
STARTING = "daemon.starting"
_POLL_SECONDS = 0.02
_TERMINATE_SECONDS = 1.0
"""How long an Emacs that nobody wants may take to end by itself."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What a file server without locks says."""


class StartAbandoned(Exception):  # noqa: N818 - it is what happened
    """Whoever wanted the start has given it up meanwhile."""


class QueueRemoved(Exception):  # noqa: N818 - it is what happened
    """The queue was deleted while its lock was waited for."""


def lock(file: IO[str], operation: int, give_up: Callable[[], bool] | None = None) -> bool | None:
    """Lock `file`; return whether another process had it, None where its file system has no locks.

    Raises `StartAbandoned` once `give_up` returns True.
    """
    contended = False
    while True:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
            return contended
        except BlockingIOError:
            contended = True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return None
        if give_up is not None and give_up():
            raise StartAbandoned
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def alone(queue_dir: Path, give_up: Callable[[], bool] | None = None) -> Iterator[bool | None]:
    """Hold the lock of a queue; yield whether another process had it, None where there are no locks.

    Raises `QueueRemoved` where the queue is no more, and `StartAbandoned` once `give_up` returns True.
    """
    with open_in(queue_dir, LOCK) as file:
        # A file server may have no locks. They only save a start in vain: Emacs takes the queue by a link.
        contended = lock(file, fcntl.LOCK_EX, give_up)
        if os.fstat(file.fileno()).st_nlink == 0:  # gate: queue-removed
            raise QueueRemoved
        yield contended


def open_in(queue_dir: Path, name: str) -> IO[str]:
    """Open a file of a queue, made where there is none. Raises `QueueRemoved`."""
    try:
        return (queue_dir / name).open("a+")
    except FileNotFoundError:
        raise QueueRemoved from None


def is_last(waiting: IO[str]) -> bool:
    """Let go of `waiting`; return whether nobody else waits. Then it is held alone, and nobody begins meanwhile."""
    try:
        # In two steps: where two give up at once, the later one is the last.
        fcntl.flock(waiting, fcntl.LOCK_UN)
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM come only once the block is over. Python heeds them in the main thread alone."""
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):
                if callable(handler := signal.getsignal(number)):
                    before[number] = handler
                    signal.signal(number, lambda sent, _: came.append(sent))
        yield
    finally:
        for number, handler in before.items():
            with contextlib.suppress(ValueError):
                signal.signal(number, handler)
    for sent in came:
        signal.raise_signal(sent)


class StartingEmacs(Struct, frozen=True):
    """An Emacs that was started and does not serve yet; `started` in ticks since the boot where the system says.

    `log_begins`: how many bytes of its log others had written.
    """

    pid: int
    started: int | None
    log_begins: int = 0

    @classmethod
    def of_pid(cls, pid: int, log_begins: int = 0) -> StartingEmacs:
        """Return the one with this process id."""
        return cls(pid, start_ticks(pid), log_begins)

    def record(self, directory: Path) -> None:
        """Have whoever holds the lock next know it."""
        place = here()
        server = {name: getattr(place, name) for name in place.__struct_fields__}
        content = {"pid": self.pid, "started": self.started, "log_begins": self.log_begins, "server": server}
        (directory / STARTING).write_text(json.dumps(content) + "\n")

    @property
    def exists(self) -> bool:
        """Whether it is still there, and not another process with its number. A zombie is not."""
        if state_of(self.pid) in ("", "Z") or start_ticks(self.pid) != self.started:
            return False
        return self.started is not None or is_emacs(self.pid)

    def includes(self, pid: int) -> bool:
        """Return whether process `pid` is this one, or of its group: EFRIT_EMACS may be a script that runs Emacs."""
        if pid == self.pid:
            return True
        try:
            return os.getpgid(pid) == os.getpgid(self.pid)
        except ProcessLookupError:
            return False

    def end(self) -> None:
        """End it with all that it has started, at once if need be."""
        if not self.exists:
            return
        try:
            # It has a session of its own: nothing else is in its group.
            group = os.getpgid(self.pid)
        except ProcessLookupError:
            return
        try:
            _signal_group(group, signal.SIGTERM)
            limit = time.monotonic() + _TERMINATE_SECONDS
            while self.exists and time.monotonic() < limit:
                time.sleep(_POLL_SECONDS)
        finally:
            _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def starting_emacs(directory: Path) -> StartingEmacs | None:
    """Return the Emacs of this host that was started for the queue and does not serve it yet, if there is one."""
    try:
        content: dict[str, Any] = json.loads((directory / STARTING).read_text())
        emacs = StartingEmacs(int(content["pid"]), content["started"], int(content.get("log_begins", 0)))
        if not here().same(place_of(content["server"])):
            return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return emacs if emacs.pid > 1 and emacs.exists else None


def forget(directory: Path) -> None:
    """Remove the record of a start that has ended."""
    (directory / STARTING).unlink(missing_ok=True)
