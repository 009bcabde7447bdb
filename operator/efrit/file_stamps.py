"""Whether files of a mounted Secret have changed, by their stat: without reading them each time."""

from pathlib import Path

Stamp = tuple[tuple[int, int, int] | None, ...]


class FileStamps:
    """Inode, time and size of a set of files. The kubelet replaces all files of a Secret at once."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._last: Stamp | None = None

    def changed(self) -> bool:
        """Return whether any file was replaced or modified since the last call; True the first time."""
        now = tuple(_stamp(path) for path in self._paths)
        changed, self._last = now != self._last, now
        return changed

    def forget(self) -> None:
        """Count the files as changed at the next call: what they hold could not be taken in."""
        self._last = None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
