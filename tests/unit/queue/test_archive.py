"""Emptying the archive: in an order that a crash may cut short anywhere."""

import os
from pathlib import Path

import pytest

from efrit.queue.archive import sweep
from efrit.queue.layout import Area
from tests.support.queue_fakes import TestDisk

OLD = 1_000_000_000.0


class Counting(TestDisk):
    """Fails at the removal after the first `remaining`."""

    remaining = -1

    def remove(self, area: Area, name: str) -> bool:
        if self.remaining == 0:
            raise OSError(5, "crashed")
        self.remaining -= 1
        self.steps.append(f"remove {area} {name}")
        return super().remove(area, name)


@pytest.fixture
def disk(root: Path) -> Counting:
    made = Counting(root)
    made.open()
    for name in ("a", "b"):
        for kind in ("resp", "req"):
            (root / f"archive/{kind}_{name}.json").write_text("{}")
    made.steps.clear()
    return made


def empty(disk: Counting, before: float = 1e11) -> None:
    sweep(disk, before=before, is_live=lambda rid: False)


@pytest.mark.parametrize("removed", range(4))
def test_no_request_is_left_without_its_answer_wherever_a_sweep_ends(
    disk: Counting, root: Path, removed: int
) -> None:
    disk.remaining = removed
    with pytest.raises(OSError, match="crashed"):
        empty(disk)
    requests = {path.name[4:] for path in (root / "archive").glob("req_*")}
    answers = {path.name[5:] for path in (root / "archive").glob("resp_*")}
    assert requests <= answers
    disk.remaining = -1
    empty(disk)
    assert not list((root / "archive").iterdir())


def test_an_answer_stays_as_long_as_its_request(disk: Counting, root: Path) -> None:
    os.utime(root / "archive/resp_a.json", (OLD, OLD))
    changed = (root / "archive/req_a.json").stat().st_ctime
    os.utime(root / "archive/req_a.json", (changed + 1e9, changed + 1e9))
    empty(disk, before=changed + 1e8)
    assert {path.name for path in (root / "archive").iterdir()} == {"req_a.json", "resp_a.json"}


def test_what_was_moved_to_the_archive_is_there_for_good_before_anything_is_deleted(disk: Counting) -> None:
    empty(disk)
    steps = [step.rpartition("/")[2] for step in disk.steps]
    first = next(place for place, step in enumerate(steps) if step.startswith("remove archive req_"))
    assert {"sync_dir requests", "sync_dir processing", "sync_dir responses", "sync_dir tmp"} <= set(steps[:first])
    between = [step for step in steps if not step.startswith("remove archive req_")]
    assert between.index("sync_dir archive") < between.index("remove archive resp_a.json")


def test_nothing_is_synced_when_nothing_is_old(disk: Counting) -> None:
    empty(disk, before=OLD)
    assert disk.steps == []
