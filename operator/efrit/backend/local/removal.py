"""Removing an instance of this machine: its entry in the configuration, its queue, and on request its workspace."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from efrit.backend.errors import NotReady, Refused
from efrit.backend.interface import Removed
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.heartbeat import check_heartbeat
from efrit.backend.local.settings import LocalSettings, new_instance, remove_instance
from efrit.backend.local.start_lock import QueueRemoved, alone


def remove(settings: LocalSettings, daemon: Daemon, *, files: bool) -> tuple[LocalSettings, Removed]:
    """Remove a stopped instance; return the settings without it and what was left.

    Directories that the user chose are left in place: they may hold more than this program put there.
    Raises `Refused` while its Emacs runs or work waits, `NotReady` where a directory cannot be deleted,
    `InstanceNotFound` where another process has removed it meanwhile.
    """
    instance = daemon.instance
    with _no_start(instance.queue_dir):
        settings = remove_instance(settings, instance.id, lambda: _delete_files(daemon, files))
    kept_directories = [
        str(directory) for directory in (instance.queue_dir, instance.workspace_dir) if directory.is_dir()
    ]
    message = f"{instance.id} is removed" + (f"; kept {', '.join(kept_directories)}" if kept_directories else "")
    return settings, Removed(message, tuple(kept_directories))


@contextlib.contextmanager
def _no_start(queue_dir: Path) -> Iterator[None]:
    """Have no Emacs started meanwhile; one that is under way is waited for."""
    with contextlib.ExitStack() as lock:
        # Another process may have removed the queue just now.
        with contextlib.suppress(QueueRemoved):
            try:
                lock.enter_context(alone(queue_dir))  # gate: no-start
            except PermissionError as error:
                raise NotReady(
                    f"cannot delete {queue_dir}: {error}", "check its permissions, and try again"
                ) from error
        yield


def _delete_files(daemon: Daemon, files: bool) -> None:
    """Delete the queue, and with `files` the workspace, where they are at their usual places."""
    instance = daemon.instance
    name, usual = instance.id, new_instance(instance.id)
    if daemon.is_served():
        raise Refused(f"{name} is running", f"stop it first: efrit stop {name}")
    check_heartbeat(daemon)  # gate: removed-unread
    pending, processing, _ = daemon.files.counts() if instance.queue_dir.is_dir() else (0, 0, 0.0)
    if pending or processing:
        raise Refused(
            f"{pending + processing} requests of {name} are not finished",
            f"start it and wait for them, or cancel them: efrit requests -i {name}",
        )
    daemon.files.close()
    deleted: list[Path] = []
    for directory, delete in (
        (instance.queue_dir, instance.queue_dir == usual.queue_dir),
        (instance.workspace_dir, files and instance.workspace_dir == usual.workspace_dir),
    ):
        if delete and directory.is_dir():
            try:
                shutil.rmtree(directory)
            except OSError as error:
                raise NotReady(
                    f"cannot delete {directory}: {error}", "check its permissions, and try again"
                ) from error
            deleted.append(directory)
    for directory in deleted:
        # Only where nothing else is in it.
        with contextlib.suppress(OSError):
            directory.parent.rmdir()
