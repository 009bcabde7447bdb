"""The move out of ~/.emacs.d/.efrit, where earlier versions kept queues and workspaces: done once, and reported.

That directory made Emacs ignore an init file under ~/.config/emacs. Directories a user has configured stay where they
are; those that `efrit start` once wrote into the configuration itself are moved like the defaults they were.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from efrit.backend.errors import WrongSettings
from efrit.backend.local.answers import json_object
from efrit.backend.local.process import emacs_of
from efrit.backend.local.settings import (
    DEFAULT,
    LocalInstance,
    LocalSettings,
    change_entries,
    data_directory,
    legacy_home,
    new_instance,
    state_directory,
    written_entries,
)
from efrit.queue.layout import HEARTBEAT


def migrate(settings: LocalSettings) -> tuple[LocalSettings, list[str]]:
    """Return the settings with every instance where its files are now, and a sentence for each one that was moved.

    An instance whose Emacs runs is moved later: until it is stopped it is used where it is. Raises `WrongSettings`.
    """
    home = legacy_home()
    written = written_entries(settings.path)
    instances, notices = dict(settings.instances), []
    for name, instance in settings.instances.items():
        place = home if name == DEFAULT else home / "instances" / name
        ours = _written_by_start(place, name, written.get(name))
        if not ours and instance.queue_dir != new_instance(name).queue_dir:
            continue
        instances[name], moved = _move_instance(settings, instance, place, ours=ours)
        if moved:
            notices.append(
                f"moved the files of {name} from {place} to {instances[name].queue_dir} "
                f"and {instances[name].workspace_dir}"
            )
    return replace(settings, instances=instances), notices


def _written_by_start(place: Path, name: str, entry: Any) -> bool:
    """Return whether `entry` has the defaults of an earlier version, which `start` wrote out; people write `~`."""
    expected = {"queue_dir": str(place / "queues"), "daemon_name": f"efrit-{name}"}
    return isinstance(entry, Mapping) and all(entry.get(key) == value for key, value in expected.items())


def _move_instance(
    settings: LocalSettings, instance: LocalInstance, place: Path, *, ours: bool
) -> tuple[LocalInstance, bool]:
    usual = new_instance(instance.id)
    settled = replace(
        instance,
        queue_dir=usual.queue_dir,
        daemon_name=usual.daemon_name if ours else instance.daemon_name,
        workspace_dir=usual.workspace_dir if ours else instance.workspace_dir,
    )
    queue = place / "queues"
    if not queue.is_dir() and not ours:
        return settled, False
    try:
        state_directory().mkdir(parents=True, exist_ok=True, mode=0o700)
        with (state_directory() / ".move.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if emacs_of(_heartbeat(queue)) is not None:
                return replace(
                    settled, queue_dir=queue, daemon_name=f"efrit-{instance.id}", workspace_dir=place / "workspace"
                ), False
            # The queue is moved last: while it is there, the move is not over.
            if settled.workspace_dir == usual.workspace_dir:
                _move(place / "workspace", settled.workspace_dir)
            moved = _move(queue, settled.queue_dir)
            if ours:
                change_entries(settings, lambda entries: _forget_defaults(entries, instance.id))
            _remove_empty(place)
    except OSError as error:
        raise WrongSettings(
            f"cannot move {place} to {state_directory()} and {data_directory()}: {error}",
            "make room and check the permissions, or move it by hand",
        ) from error
    return settled, moved


def _heartbeat(queue: Path) -> dict[str, Any]:
    try:
        return json_object((queue / HEARTBEAT).read_bytes())
    except OSError:
        return {}


def _forget_defaults(entries: dict[str, Any], name: str) -> None:
    for key in ("queue_dir", "daemon_name", "workspace_dir"):
        entries.get(name, {}).pop(key, None)


def _move(old: Path, new: Path) -> bool:
    """Move a directory, also to another file system; return False where there is nothing to move, or nowhere to."""
    if not old.is_dir() or new.exists():
        return False
    new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        old.rename(new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Under its name only when it is whole: a copy that was cut short is made again.
        partial = new.with_name(f".{new.name}.moving")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(old, partial, symlinks=True)
        partial.rename(new)
        shutil.rmtree(old)
    return True


def _remove_empty(place: Path) -> None:
    """Remove what the move has left empty, ~/.emacs.d too: an empty one still hides ~/.config/emacs."""
    home = legacy_home()
    for directory in (place, home / "instances", home, home.parent):
        with contextlib.suppress(OSError):
            directory.rmdir()
