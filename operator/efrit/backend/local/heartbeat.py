"""Whether the heartbeat of an instance can be read: without it nobody knows whether an Emacs serves the queue."""

from __future__ import annotations

import errno

from efrit.backend.errors import NotReady
from efrit.backend.local.daemon import Daemon
from efrit.queue.layout import HEARTBEAT, Area


def check_heartbeat(daemon: Daemon) -> None:
    """Raise `NotReady` where the heartbeat cannot be read."""
    if (problem := heartbeat_problem(daemon)) is not None:
        raise NotReady(f"it is not known whether an Emacs serves the queue: {problem}", heartbeat_remedy(daemon))


def heartbeat_problem(daemon: Daemon) -> str | None:
    """Return why the heartbeat that is there cannot be read; None if it can be, or if there is none."""
    path = daemon.instance.queue_dir / HEARTBEAT
    if not path.parent.is_dir():
        return None
    disk = daemon.files.disk
    try:
        data = disk.read(Area.ROOT, HEARTBEAT, limit=1, forbidden_is_empty=False)
        odd = data is None and disk.stat(Area.ROOT, HEARTBEAT) is None and disk.stat_any(Area.ROOT, HEARTBEAT)
    except OSError as error:
        # NFS: another host has replaced it meanwhile.
        return None if error.errno == errno.ESTALE else f"{path} cannot be read: {error.strerror}"
    return f"{path} is not an ordinary file" if odd else None


def heartbeat_remedy(daemon: Daemon) -> str:
    """Return what to do about a heartbeat that cannot be read."""
    path = daemon.instance.queue_dir / HEARTBEAT
    if path.is_file() and not path.is_symlink():
        return f"chmod u+r {path}"
    return (
        f"an Emacs that runs replaces it once it is not busy; where none runs, efrit start {daemon.instance.id} does"
    )
