"""Where temporary directories are made."""

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
from tests.scratch import (
    DAY_SECONDS,
    FAILED,
    keep_for_a_day,
    owned_directory,
    owned_for_a_while,
    remove_left_behind,
    use_memory,
)
from tests.support.laptop import laptop


@pytest.mark.parametrize(
    ("own", "place", "enough", "chosen"),
    [
        (None, "memory", 1, "memory"),
        (None, "memory", 1 << 60, None),
        (None, "absent", 1, None),
        ("/mine", "memory", 1, "/mine"),
    ],
    ids=["there", "too small", "absent", "a place of one's own"],
)
def test_temporary_directories_are_in_memory_where_that_is_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str | None, place: str, enough: int, chosen: str | None
) -> None:
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    # Set first, so that it is put back in every case.
    monkeypatch.setenv("TMPDIR", own or "")
    if own is None:
        monkeypatch.delenv("TMPDIR")
    use_memory(tmp_path / place, enough)
    expected = str(tmp_path / chosen) if chosen == "memory" else chosen
    assert os.environ.get("TMPDIR") == expected
    if chosen == "memory":
        assert tempfile.gettempdir() == expected


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


def own_a_laptop_and_crash_states(told: Connection, memory: Path) -> None:
    with laptop({}) as program, owned_for_a_while("storage", memory) as states:
        told.send((Path(program.env["HOME"]), states))
        time.sleep(1000)


def test_the_home_of_a_laptop_and_what_is_in_memory_beside_have_an_owner_too(place: Path) -> None:
    memory = place / "memory"
    memory.mkdir()
    ours, theirs = CONTEXT.Pipe(duplex=False)
    with ours, theirs:
        process = CONTEXT.Process(target=own_a_laptop_and_crash_states, args=(theirs, memory))
        process.start()
        home, states = ours.recv()
    remove_left_behind(memory)
    assert (home / "config.json").exists()
    assert states.exists()
    process.kill()
    process.join()
    process.close()
    remove_left_behind(memory)
    assert list(place.iterdir()) == [memory]
    assert list(memory.iterdir()) == []


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


def test_the_directory_of_this_run_stays(tmp_path: Path) -> None:
    remove_left_behind()
    assert tmp_path.exists()


def test_what_a_process_removes_itself_is_gone_and_stays_so(place: Path) -> None:
    with owned_for_a_while("run") as mine:
        remove_left_behind()
        assert mine.exists()
    remove_left_behind()
    assert list(place.iterdir()) == []


def test_the_directory_of_a_run_that_failed_is_kept_for_a_day(place: Path) -> None:
    with killed_at_the_end() as theirs:
        keep_for_a_day(theirs)
    remove_left_behind()
    assert theirs.exists()
    yesterday = time.time() - DAY_SECONDS - 1
    os.utime(theirs / FAILED, (yesterday, yesterday))
    remove_left_behind()
    assert not theirs.exists()


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
