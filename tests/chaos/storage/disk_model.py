"""What a volume may hold after a crash, by what had been synced: pure, over recorded operations.

The contract is that of POSIX and no more (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014): what
was written to a file lasts once the file was synced, a name once its directory was. Until then each change may have
reached the disk or not, independently of the others; a write may have reached it in part, or as zeros. One thing is
taken for granted beyond that, as every file system with a journal gives it: a rename from one directory to another
never loses the file under both names.

A recording becomes a list of `Change`s; a crash is a number of recorded operations and the set of changes that count.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.support.faults.file_shim.shim import Operation

Content = bytes | None
"""Of a regular file; None: a directory."""


class Kind(enum.Enum):
    """What a change does to `node`: a name in a directory, or bytes in a file."""

    ADD = "add"
    REMOVE = "remove"
    WRITE = "write"
    CUT = "cut"


@dataclass(frozen=True)
class Change:
    """One elementary change.

    at: index of the operation that made it. synced: index of the one that made it durable; None: never synced.
    needs: the change without which this one is not possible, the other half of a rename.
    """

    at: int
    kind: Kind
    node: int
    name: str = ""
    child: int = 0
    offset: int = 0
    data: bytes = field(default=b"", repr=False)
    synced: int | None = None
    needs: int | None = None

    def lasts(self, crash: int) -> bool:
        """Return whether it is on the disk for sure when the first `crash` operations have happened."""
        return self.synced is not None and self.synced < crash


@dataclass(frozen=True)
class Tree:
    """Files and directories by absolute path, with their inodes, before the recording.

    What is below the roots, and every directory above them (inode 0: it may be of another file system). All is
    durable.
    """

    nodes: Mapping[str, tuple[int, Content]]


class Volume:
    """The changes of one recording, from a starting tree."""

    def __init__(self, start: Tree, operations: Sequence[Operation]) -> None:
        self.operations = list(operations)
        self.changes: list[Change] = []
        self._made = 0
        self._number: dict[int, int] = {}
        self._unsynced: dict[int, list[int]] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._is_directory: set[int] = set()
        self._files: dict[int, bytes] = {}
        self._top = self._new_directory()
        self._start(start)
        self._first_names = {node: dict(names) for node, names in self._names.items()}
        self._first_files = dict(self._files)
        for index, operation in enumerate(self.operations):
            if not operation.failed:
                self._take(index, operation)

    # From operations to changes

    def _new_directory(self) -> int:
        self._made += 1
        self._names[self._made] = {}
        self._is_directory.add(self._made)
        return self._made

    def _new_file(self, content: bytes = b"") -> int:
        self._made += 1
        self._files[self._made] = content
        return self._made

    def _start(self, tree: Tree) -> None:
        for path, (inode, content) in sorted(tree.nodes.items()):
            parent, name = self._parent(path)
            node = self._number.get(inode)
            if node is None:
                node = self._new_directory() if content is None else self._new_file(content)
            if inode:
                self._number[inode] = node
            self._names[parent][name] = node

    def _parent(self, path: str) -> tuple[int, str]:
        """Return the directory a path lies in, and its name there."""
        *directories, name = path.strip("/").split("/")
        node = self._top
        for part in directories:
            node = self._names[node][part]
        return node, name

    def _take(self, index: int, operation: Operation) -> None:
        match operation.kind:
            case "create":
                node = self._new_file()
                self._number[operation.inode] = node
                self._add(index, operation.path, node)
            case "mkdir":
                node = self._new_directory()
                self._number[operation.inode] = node
                self._add(index, operation.path, node)
            case "symlink":
                self._add(index, operation.path, self._new_file(b""))
            case "cut" | "truncate":
                size = operation.offset if operation.kind == "truncate" else 0
                self._note(Change(index, Kind.CUT, self._number[operation.inode], offset=size))
            case "write":
                node = self._number[operation.inode]
                self._note(Change(index, Kind.WRITE, node, offset=operation.offset, data=operation.data))
            case "unlink":
                self._remove(index, operation.path)
            case "link":
                self._add(index, operation.target, self._find(operation.path))
            case "rename":
                self._rename(index, operation.path, operation.target)
            case "fsync":
                self._sync(index, self._number[operation.inode])

    def _find(self, path: str) -> int:
        parent, name = self._parent(path)
        return self._names[parent][name]

    def _add(self, index: int, path: str, node: int, needs: int | None = None) -> int:
        parent, name = self._parent(path)
        self._names[parent][name] = node
        return self._note(Change(index, Kind.ADD, parent, name, node, needs=needs))

    def _remove(self, index: int, path: str, needs: int | None = None) -> int:
        parent, name = self._parent(path)
        self._names[parent].pop(name, None)
        return self._note(Change(index, Kind.REMOVE, parent, name, needs=needs))

    def _rename(self, index: int, path: str, target: str) -> None:
        node, (directory, name) = self._find(path), self._parent(target)
        if self._names[directory].get(name) == node:
            # Two names of one file: rename does nothing.
            return
        same = self._parent(path)[0] == directory
        added = self._add(index, target, node)
        removed = self._remove(index, path, needs=added)
        if same:
            # One directory, one change: neither half without the other.
            self.changes[added] = replace(self.changes[added], needs=removed)

    def _note(self, change: Change) -> int:
        number = len(self.changes)
        self.changes.append(change)
        self._unsynced.setdefault(change.node, []).append(number)
        return number

    def _sync(self, index: int, node: int) -> None:
        for number in self._unsynced.pop(node, []):
            change = self.changes[number]
            self.changes[number] = replace(change, synced=index)
            needed = None if change.needs is None else self.changes[change.needs]
            if change.needs is not None and needed is not None and needed.synced is None:
                self.changes[change.needs] = replace(needed, synced=index)
                self._unsynced[needed.node] = [n for n in self._unsynced.get(needed.node, []) if n != change.needs]

    # From changes to trees

    def open_at(self, crash: int) -> list[int]:
        """Return the changes that may be lost when the first `crash` operations have happened, in order."""
        return [n for n, change in enumerate(self.changes) if change.at < crash and not change.lasts(crash)]

    def persisted_operations(self, crash: int, chosen: Iterable[int]) -> frozenset[int]:
        """Return all durable changes, and of the others `chosen` and what they need."""
        result = {n for n, change in enumerate(self.changes) if change.at < crash and change.lasts(crash)}
        stack = list(chosen)
        while stack:
            number = stack.pop()
            if number in result:
                continue
            result.add(number)
            needed = self.changes[number].needs
            if needed is not None:
                stack.append(needed)
        return frozenset(result)

    def tree(self, persisted: Iterable[int], torn: Mapping[int, bytes] | None = None) -> dict[str, Content]:
        """Return every path that exists when the changes `kept` count. `torn`: what a write left behind."""
        names = {node: dict(entries) for node, entries in self._first_names.items()}
        files = dict(self._first_files)
        for number in sorted(persisted):
            change = self.changes[number]
            if change.kind is Kind.ADD:
                names.setdefault(change.node, {})[change.name] = change.child
            elif change.kind is Kind.REMOVE:
                names.setdefault(change.node, {}).pop(change.name, None)
            else:
                old = files.get(change.node, b"")
                data = (torn or {}).get(number, change.data)
                if change.kind is Kind.CUT:
                    files[change.node] = old[: change.offset].ljust(change.offset, b"\0")
                else:
                    before = old[: change.offset].ljust(change.offset, b"\0")
                    files[change.node] = before + data + old[change.offset + len(data) :]
        contents: dict[str, Content] = {}
        self._walk(self._top, "", names, files, contents)
        return contents

    def _walk(
        self,
        node: int,
        path: str,
        names: Mapping[int, Mapping[str, int]],
        files: Mapping[int, bytes],
        contents: dict[str, Content],
    ) -> None:
        for name, child in names.get(node, {}).items():
            inner = f"{path}/{name}"
            if child in self._is_directory:
                contents[inner] = None
                self._walk(child, inner, names, files, contents)
            else:
                contents[inner] = files.get(child, b"")


def fingerprint(tree: Mapping[str, Content]) -> str:
    """Return a hash that is equal for trees with equal content."""
    total = hashlib.sha256()
    for path in sorted(tree):
        content = tree[path]
        total.update(path.encode() + b"\0" + (b"d" if content is None else hashlib.sha256(content).digest()))
    return total.hexdigest()
