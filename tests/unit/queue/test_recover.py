"""Starting after a crash: every step the bridge can die in is finished or undone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from efrit.protocol import RequestReason, RequestState
from efrit.queue.archive import acknowledge
from efrit.queue.cancel import decline_without_request
from efrit.queue.durable import Disk
from efrit.queue.recover import identity, recover
from tests.support.queue_fakes import ScriptedEmacs, TestDisk, a_request, rid, tree
from tests.unit.queue.conftest import Start, answer_of

NOW = datetime(2026, 1, 3, tzinfo=UTC)


@pytest.fixture
def disk(root: Path) -> Disk:
    made = Disk(root)
    made.open()
    return made


def test_half_written_files_of_a_bridge_are_swept_and_those_of_emacs_are_not(disk: Disk, root: Path) -> None:
    (root / "tmp/bridge_0123").write_text("{")
    (root / "tmp/emacs_17").write_text("{")
    assert recover(disk, NOW) == 1
    assert tree(root) == {"tmp/emacs_17"}


@pytest.mark.parametrize("stage", ["renamed", "answered", "archived answer"])
async def test_a_withdrawal_cut_short_is_finished(start: Start, root: Path, stage: str) -> None:
    first = await start()
    await first.queue.submit(a_request("a"))
    await first.stop()
    (root / "requests/req_a.json").rename(root / "tmp/withdrawn_a.json")
    answer = '{"id":"a","status":"error","reason":"Cancelled","outcome":"Failure"}'
    if stage == "answered":
        (root / "responses/resp_a.json").write_text(answer)
    elif stage == "archived answer":
        (root / "archive/resp_a.json").write_text(answer)
    second = await start()
    view = await second.queue.view(rid("a"))
    assert view.state in (RequestState.ANSWERED, RequestState.ACKNOWLEDGED)
    assert answer_of(view).reason is RequestReason.CANCELLED
    assert not (root / "tmp/withdrawn_a.json").exists()
    assert (root / "archive/req_a.json").exists()


async def test_a_request_archived_without_its_answer_is_answered(start: Start, root: Path) -> None:
    """A crash has kept the last rename of Emacs and lost the link before it."""
    first = await start()
    await first.queue.submit(a_request("a"))
    await first.stop()
    (root / "requests/req_a.json").rename(root / "archive/req_a.json")
    (root / "archive/req_foreign.json").write_text('{"id":"foreign","type":"eval","content":"1"}')
    second = await start()
    view = await second.queue.view(rid("a"))
    assert view.state is RequestState.ANSWERED
    assert answer_of(view).reason is RequestReason.INTERRUPTED
    assert {view.id for view in second.queue.views()} == {"a"}


@pytest.mark.parametrize("area", ["requests", "processing"])
async def test_a_request_that_is_being_claimed_is_not_taken_for_one_whose_answer_is_lost(
    start: Start, root: Path, area: str
) -> None:
    """On a shared queue Emacs links it into archive/ meanwhile, and may end before it takes the link back."""
    first = await start()
    await first.queue.submit(a_request("a"))
    await first.stop()
    (root / "requests/req_a.json").rename(root / area / "req_a.json")
    (root / "archive/req_a.json").hardlink_to(root / area / "req_a.json")

    second = await start()

    assert not (await second.queue.view(rid("a"))).state.final


def test_an_archived_answer_without_a_request_beside_it_is_not_taken_for_a_request(disk: Disk, root: Path) -> None:
    """As a cancel leaves it that came on a full volume, before its request."""
    decline_without_request(disk, rid("a"), NOW)
    acknowledge(disk, rid("a"))
    assert recover(disk, NOW) == 0
    assert tree(root) == {"archive/resp_a.json"}


def test_orders_for_requests_that_are_over_are_swept(disk: Disk, root: Path) -> None:
    emacs = ScriptedEmacs(root)
    for name in ("waits", "runs", "answered"):
        (root / f"requests/req_{name}.json").write_text("{}")
        (root / f"control/cancel_{name}").write_text("Cancelled\n")
    (root / "control/cancel_gone").write_text("Cancelled\n")
    (root / "claims.log").touch()
    emacs.claim("runs")
    emacs.do("answered")
    recover(disk, NOW)
    assert {path.name for path in (root / "control").iterdir()} == {"cancel_waits", "cancel_runs"}


def test_the_identity_is_made_once_and_differs_between_volumes(disk: Disk, root: Path, tmp_path: Path) -> None:
    first_identity = identity(disk)
    assert identity(disk) == first_identity
    disk.close()
    disk.open()
    assert identity(disk) == first_identity
    other = Disk(tmp_path / "other")
    other.open()
    assert identity(other) != first_identity


def test_a_new_identity_is_on_the_disk_before_it_is_reported(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    disk.steps.clear()
    identity(disk)
    assert disk.steps == ["append . identity", "sync_file", "sync_dir ."]
    disk.close()


@pytest.mark.parametrize("crash_after", range(8))
async def test_a_crash_after_any_step_of_a_submission_leaves_all_of_it_or_nothing(
    start: Start, root: Path, crash_after: int
) -> None:
    """Every later call fails too, as after a SIGKILL; then a new bridge starts on what is there."""

    class Crashing(TestDisk):
        remaining = -1

        def _step(self, method: str, *args: object) -> None:
            if self.remaining == 0:
                raise OSError(5, "crashed")
            self.remaining -= 1

        def remove(self, area: object, name: str) -> bool:
            if self.remaining == 0:
                raise OSError(5, "crashed")
            return super().remove(area, name)  # type: ignore[arg-type]

    disk = Crashing(root)
    first = await start(disk=disk)
    disk.remaining = crash_after
    stored = True
    try:
        await first.queue.submit(a_request("a"))
    except Exception:  # noqa: BLE001 - whatever a dying disk raises
        stored = False
    await first.stop()
    second = await start()
    present = [view.id for view in second.queue.views()]
    assert present == ["a"] if stored else present in ([], ["a"])
    assert tree(root) <= {"requests/req_a.json"}
    assert (await second.queue.submit(a_request("a")))[0].state is RequestState.QUEUED
