"""What may lie in a queue's directories although nobody should have put it there, and how it gets there."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asyncinotify import Inotify, Mask
from hypothesis import strategies as st

from tests.fuzz import documents

IDS = ("x", "y", "a..b", "-", "A" * 128)
WILD_NAMES = (
    b"new\nline.json", b"quo'te\".json", b"sp ace.json", b"per%2e%2e%2fcent.json", "ünïcødé-🙂.json".encode(),
    b"\xff\xfe.json", b"x" * 250 + b".json", b"back\\slash.json", b"..json", b"...json", b".hidden.json", b"-rf.json",
    b"~.json", b"$HOME.json", b"#auto#.json", b"a:b.json", b"req_.json", b"req_..json", b"req_...json", b"\t.json",
    b"\x01.json", b"tar.gz", b"json", b"x.JSON", b"req_x.json.part", b"/ssh:x.json".replace(b"/", b""), b"x.json~",
)  # fmt: skip
_MTIMES = (None, 0, 1, 2**31, 2**33, 253_402_300_800, 2**40, -(2**40))


@dataclass(frozen=True)
class Litter:
    """One thing under one name. `data` is a file's content or a symlink's target."""

    name: bytes
    kind: str
    data: bytes = b""
    mode: int = 0o600
    mtime: int | None = None

    def __repr__(self) -> str:
        shown = self.data if len(self.data) < 600 else self.data[:600] + b"..."
        return f"Litter({self.name!r}, {self.kind!r}, {shown!r}, {self.mode:o}, {self.mtime})"


def _files(contents: st.SearchStrategy[bytes], names: st.SearchStrategy[bytes]) -> st.SearchStrategy[Litter]:
    modes = st.sampled_from((0o600, 0o600, 0o644, 0o000, 0o200, 0o777))
    return st.builds(Litter, names, st.just("file"), contents, modes, st.sampled_from(_MTIMES))


def _others(names: st.SearchStrategy[bytes]) -> st.SearchStrategy[Litter]:
    targets = st.sampled_from((b"@outside/file", b"@outside", b"@outside/none", b"@itself", b"/dev/zero", b".", b"x"))
    return (
        st.builds(Litter, names, st.just("symlink"), targets)
        | st.builds(Litter, names, st.just("directory"), st.just(b""), st.sampled_from((0o700, 0o555, 0o000)))
        | st.builds(Litter, names, st.sampled_from(("full directory", "fifo", "socket", "hard link")))
    )


def litter(contents: st.SearchStrategy[bytes], names: st.SearchStrategy[bytes]) -> st.SearchStrategy[Litter]:
    """Mostly files."""
    return _files(contents, names) | _files(contents, names) | _others(names)


def named(pattern: str) -> st.SearchStrategy[bytes]:
    """`pattern` with an id for its `*`."""
    return st.sampled_from(IDS).map(lambda rid: pattern.replace("*", rid).encode())


request_names = named("req_*.json") | named("*.json") | st.sampled_from(WILD_NAMES)
requests = litter(documents.mangled(documents.REQUEST) | st.binary(max_size=300), request_names)
responses = litter(documents.mangled(documents.RESPONSE), named("resp_*.json") | st.sampled_from(WILD_NAMES))


def drop(place: Path, item: Litter, outside: Path) -> bool:
    """Put `item` into `place`; return False if the name is taken or no name at all."""
    path = place / os.fsdecode(item.name)
    try:
        _make(path, item, outside)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        return False
    if item.mtime is not None:
        with contextlib.suppress(OSError, OverflowError):
            os.utime(path, (item.mtime, item.mtime), follow_symlinks=False)
    return True


def _make(path: Path, item: Litter, outside: Path) -> None:
    match item.kind:
        case "file":
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, item.data)
            os.fchmod(descriptor, item.mode)
            os.close(descriptor)
        case "symlink":
            target = item.data.replace(b"@outside", os.fsencode(outside)).replace(b"@itself", os.fsencode(path))
            path.symlink_to(os.fsdecode(target))
        case "directory":
            path.mkdir(item.mode)
        case "full directory":
            # Emacs may have moved the outer one in between.
            with contextlib.suppress(FileNotFoundError):
                path.mkdir()
                (path / "inner").mkdir()
        case "fifo":
            os.mkfifo(path, 0o600)
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        case "hard link":
            path.hardlink_to(outside / "file")


@dataclass
class Outside:
    """A directory beside the queue that nobody may open, read or change."""

    place: Path
    _watch: Inotify

    def untouched(self) -> None:
        """Fails if anything in it was opened, read, changed, made or removed since it was made."""
        events = self._events()
        assert not events, events
        assert [path.name for path in sorted(self.place.iterdir())] == ["file", "secret"]
        assert (self.place / "file").read_text() == "not yours"
        assert stat.S_IMODE((self.place / "file").stat().st_mode) == 0o640
        # These looks were ours.
        self._events()

    def _events(self) -> list[str]:
        return [f"{event.mask!r} {event.name}" for event in self._watch]


@contextlib.contextmanager
def outside(place: Path) -> Iterator[Outside]:
    """Make the directory and watch it."""
    place.mkdir()
    (place / "file").write_text("not yours")
    (place / "file").chmod(0o640)
    (place / "secret").write_text('{"id":"secret","type":"eval","content":"1"}')
    with Inotify(sync_timeout=0) as watch:
        watch.add_watch(place, Mask.OPEN | Mask.ACCESS | Mask.MODIFY | Mask.CREATE | Mask.DELETE | Mask.MOVE)
        yield Outside(place, watch)
