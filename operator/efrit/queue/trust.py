"""Who may own a queue that no bridge guards: anyone who can write there has code run as this user.

The one place for this. A queue that several users share would have another policy, named in its settings.
"""

import os
import stat
from pathlib import Path

from efrit.errors import QueueNotTrusted


def check_trusted(path: Path, status: os.stat_result) -> None:
    """Raise `QueueNotTrusted` unless the directory is ours or root's, and nobody else may write there."""
    if status.st_uid not in (os.geteuid(), 0):
        raise QueueNotTrusted(
            f"{path} belongs to another user (uid {status.st_uid}), who could have code run as you",
            f"use a directory of your own: queue_dir in the configuration, or `chown $USER {path}`",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise QueueNotTrusted(
            f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):04o}), and could have code run as you",
            f"chmod go-w {path}",
        )


def check_no_symlink(path: Path) -> None:
    """Raise `QueueNotTrusted` if the last part of `path` is a symbolic link: where it leads can be changed later."""
    if path.is_symlink():
        raise QueueNotTrusted(f"{path} is a symbolic link", f"name the directory itself: {path.resolve()}")
