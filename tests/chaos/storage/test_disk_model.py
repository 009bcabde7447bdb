"""The model of a volume after a crash: what is synced is there, the rest may be, and a rename loses nothing."""

from collections.abc import Mapping

from tests.chaos.storage.crash_states import crash_states
from tests.chaos.storage.disk_model import Content, Tree, Volume
from tests.support.faults.file_shim.shim import Operation

START = Tree({"/v": (1, None), "/v/a": (2, None), "/v/b": (3, None)})


class Record:
    """Operations, written down as the shim would."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(
        self, kind: str, inode: int, path: str = "", target: str = "", offset: int = 0, data: bytes = b""
    ) -> None:
        """Record one operation."""
        number = len(self.operations) + 1
        self.operations.append(Operation(number, 1, "test", kind, 0, 0, inode, path, target, offset, data))

    def file(self, path: str, inode: int, data: bytes, *, synced: bool = True) -> None:
        """Record the creation of a file."""
        self.add("create", inode, path)
        self.add("write", inode, path, data=data)
        if synced:
            self.add("fsync", inode, path)

    def trees(self) -> list[Mapping[str, Content]]:
        """Return the files of every state after the last operation."""
        volume = Volume(START, self.operations)
        last = len(self.operations)
        states = crash_states(volume, seed=1)
        return [
            {path: content for path, content in state.tree.items() if content is not None}
            for state in states
            if state.crash == last
        ]


def test_a_file_whose_directory_is_not_synced_may_be_gone() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data")
    assert {} in record.trees()
    assert {"/v/a/x": b"data"} in record.trees()


def test_a_synced_file_in_a_synced_directory_is_there() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data")
    record.add("fsync", 2, "/v/a")
    assert record.trees() == [{"/v/a/x": b"data"}]


def test_an_unsynced_file_in_a_synced_directory_may_be_empty_torn_or_zeros() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data", synced=False)
    record.add("fsync", 2, "/v/a")
    contents = {tree["/v/a/x"] for tree in record.trees()}
    assert contents == {b"", b"data", b"da", b"\0\0\0\0"}


def test_what_was_appended_before_the_sync_stays_whatever_comes_after() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"one\n")
    record.add("fsync", 2, "/v/a")
    record.add("write", 10, "/v/a/x", offset=4, data=b"two\n")
    assert {tree["/v/a/x"] for tree in record.trees()} >= {b"one\n", b"one\ntwo\n", b"one\ntw"}
    assert all((tree["/v/a/x"] or b"").startswith(b"one\n") for tree in record.trees())


def test_a_rename_leaves_the_file_under_one_name_or_both_but_never_under_none() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data")
    record.add("fsync", 2, "/v/a")
    record.add("rename", 10, "/v/a/x", "/v/b/y")
    names = {frozenset(tree) for tree in record.trees()}
    assert names == {frozenset({"/v/a/x"}), frozenset({"/v/b/y"}), frozenset({"/v/a/x", "/v/b/y"})}


def test_a_rename_is_as_lasting_as_the_removal_of_its_old_name() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data")
    record.add("fsync", 2, "/v/a")
    record.add("rename", 10, "/v/a/x", "/v/b/y")
    record.add("fsync", 2, "/v/a")
    assert {frozenset(tree) for tree in record.trees()} == {frozenset({"/v/b/y"})}


def test_a_rename_within_a_directory_is_one_change() -> None:
    record = Record()
    record.file("/v/a/old", 10, b"old")
    record.file("/v/a/new", 11, b"new")
    record.add("fsync", 2, "/v/a")
    record.add("rename", 11, "/v/a/new", "/v/a/old")
    assert {tuple(sorted(tree.items())) for tree in record.trees()} == {
        (("/v/a/new", b"new"), ("/v/a/old", b"old")),
        (("/v/a/old", b"new"),),
    }


def test_changes_of_two_directories_last_independently_of_their_order() -> None:
    record = Record()
    record.file("/v/a/x", 10, b"data")
    record.add("link", 10, "/v/a/x", "/v/b/y")
    record.add("unlink", 10, "/v/a/x")
    assert {frozenset(tree) for tree in record.trees()} == {
        frozenset(),
        frozenset({"/v/a/x"}),
        frozenset({"/v/b/y"}),
        frozenset({"/v/a/x", "/v/b/y"}),
    }


def test_a_directory_that_may_be_gone_takes_its_files_along() -> None:
    record = Record()
    record.add("mkdir", 20, "/v/new")
    record.file("/v/new/x", 10, b"data")
    record.add("fsync", 20, "/v/new")
    assert {} in record.trees()
    record.add("fsync", 1, "/v")
    assert record.trees() == [{"/v/new/x": b"data"}]
