"""A reserve on the volume: small files that are given up, one at a time, so that a full volume still takes a cancel.

They lie in tmp/ from one start of the bridge to the next. Blocking functions for the disk thread.
"""

from efrit.queue.durable import Disk
from efrit.queue.layout import RESERVE_PREFIX, Area

FILES = 32
"""Each takes an inode and a block; an order to stop takes as much, an answer to a cancel too."""
FILE_BYTES = 4096


class Reserve:
    """The files that are left of it."""

    def __init__(self, disk: Disk, files: int = FILES) -> None:
        self._disk = disk
        self._names = tuple(f"{RESERVE_PREFIX}{number}" for number in range(files))
        self._left: list[str] = []

    def __len__(self) -> int:
        return len(self._left)

    @property
    def size(self) -> int:
        """How many files it has when it is whole."""
        return len(self._names)

    @property
    def is_whole(self) -> bool:
        """Whether none of it was given up."""
        return len(self._left) == len(self._names)

    def open(self) -> None:
        """Find the files that an earlier bridge has left."""
        self._left = [name for name in self._names if self._disk.stat(Area.TMP, name) is not None]

    def refill(self) -> None:
        """Create the files that are missing. Raises `OSError` if there is no space for them."""
        for name in self._names:
            if name not in self._left:
                self._disk.occupy(Area.TMP, name, FILE_BYTES)
                self._left.append(name)

    def release_one(self) -> bool:
        """Delete a file to free its space; return False if there is none left."""
        while self._left:
            if self._disk.remove(Area.TMP, self._left.pop()):
                return True
        return False
