"""What was put aside has a bound in each directory of the queue."""

import logging
import os
from pathlib import Path

import pytest

from efrit.queue.archive import delete_archived, sweep
from efrit.queue.durable import Disk
from efrit.queue.layout import Area
from efrit.queue.limits import QueueLimits
from efrit.queue.put_aside import MAX_ASIDE, OUTSIDE_ARCHIVE, delete_put_aside
from tests.unit.queue.conftest import Start


@pytest.fixture
def disk(root: Path) -> Disk:
    made = Disk(root)
    made.open()
    return made


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir() if entry.name.startswith(("aside_", "deleting_"))}


def put_aside(path: Path, *asides: str) -> float:
    """Put pipes there, all of them after everything that is there; return when they were changed."""
    before = max((entry.lstat().st_ctime for entry in path.iterdir()), default=0.0)
    for aside in asides:
        os.mkfifo(path / aside)
        # A clock of files has steps of milliseconds.
        while (path / aside).lstat().st_ctime <= before:
            (path / aside).chmod(0o600)
    return max((path / aside).lstat().st_ctime for aside in asides)


@pytest.mark.parametrize("area", OUTSIDE_ARCHIVE)
def test_the_newest_stay_for_their_time_and_the_others_go(disk: Disk, root: Path, area: Area) -> None:
    new = [f"aside_{number}" for number in range(90, 90 + MAX_ASIDE)]
    for aside in (f"aside_{number}" for number in range(10)):
        os.mkfifo(root / area / aside)
        # Whoever has put it there says when it was modified.
        os.utime(root / area / aside, (4e9, 4e9))
    changed = put_aside(root / area, *new)
    assert not delete_put_aside(disk, before=0)
    assert names(root / area) == set(new)
    delete_put_aside(disk, before=changed + 1)
    assert names(root / area) == set()


def test_what_is_only_called_so_stays(disk: Disk, root: Path) -> None:
    (root / "aside_notes").mkdir()
    (root / "aside_1.txt").write_text("x")
    (root / "processing/deleting_all").write_text("x")
    delete_put_aside(disk, before=5e9)
    assert names(root) == {"aside_notes", "aside_1.txt"}
    assert names(root / "processing") == {"deleting_all"}


def test_the_log_says_what_was_deleted_in_one_line(disk: Disk, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    put_aside(root / "progress", *(f"aside_{number}" for number in range(7)))
    with caplog.at_level(logging.WARNING, "efrit"):
        delete_put_aside(disk, before=5e9)
        delete_put_aside(disk, before=5e9)
    assert len(caplog.messages) == 1
    assert "'progress/aside_0'" in caplog.messages[0]
    assert caplog.messages[0].endswith(" and 2 more")


def test_a_call_takes_so_many_steps_and_the_next_goes_on(disk: Disk, root: Path) -> None:
    for number in range(250):
        (root / f"aside_1/{number}").mkdir(parents=True)
        (root / f"aside_1/{number}/file").write_text("x")
    calls = 1
    assert delete_put_aside(disk, before=5e9, steps=100)
    while delete_put_aside(disk, before=0, steps=100):
        calls += 1
    assert names(root) == set()
    assert 5 < calls < 12


def test_a_flood_is_looked_at_in_part(disk: Disk, root: Path) -> None:
    put_aside(root / "processing", *(f"aside_{number}" for number in range(300)))
    assert delete_put_aside(disk, before=0, steps=100)
    assert len(names(root / "processing")) == 200


def test_a_full_directory_in_the_archive_goes_with_its_time(disk: Disk, root: Path) -> None:
    (root / "archive/aside_x_1.json/inner").mkdir(parents=True)
    (root / "archive/aside_x_1.json/inner/file").write_text("x")
    (root / "archive/aside_y_1.json").mkdir()
    delete_put_aside(disk, before=5e9)
    assert names(root / "archive") == {"aside_x_1.json", "aside_y_1.json"}
    assert delete_archived(disk, ["aside_x_1.json"]) == 1
    delete_put_aside(disk, before=0)
    assert names(root / "archive") == {"aside_y_1.json"}


async def test_a_running_queue_deletes_what_its_time_is_over_of(start: Start) -> None:
    running = await start(limits=QueueLimits(archive_seconds=0.4))
    (running.root / "control/aside_1/inner").mkdir(parents=True)
    await running.until(lambda: names(running.root / "control") == set())


def test_a_queue_without_a_bridge_keeps_to_the_bound_in_its_archive_too(disk: Disk, root: Path) -> None:
    (root / "archive/aside_x_1.json").symlink_to(root)
    put_aside(root / "archive", *(f"aside_y_{number}.json" for number in range(MAX_ASIDE)))
    sweep(disk, before=0, is_live=lambda _: False)
    assert names(root / "archive") == {f"aside_y_{number}.json" for number in range(MAX_ASIDE)}
