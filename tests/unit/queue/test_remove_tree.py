"""A directory is removed with all below it, and nothing that is not."""

import os
from pathlib import Path

import pytest

from efrit.queue.remove_tree import is_left, remove_tree
from tests.support.file_modes import modes_hold


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    path = tmp_path / "parent"
    path.mkdir()
    return path


def remove(parent: Path, name: str, steps: int = 1000) -> int:
    fd = os.open(parent, os.O_RDONLY)
    try:
        return remove_tree(fd, name, steps)
    finally:
        os.close(fd)


def test_nothing_outside_is_touched(parent: Path) -> None:
    outside = parent.with_name("outside")
    outside.mkdir(mode=0o750)
    (outside / "kept").write_text("x")
    (parent / "tree/inner").mkdir(parents=True)
    (parent / "tree/link").symlink_to(outside)
    (parent / "tree/inner/link").symlink_to(outside / "kept")
    (parent / "link").symlink_to(outside)
    remove(parent, "tree")
    remove(parent, "link")
    assert list(parent.iterdir()) == []
    assert (outside / "kept").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o750


def test_what_the_steps_are_not_enough_for_has_names_that_say_so(parent: Path) -> None:
    (parent / "tree/a/b").mkdir(parents=True)
    (parent / "tree/file").write_text("x")
    assert remove(parent, "tree", steps=3) == 3
    left = [entry.name for entry in parent.iterdir()]
    assert left
    assert all(is_left(name) for name in left)
    for name in left:
        remove(parent, name)
    assert list(parent.iterdir()) == []


def test_no_depth_is_too_deep(parent: Path) -> None:
    fd = os.open(parent, os.O_RDONLY)
    for name in ("tree", *("d" for _ in range(3000))):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    remove(parent, "tree", steps=10_000)
    assert list(parent.iterdir()) == []


def test_directories_that_nobody_may_enter_or_move_go_too(parent: Path) -> None:
    (parent / "tree/inner/innermost").mkdir(parents=True)
    (parent / "tree/inner/innermost/file").write_text("x")
    for path in ("tree/inner/innermost", "tree/inner", "tree"):
        (parent / path).chmod(0)
    with modes_hold():
        remove(parent, "tree")
    assert list(parent.iterdir()) == []


def test_what_cannot_be_removed_ends_nothing(parent: Path) -> None:
    assert remove(parent, "missing") == 1
