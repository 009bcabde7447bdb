"""How much of the archive is kept, what is deleted first, and that a sweep looks at nothing else."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestId
from efrit.queue.layout import Area
from efrit.queue.retention import BATCH, KEEP_SECONDS, SLICE, ArchiveLimits, Retention
from tests.support.queue_fakes import TestDisk, rid

PLENTY = 1 << 40


class Looking(TestDisk):
    """Counts what it is asked about."""

    looks = 0

    def stat_any(self, area: Area, name: str) -> os.stat_result | None:
        self.looks += 1
        return super().stat_any(area, name)


@pytest.fixture
def disk(root: Path) -> Iterator[Looking]:
    made = Looking(root)
    made.open()
    yield made
    made.close()


def archive(root: Path, *names: str, size: int = 10) -> float:
    """Archive requests of these ids; return the time (epoch seconds) of the newest."""
    for name in names:
        for kind in ("req", "resp"):
            path = root / f"archive/{kind}_{name}.json"
            path.write_text("x" * size)
    return max((root / f"archive/resp_{name}.json").stat().st_ctime for name in names)


def archived_names(root: Path) -> set[str]:
    return {path.name for path in (root / "archive").iterdir()}


def walked(
    disk: TestDisk,
    now: float,
    *,
    seconds: float = PLENTY,
    requests: int = PLENTY,
    size: int = PLENTY,
    is_live: Callable[[RequestId], bool] = lambda rid: False,
) -> Retention:
    made = Retention(disk, ArchiveLimits(seconds, requests, size), is_live)
    while not made.walk(now):
        pass
    return made


def later(root: Path, seconds: float = KEEP_SECONDS + 1) -> float:
    """Return a time at which everything that lies there now is `seconds` old."""
    return max(path.stat().st_ctime for path in (root / "archive").iterdir()) + seconds


def test_what_is_over_its_time_goes_and_the_rest_stays(disk: Looking, root: Path) -> None:
    archive(root, "old")
    made = walked(disk, later(root), seconds=100)
    assert made.prune(later(root, 99)) == 0
    assert made.prune(later(root, 101)) == 1
    assert archived_names(root) == set()


def test_more_requests_than_are_kept_go_oldest_first(disk: Looking, root: Path) -> None:
    for name in ("a", "b", "c", "d"):
        archive(root, name)
    made = walked(disk, later(root), requests=2)
    by_age = sorted("abcd", key=lambda name: (root / f"archive/resp_{name}.json").stat().st_ctime)
    assert made.prune(later(root)) == 2
    assert archived_names(root) == {f"{kind}_{name}.json" for kind in ("req", "resp") for name in by_age[2:]}


def test_more_bytes_than_are_kept_go(disk: Looking, root: Path) -> None:
    archive(root, "a", "b", "c", size=100)
    made = walked(disk, later(root), size=450)
    assert made.index.size == 600
    assert made.prune(later(root)) == 1
    assert made.index.size == 400


def test_on_a_full_volume_as_many_more_go_as_are_asked_for(disk: Looking, root: Path) -> None:
    archive(root, "a", "b", "c")
    made = walked(disk, later(root))
    assert made.prune(later(root)) == 0
    assert made.prune(later(root), extra=2) == 2
    assert len(made.index) == 1


def test_what_was_archived_a_moment_ago_stays_even_on_a_full_volume(disk: Looking, root: Path) -> None:
    archive(root, "a")
    made = walked(disk, later(root), requests=0)
    assert made.prune(later(root, KEEP_SECONDS - 1), extra=5) == 0
    assert made.prune(later(root, KEEP_SECONDS + 1), extra=5) == 1


def test_what_an_open_request_may_need_stays_and_goes_once_it_is_over(disk: Looking, root: Path) -> None:
    archive(root, "live", "answered")
    (root / "responses/resp_answered.json").write_text("{}")
    live = {"live"}
    made = walked(disk, later(root), seconds=100, is_live=lambda request_id: request_id in live)
    assert made.prune(later(root, 200)) == 0
    live.clear()
    (root / "responses/resp_answered.json").unlink()
    while not made.walk(later(root)):
        pass
    assert made.prune(later(root, 200)) == 2


def test_a_request_that_became_open_since_the_walk_keeps_its_files(disk: Looking, root: Path) -> None:
    archive(root, "a")
    made = walked(disk, later(root), seconds=100)
    (root / "requests/req_a.json").write_text("{}")
    assert made.prune(later(root, 200)) == 0
    assert archived_names(root) == {"req_a.json", "resp_a.json"}


def test_files_of_no_request_go_with_their_time_too(disk: Looking, root: Path) -> None:
    (root / "archive/aside_x_1.json").write_text("x")
    (root / "archive/rejected_y.json").write_text("x")
    made = walked(disk, later(root), seconds=100)
    assert made.prune(later(root, 101)) == 2
    assert archived_names(root) == set()


def test_a_file_with_a_time_in_the_future_is_as_old_as_it_really_is(disk: Looking, root: Path) -> None:
    archive(root, "a")
    os.utime(root / "archive/resp_a.json", (4e9, 4e9))
    made = walked(disk, later(root), seconds=100)
    assert made.prune(later(root, 101)) == 1


def test_a_sweep_of_a_large_archive_with_nothing_to_delete_looks_at_no_file(disk: Looking, root: Path) -> None:
    archive(root, *(f"r{number}" for number in range(300)))
    made = walked(disk, later(root), seconds=1000)
    disk.looks = 0
    for _ in range(100):
        assert made.prune(later(root)) == 0
    assert disk.looks == 0


def test_a_sweep_looks_at_what_it_deletes_only(disk: Looking, root: Path) -> None:
    archive(root, *(f"r{number}" for number in range(300)))
    made = walked(disk, later(root), requests=299)
    disk.looks = 0
    assert made.prune(later(root)) == 1
    assert disk.looks < 12


def test_a_second_walk_looks_at_nothing_it_knows(disk: Looking, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(root, *(f"r{number}" for number in range(100)))
    made = walked(disk, later(root))
    archive(root, "new")
    disk.looks = 0
    while not made.walk(later(root)):
        pass
    assert disk.looks < 20
    assert made.index.holds("new", "resp_new.json")


def test_a_walk_and_a_deletion_come_in_slices(disk: Looking, root: Path) -> None:
    archive(root, *(f"r{number}" for number in range(SLICE)))
    made = Retention(disk, ArchiveLimits(100, 10**6, PLENTY), lambda request_id: False)
    now = later(root, 101)
    slices = 1
    while not made.walk(now):
        slices += 1
    assert slices >= 2
    assert made.prune(now) == BATCH


def test_no_more_is_remembered_than_is_kept_however_much_there_is(disk: Looking, root: Path) -> None:
    archive(root, *(f"r{number}" for number in range(200)))
    made = Retention(disk, ArchiveLimits(PLENTY, 20, PLENTY), lambda request_id: False)
    now, most = later(root), 0
    more = True
    while more:
        more = not made.walk(now, limit=10)
        most = max(most, len(made.index))
        while made.prune(now):
            pass
    assert most <= 40
    assert len(archived_names(root)) == 40
    assert len(made.index) == 20


def test_an_acknowledged_request_is_known_without_a_walk(disk: Looking, root: Path) -> None:
    made = walked(disk, 0.0, seconds=100)
    archive(root, "a")
    made.record_archived(rid("a"), later(root))
    assert made.due(later(root, 101))
    assert made.prune(later(root, 101)) == 1
    assert archived_names(root) == set()
