"""Temporary directories go when whoever made them is dead, and not before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.forks import CONTEXT
from tests.scratch import owned_directory, remove_left_behind


def own_until_killed(told: Connection) -> None:
    told.send(owned_directory("run"))
    time.sleep(1000)


@contextlib.contextmanager
def killed_at_the_end() -> Iterator[Path]:
    """Yield the directory of a process that is killed behind the block."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=own_until_killed, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()
        theirs.close()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_belongs_to_a_process_is_removed_by_the_next_run_once_that_is_dead(place: Path) -> None:
    (place / "another").mkdir()
    with killed_at_the_end() as theirs:
        (theirs / "inside").mkdir()
        (theirs / "inside" / "file").touch()
        remove_left_behind()
        assert (theirs / "inside" / "file").exists()
    assert theirs.exists()
    remove_left_behind()
    assert [path.name for path in place.iterdir()] == ["another"]


def own_with_a_fork(told: Connection) -> None:
    directory = owned_directory("run")
    fork = os.fork()
    if fork:
        told.send((directory, fork))
    time.sleep(1000)


def test_what_belongs_to_a_process_stays_as_long_as_one_of_its_forks_lives(place: Path) -> None:
    ours, theirs = CONTEXT.Pipe(duplex=False)
    with ours, theirs:
        process = CONTEXT.Process(target=own_with_a_fork, args=(theirs,))
        process.start()
        directory, fork = ours.recv()
    ended = os.pidfd_open(fork)
    try:
        process.kill()
        process.join()
        process.close()
        remove_left_behind()
        assert directory.exists()
    finally:
        signal.pidfd_send_signal(ended, signal.SIGKILL)
        select.select([ended], [], [])
        os.close(ended)
    remove_left_behind()
    assert list(place.iterdir()) == []


def test_a_directory_that_was_removed_before_it_was_locked_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    removed: list[Path] = []

    def late(descriptor: int, operation: int) -> None:
        if not removed:
            (found,) = place.iterdir()
            removed.append(found)
            shutil.rmtree(found)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    mine = owned_directory("run")
    assert mine.exists()
    assert removed != [mine]
