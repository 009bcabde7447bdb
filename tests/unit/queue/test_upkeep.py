"""A full volume: what still works on it, what is deleted for it, what is reported of it, and that it ends."""

import asyncio
import errno
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from efrit.errors import NoSpace, StorageError
from efrit.protocol import RequestReason, RequestState
from efrit.queue.archive import Sessions, prune_sessions, tidy
from efrit.queue.durable import Disk
from efrit.queue.layout import Area
from efrit.queue.limits import QueueLimits
from efrit.queue.recover import recover
from efrit.queue.reserve import FILES
from efrit.queue.retention import ArchiveLimits
from efrit.queue.space import PLENTY_BYTES, Space
from efrit.queue.submit import commit, submission
from efrit.queue.upkeep import LASTING_SECONDS, Upkeep
from tests.support.queue_fakes import a_request, rid, tree
from tests.support.timeout import TIMEOUT
from tests.unit.queue.conftest import Running, Start, answer_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOMY = Space(10 << 30, 100 << 30, 10**6, 10**7)
KEPT = ArchiveLimits(86400, 10_000, 1 << 30)


class SmallDisk(Disk):
    """A volume of so many files: each new name takes one, as on tmpfs. Nothing else is limited."""

    room = 10_000

    def _used(self) -> int:
        return sum(1 for path in self.root.rglob("*") if path.is_file())

    def _take(self) -> None:
        if self._used() >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")

    def create(self, area: Area, name: str, data: bytes, *, hurry: bool = True) -> int:
        self._take()
        return super().create(area, name, data, hurry=hurry)

    def occupy(self, area: Area, name: str, size: int) -> None:
        self._take()
        super().occupy(area, name, size)

    def link(self, area: Area, name: str, to_area: Area, to_name: str) -> None:
        self._take()
        super().link(area, name, to_area, to_name)

    def fill(self) -> None:
        """Leaves no space, the reserve apart."""
        self.room = self._used()

    def space(self) -> Space:
        return replace(ROOMY, free_inodes=max(0, self.room - self._used()), total_inodes=10_000)


async def test_on_a_full_volume_the_oldest_sessions_go_but_none_that_an_open_request_continues(
    start: Start, root: Path
) -> None:
    disk = SmallDisk(root)
    running = await start(QueueLimits(session_seconds=0), disk=disk)
    for name in ("continued", "idle"):
        (root / f"sessions/{name}.ndjson").write_text("{}\n")
    await running.queue.submit(a_request("chat", type="chat", options={"session": {"id": "continued"}}))
    since = root / "sessions/touched-since.ndjson"
    since.write_text("{}\n")
    # Clocks of files are coarse: a moment later, so that it surely counts as touched since.
    os.utime(since, (time.time() + 60, time.time() + 60))
    disk.fill()
    await running.until(lambda: not (root / "sessions/idle.ndjson").exists())
    assert {path.name for path in (root / "sessions").iterdir()} == {"continued.ndjson", "touched-since.ndjson"}


async def test_on_a_full_volume_a_session_that_was_used_a_while_ago_stays(start: Start, root: Path) -> None:
    disk = SmallDisk(root)
    running = await start(disk=disk)
    (root / "sessions/young.ndjson").write_text("{}\n")
    disk.fill()
    await running.until(lambda: running.queue.upkeep.exhausted)
    await running.queue.housekeeping.prune_sessions_if_short()
    assert (root / "sessions/young.ndjson").exists()


@pytest.mark.parametrize("place", ["requests/foreign.json", "processing/req_new.json"])
def test_no_session_goes_while_a_request_is_not_known(root: Path, place: str) -> None:
    disk = Disk(root)
    disk.open()
    (root / "sessions/old.ndjson").write_text("{}\n")
    (root / place).write_text("{}")

    def prune(all_known: bool) -> int:
        later = time.time() + 60
        return prune_sessions(disk, before=later, limit=5, sessions=Sessions(), is_known=lambda rid: all_known)

    assert prune(all_known=False) == 0
    assert prune(all_known=True) == 1
    disk.close()


async def full(start: Start, root: Path, *submitted: str, claimed: str | None = None) -> tuple[Running, SmallDisk]:
    """Return a running queue with these requests, on a volume that is full by now."""
    disk = SmallDisk(root)
    running = await start(disk=disk)
    for name in submitted:
        await running.queue.submit(a_request(name))
    if claimed is not None:
        running.emacs.claim(claimed)
        await running.until_state(claimed, RequestState.RUNNING)
    await running.until(lambda: running.queue.upkeep.reserve.is_whole)
    disk.fill()
    return running, disk


async def test_what_waits_can_be_cancelled_on_a_full_volume_however_many_there_are(start: Start, root: Path) -> None:
    names = [f"r{number}" for number in range(2 * FILES)]
    running, _ = await full(start, root, *names)
    for name in names:
        view = await running.queue.cancel(rid(name))
        assert answer_of(view).reason is RequestReason.CANCELLED
    assert not list((root / "requests").iterdir())


async def test_what_runs_is_ordered_to_stop_on_a_full_volume(start: Start, root: Path) -> None:
    running, _ = await full(start, root, "a", claimed="a")
    await running.queue.cancel(rid("a"))
    assert (root / "control/cancel_a").read_text() == "Cancelled\n"


async def test_what_never_came_can_be_cancelled_on_a_full_volume_and_does_not_run_when_it_comes(
    start: Start, root: Path
) -> None:
    running, disk = await full(start, root)
    view = await running.queue.decline(a_request("late"))
    assert answer_of(view).reason is RequestReason.CANCELLED
    disk.room = 10_000
    again, new = await running.queue.submit(a_request("late"))
    assert (again.state, new) == (RequestState.ANSWERED, False)


async def test_an_answer_that_took_the_place_of_its_request_waits_for_its_acknowledgement(
    start: Start, root: Path
) -> None:
    """Nothing else says that it came through the bridge: those of other clients are archived after a time."""
    running, disk = await full(start, root, "a")
    await running.queue.cancel(rid("a"))
    await running.queue.decline(a_request("b"))
    assert tidy(disk, before=time.time() + 1e6, is_live=lambda request_id: False).retired == ()
    assert {"responses/resp_a.json", "responses/resp_b.json"} <= tree(root)


async def test_a_cancel_cut_short_by_a_crash_on_a_full_volume_is_finished_at_the_start(
    start: Start, root: Path
) -> None:
    running, disk = await full(start, root, "a")
    await running.stop()
    (root / "requests/req_a.json").rename(root / "tmp/withdrawn_a.json")
    small = SmallDisk(root)
    small.room = disk.room
    again = await start(disk=small)
    view = await again.queue.view(rid("a"))
    assert answer_of(view).reason is RequestReason.CANCELLED


def test_a_bridge_comes_up_on_a_full_volume_though_it_has_answers_to_write(root: Path) -> None:
    disk = SmallDisk(root)
    disk.open()
    upkeep = Upkeep(disk, KEPT, lambda request_id: False)
    upkeep.tick()
    (root / "archive/req_lost.json").write_text('{"id":"lost","type":"eval","content":"1","via":"bridge"}')
    disk.fill()
    with pytest.raises(OSError, match="No space"):
        recover(disk, NOW)
    assert upkeep.retry_with_space(recover, disk, NOW, reserve=True) >= 1
    assert (root / "responses/resp_lost.json").exists()
    disk.close()


def test_old_requests_of_the_archive_give_way_to_a_new_one_and_young_ones_stay(root: Path) -> None:
    disk = SmallDisk(root)
    disk.open()
    for name in ("a", "b", "c"):
        (root / f"archive/resp_{name}.json").write_text("{}")
    later = [30.0]
    upkeep = Upkeep(disk, KEPT, lambda request_id: False, clock=lambda: time.time() + later[0])
    disk.fill()
    batch = [submission(a_request("new"))]

    def store() -> None:
        (result,) = commit(disk, batch)
        if result is not None:
            raise result

    with pytest.raises(NoSpace):
        upkeep.retry_with_space(store)
    assert len(list((root / "archive").iterdir())) == 3
    later[0] = 100.0
    upkeep.retry_with_space(store)
    assert tree(root) == {"requests/req_new.json"}
    disk.close()


async def test_the_volume_is_reported_to_be_full_and_to_have_room_again(start: Start, root: Path) -> None:
    running, disk = await full(start, root)
    with pytest.raises(NoSpace):
        await running.queue.submit(a_request("a"))
    failure = running.queue.upkeep.failure
    assert failure is not None
    assert failure.full
    assert "No space left" in failure.message
    disk.room = 10_000
    await running.until(lambda: running.queue.upkeep.failure is None)
    await running.queue.submit(a_request("a"))


def test_an_old_archive_is_deleted_until_a_low_volume_has_room(root: Path) -> None:
    disk = SmallDisk(root)
    disk.open()
    for number in range(50):
        (root / f"archive/resp_r{number}.json").write_text("{}")
    later = [30.0]
    upkeep = Upkeep(disk, KEPT, lambda request_id: False, clock=lambda: time.time() + later[0])
    disk.room = 0
    upkeep.tick()
    assert len(list((root / "archive").iterdir())) == 50, "they are too young"
    later[0] = 100.0
    while upkeep.tick():
        pass
    assert not list((root / "archive").iterdir())
    disk.close()


def test_what_emacs_cannot_write_counts_at_once_if_the_volume_is_full_and_else_when_it_lasts(root: Path) -> None:
    now = [1000.0]
    upkeep = Upkeep(Disk(root), KEPT, lambda request_id: False, clock=lambda: now[0])
    upkeep.report_emacs_problem("Writing to file: No space left on device, /queue/tmp/x")
    assert upkeep.failure is not None
    assert upkeep.failure.full
    upkeep.report_emacs_problem(None)
    assert upkeep.failure is None
    upkeep.report_emacs_problem("Writing to file: Input/output error, /queue/tmp/x")
    assert upkeep.failure is None, "it may be over in a moment"
    now[0] += LASTING_SECONDS
    upkeep.report_emacs_problem("Writing to file: Input/output error, /queue/tmp/y")
    assert upkeep.failure is not None
    assert (upkeep.failure.full, upkeep.failure.since) == (False, 1000.0)
    assert "/tmp/x" in upkeep.failure.message


async def test_half_of_the_reserve_is_given_up_for_answers_that_emacs_holds_back(start: Start, root: Path) -> None:
    running, _ = await full(start, root)
    running.queue.report_emacs_problem("No space left on device")
    for _ in range(2 * FILES):
        running.queue.upkeep.tick()
    assert len(running.queue.upkeep.reserve) == FILES // 2


async def test_the_reserve_is_made_again_once_there_is_room(start: Start, root: Path) -> None:
    running, disk = await full(start, root, "a", claimed="a")
    await running.queue.cancel(rid("a"))
    assert not running.queue.upkeep.reserve.is_whole
    disk.room = 10_000
    await running.until(lambda: running.queue.upkeep.reserve.is_whole)


async def test_a_failing_disk_is_reported_as_failing_and_found_to_work_again(start: Start, root: Path) -> None:
    class Failing(Disk):
        number = 0

        def create(self, area: Area, name: str, data: bytes, *, hurry: bool = True) -> int:
            if self.number:
                raise OSError(self.number, "Input/output error")
            return super().create(area, name, data, hurry=hurry)

    disk = Failing(root)
    running = await start(disk=disk)
    disk.number = errno.EIO
    with pytest.raises(StorageError):
        await running.queue.submit(a_request("a"))
    # It has failed for long enough by then.
    running.queue.upkeep._clock = lambda: time.time() + LASTING_SECONDS
    await running.until(lambda: running.queue.upkeep.failure is not None)
    assert running.queue.upkeep.failure is not None
    assert not running.queue.upkeep.failure.full
    disk.number = 0
    await running.until(lambda: running.queue.upkeep.failure is None)


@pytest.mark.parametrize(
    ("space", "low", "none"),
    [
        (ROOMY, False, False),
        (replace(ROOMY, free_bytes=PLENTY_BYTES - 1), True, False),
        (replace(ROOMY, free_bytes=0), True, True),
        (replace(ROOMY, free_inodes=100), True, False),
        (replace(ROOMY, free_inodes=0), True, True),
        (replace(ROOMY, free_inodes=0, total_inodes=0), False, False),
        (Space(200 << 10, 1 << 20, 50, 100), False, False),
        (Space(90 << 10, 1 << 20, 50, 100), True, False),
    ],
)
def test_little_room_is_a_tenth_of_a_small_volume_and_less_of_a_large_one(
    space: Space, low: bool, none: bool
) -> None:
    assert (space.low, space.none) == (low, none)


async def test_submissions_go_on_while_a_large_archive_is_looked_through(start: Start, root: Path) -> None:
    (root / "archive").mkdir(parents=True)
    for number in range(5000):
        (root / f"archive/resp_r{number}.json").write_text("{}")
    running = await start(QueueLimits(archive_requests=100))
    await asyncio.wait_for(running.queue.submit(a_request("a")), TIMEOUT)
    await running.until(lambda: running.queue.upkeep.retention.complete)
