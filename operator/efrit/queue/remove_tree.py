"""Remove a directory of somebody else with all below it, a part at a time, and follow no link. Blocking."""

import contextlib
import itertools
import os
import re

from efrit.queue.layout import DELETING_PREFIX

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT = re.compile(rf"{DELETING_PREFIX}[0-9a-f]{{16}}")


def is_left(name: str) -> bool:
    """Return whether this is the name of what an earlier call had not the steps to remove."""
    return _LEFT.fullmatch(name) is not None


def _name_of_rest() -> str:
    return f"{DELETING_PREFIX}{os.urandom(8).hex()}"


def remove_tree(parent: int, name: str, steps: int) -> int:
    """Remove `name` in the directory with the descriptor `parent` in so many steps at most; return how many it took.

    A step looks at one file or directory. The directories below are moved into `parent` before they are emptied, so
    that no depth takes a descriptor, or a frame, for each; what the steps were not enough for stays there under names
    that `is_left` knows. What cannot be removed stays.
    """
    taken, names = 0, [name]
    while names and taken < steps:
        taken += 1
        name = names.pop()
        with contextlib.suppress(OSError):
            try:
                os.unlink(name, dir_fd=parent)
            except IsADirectoryError:
                taken += _remove_directory(parent, name, steps - taken, names)
    return taken


def _remove_directory(parent: int, name: str, steps: int, names: list[str]) -> int:
    """Remove what is directly in a directory, and itself if that was all; add those that were in it to `names`."""
    if not is_left(name):
        rest = _name_of_rest()
        os.rename(name, rest, src_dir_fd=parent, dst_dir_fd=parent)
        name = rest
    _permit(parent, name)
    taken = 0
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        with os.scandir(fd) as entries:
            for entry in itertools.islice(entries, steps):
                taken += 1
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        # One that nobody may write to can be moved nowhere else.
                        _permit(fd, entry.name)
                        rest = _name_of_rest()
                        os.rename(entry.name, rest, src_dir_fd=fd, dst_dir_fd=parent)
                        names.append(rest)
                    else:
                        os.unlink(entry.name, dir_fd=fd)
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=parent)
    return taken


def _permit(parent: int, name: str) -> None:
    """Give the owner of a directory every right to it: whoever made it may have taken them away."""
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            # To open it for reading is what its mode may forbid.
            os.chmod(f"/proc/self/fd/{fd}", 0o700)  # noqa: PTH101
        finally:
            os.close(fd)
