"""The file system of a queue: whether other hosts may mount it, whether it will do, how long it remembers. Linux.

A queue needs renames and hard links that are one step at the file server. What puts files into an object store has
neither: two clients would both have the same request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

TAKEOVER_VARIABLE = "EFRIT_TAKEOVER_SECONDS"
TAKEOVER_SECONDS = 90.0
"""How long a server of another host is silent before its queue may be taken."""

CACHE_SECONDS = 60.0
"""How long an NFS client remembers attributes and names unless its mount says otherwise (acregmax, acdirmax)."""

REMOTE_TYPES = (
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "virtiofs",
)
"""File systems that several hosts mount; so is each that a program provides (fuse). As in efrit-queue-host.el."""

_OBJECT_STORE = re.compile(
    r"fuse\.(s3\w*|goofys|geesefs|mountpoint-s3|rclone|gcsfuse|blobfuse2?|ossfs|cosfs|obsfs|s3backer|tigrisfs)"
)
_MOUNTS = Path("/proc/self/mountinfo")
_REST = 30.0


class Mount(Struct, frozen=True):
    """What is mounted at `point`; `options` as in /proc/self/mountinfo, those of the file system included."""

    point: str
    type: str
    source: str
    options: frozenset[str] = frozenset()

    @property
    def remote(self) -> bool:
        """Whether other hosts may have it mounted, too."""
        return self.type in REMOTE_TYPES or self.type == "fuse" or self.type.startswith("fuse.")

    @property
    def refusal(self) -> str | None:
        """Why no queue can be here; None where one can."""
        # Mountpoint for Amazon S3 has no type of its own.
        if _OBJECT_STORE.fullmatch(self.type) or self.source in {"mountpoint-s3", "s3fs", "goofys", "geesefs"}:
            return f"{self.point} is an object store ({self.type}, {self.source}): a rename there is a copy"
        return None

    @property
    def warning(self) -> str | None:
        """What several hosts must not rely on here; None where nothing is known to be wrong."""
        if self.type.startswith("nfs") and "nocto" in self.options:
            return f"{self.point} is mounted with nocto: an old server may begin work for {self.cache_seconds:.0f} s"
        if self.type == "fuse" or (self.type.startswith("fuse.") and self.refusal is None):
            return f"{self.point} is provided by a program ({self.type}), which must rename and link in one step"
        return None

    @property
    def cache_seconds(self) -> float:
        """How long this host may remember what the file server said."""
        named = [
            float(value)
            for option in self.options
            for name, _, value in [option.partition("=")]
            if name in {"acregmax", "acdirmax", "actimeo"} and value.isdecimal()
        ]
        return max(named, default=CACHE_SECONDS)

    @property
    def blind_seconds(self) -> float:
        """How long a file that another host has moved may be seen nowhere from here."""
        return 2 * self.cache_seconds if self.remote else 0.0


LOCAL = Mount("/", "unknown", "none")


def mount_of(path: Path, table: str | None = None) -> Mount:
    """Return the mount that has `path`; `table` is the text of mountinfo. Where there is none, a local one."""
    if table is None:
        try:
            table = _MOUNTS.read_text(errors="surrogateescape")
        except OSError:
            return LOCAL
    real = os.path.realpath(path) + "/"
    mounts = [mount for line in table.splitlines() if (mount := _mount(line)) is not None]
    holding = [mount for mount in mounts if real.startswith(mount.point.rstrip("/") + "/")]
    # Of two at one place, the later one covers the earlier one.
    return max(reversed(holding), key=lambda mount: len(mount.point), default=LOCAL)


def _mount(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    fields, others = before.split(" "), after.split(" ")
    if not separator or len(fields) < 6 or len(others) < 3:
        return None
    options = frozenset([*fields[5].split(","), *others[2].split(",")])
    return Mount(_plain(fields[4]), others[0], _plain(others[1]), options)


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def takeover_seconds(mount: Mount, environment: Mapping[str, str]) -> float:
    """Return how long a server of another host must be silent: longer than its heartbeats may be hidden from here."""
    named = environment.get(TAKEOVER_VARIABLE, "")
    if re.fullmatch(r"\d{1,6}(\.\d+)?", named) and float(named) > 0:
        return float(named)
    return max(TAKEOVER_SECONDS, mount.cache_seconds + _REST)
