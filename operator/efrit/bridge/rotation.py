"""Files of the Secret that may change while we run: what changed, without reading them each time."""

from pathlib import Path

Stamp = tuple[tuple[int, int, int] | None, ...]


class FileStamps:
    """Remembers what a set of files looked like. The kubelet replaces all files of a Secret at once."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen: Stamp | None = None

    def changed(self) -> bool:
        """Return whether any file is another one than at the last call; True the first time."""
        now = tuple(_stamp(path) for path in self._paths)
        changed, self._seen = now != self._seen, now
        return changed


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
