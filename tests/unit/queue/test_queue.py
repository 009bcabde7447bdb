"""The life of a request as the queue sees it: found, followed, answered, acknowledged."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from efrit.errors import NotAnswered, QueueBroken, RequestNotFound, StorageError
from efrit.protocol import RequestReason, RequestState
from efrit.queue.journal import COMPACT_ABOVE_BYTES
from efrit.queue.layout import Area
from efrit.queue.limits import QueueLimits
from efrit.queue.observe import LONG_ANSWER_BYTES
from efrit.queue.queue import DurableQueue
from efrit.queue.watch import _BYTES_AT_ONCE, Watcher
from tests.support.queue_fakes import Fault, TestDisk, a_request, rid, tree
from tests.support.timeout import TIMEOUT
from tests.unit.queue.conftest import Running, Start, answer_of

ANSWERED, RUNNING, QUEUED = RequestState.ANSWERED, RequestState.RUNNING, RequestState.QUEUED


def put_answer(root: Path, text: str) -> None:
    """Have `text` as the answer of request a, whole as soon as it can be seen."""
    written = root / "answer.tmp"
    written.write_text(text)
    written.replace(root / "responses/resp_a.json")


async def test_a_request_is_followed_from_file_to_answer(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    view = await running.until_state("a", RUNNING)
    assert view.attempt == 1
    assert view.started_time is not None
    running.emacs.answer("a", "42")
    running.emacs.archive("a")
    view = await running.until_state("a", ANSWERED)
    assert answer_of(view).result == "42"
    states = [view.state for view in running.views]
    assert states == [QUEUED, RUNNING, ANSWERED]


async def test_an_answer_is_reported_only_after_its_name_is_on_the_disk(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    synced: list[bool] = []
    running.queue.parts.on_change = lambda view: synced.append("sync_dir responses" in running.disk.steps)
    running.disk.steps.clear()
    running.emacs.do("a")
    await running.until(lambda: running.queue.index.count(ANSWERED) == 1)
    assert synced[-1]


async def test_an_answer_whose_sync_fails_is_reported_by_the_next_scan(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.disk.faults.append(Fault("sync_dir", when=lambda args: args[0] == Area.RESPONSES))
    running.emacs.do("a")
    await running.until_state("a", ANSWERED)


async def test_the_claim_journal_is_compacted_while_a_request_runs(running: Running, root: Path) -> None:
    await running.begin("a")
    with (root / "claims.log").open("a") as journal:
        journal.writelines(f"{number:0128} 1 boot1\n" for number in range(COMPACT_ABOVE_BYTES // 128 + 100))
    await running.until(lambda: (root / "claims.old").exists())
    await running.until(lambda: (root / "claims.log").stat().st_size < 100)
    assert (root / "claims.log").read_text() == "a 1 boot1\n"
    running.emacs.answer("a", "42")
    running.emacs.archive("a")
    await running.until_state("a", ANSWERED)


async def test_a_journal_that_cannot_be_compacted_is_reported_and_compacted_once_it_can_be(
    start: Start, root: Path
) -> None:
    disk = TestDisk(root, Fault("link", number=errno.EIO, when=lambda args: args[3] == "claims.new"))
    running = await start(QueueLimits(archive_seconds=0.4), disk=disk)
    with (root / "claims.log").open("a") as journal:
        journal.writelines(f"{number:0128} 1 boot1\n" for number in range(COMPACT_ABOVE_BYTES // 128 + 100))
    await running.until(lambda: not running.queue.upkeep.is_healthy)
    await running.until(lambda: (root / "claims.log").stat().st_size == 0)
    await running.until(lambda: running.queue.upkeep.is_healthy)


async def test_acknowledging_archives_the_pair_and_can_be_repeated(running: Running) -> None:
    await running.queue.submit(a_request("a", metadata={"uid": "1"}))
    running.emacs.do("a")
    await running.until_state("a", ANSWERED)
    for _ in range(2):
        await running.queue.acknowledge(rid("a"))
    assert tree(running.root) == {"archive/req_a.json", "archive/resp_a.json"}
    assert len(running.queue.index) == 0
    view = await running.queue.view(rid("a"))
    assert view.state is RequestState.ACKNOWLEDGED
    assert view.metadata == {"uid": "1"}


async def test_acknowledging_archives_a_request_its_emacs_left_behind(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    running.emacs.answer("a")
    await running.until_state("a", ANSWERED)
    await running.queue.acknowledge(rid("a"))
    assert tree(running.root) == {"archive/req_a.json", "archive/resp_a.json"}


async def test_what_is_not_answered_cannot_be_acknowledged(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    with pytest.raises(NotAnswered):
        await running.queue.acknowledge(rid("a"))
    with pytest.raises(RequestNotFound):
        await running.queue.acknowledge(rid("never"))
    with pytest.raises(RequestNotFound):
        await running.queue.view(rid("never"))


async def test_everything_is_found_again_after_a_restart(start: Start) -> None:
    first = await start()
    for name in ("waits", "runs", "answered", "done"):
        await first.queue.submit(a_request(name, options={"timeout": 7}))
    first.emacs.claim("runs", 2)
    first.emacs.do("answered")
    first.emacs.do("done")
    await first.until_state("done", ANSWERED)
    await first.queue.acknowledge(rid("done"))
    queue_id = first.queue.queue_id
    await first.stop()
    second = await start()
    assert {view.id: view.state for view in second.queue.views()} == {
        "waits": QUEUED,
        "runs": RUNNING,
        "answered": ANSWERED,
    }
    entry = second.entry("runs")
    assert (entry.attempt, entry.timeout) == (2, 7)
    assert second.queue.queue_id == queue_id


async def test_totals_are_kept_over_a_restart_and_nothing_is_counted_twice(start: Start) -> None:
    first = await start()
    for name in ("a", "b"):
        await first.queue.submit(a_request(name))
    first.emacs.do("a")
    first.emacs.do("b", status="error", reason="Interrupted", outcome="Failure")
    await first.until(lambda: first.queue.totals.processed == 2)
    await first.stop()
    second = await start()
    totals = second.queue.totals
    assert (totals.processed, totals.succeeded, totals.failed, totals.interrupted) == (2, 1, 1, 1)
    assert totals.average_seconds == 0.25


async def test_an_answer_that_is_acknowledged_stays_counted_though_the_bridge_is_killed(
    start: Start, root: Path, tmp_path: Path
) -> None:
    first = await start()
    # The scans, which store the totals too, are over for a minute.
    parts, scanner = first.queue.parts, first.queue.scanner
    parts.busy_seconds = parts.longest_idle_seconds = parts.shortest_sweep_seconds = 60
    beat = scanner.beat
    await first.until(lambda: scanner.beat != beat)
    await first.queue.submit(a_request("a"))
    first.emacs.do("a")
    await first.until(lambda: first.queue.totals.processed == 1)
    await first.queue.acknowledge(rid("a"))
    killed = shutil.copytree(root, tmp_path / "killed")
    queue = DurableQueue(killed)
    try:
        await queue.open()
        assert (queue.totals.processed, queue.totals.succeeded) == (1, 1)
    finally:
        await queue.close()


async def test_a_full_volume_keeps_no_answer_from_being_archived(start: Start) -> None:
    running = await start()
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until(lambda: running.queue.totals.processed == 1)
    running.disk.faults.append(Fault("create", errno.ENOSPC, lasting=True))
    await running.queue.acknowledge(rid("a"))
    assert {path.name for path in (running.root / "archive").iterdir()} == {"req_a.json", "resp_a.json"}


async def test_a_queue_with_an_answer_that_cannot_be_read_opens_once_it_can_be(start: Start, root: Path) -> None:
    first = await start()
    for name in ("a", "b"):
        await first.queue.submit(a_request(name))
        first.emacs.do(name)
    await first.stop()
    disk = TestDisk(root, Fault("read", errno.EIO, when=lambda args: args[0] is Area.RESPONSES, at=1))
    queue = DurableQueue(root, disk=disk)
    try:
        with pytest.raises(StorageError, match="could not read the queue"):
            await queue.open()
        assert not queue.is_open
        assert not queue.upkeep.is_healthy
        await queue.open()
        assert queue.is_open
        assert {view.id for view in queue.views()} == {"a", "b"}
    finally:
        await queue.close()


async def test_an_answer_is_counted_once_however_often_the_queue_is_opened(start: Start, root: Path) -> None:
    first = await start()
    for name in ("a", "b"):
        await first.queue.submit(a_request(name))
    first.emacs.do("a")
    first.emacs.claim("b")
    await first.stop()
    # As after a crash: the answer came and was not counted.
    (root / "totals").unlink(missing_ok=True)
    (root / "control/cancel_b").write_text("Cancelled")
    disk = TestDisk(root, Fault("read", errno.EIO, when=lambda args: args[0] is Area.CONTROL))
    queue = DurableQueue(root, disk=disk)
    ids: list[str] = []
    queue.parts.on_change = lambda view: ids.append(view.id)
    try:
        with pytest.raises(StorageError):
            await queue.open()
        await queue.open()
        assert sorted(ids) == ["a", "b"]
        assert queue.totals.processed == 1
    finally:
        await queue.close()


@pytest.mark.parametrize("way", ["create", "write later", "rename inside", "rename from outside"])
async def test_a_foreign_file_is_noticed_however_it_arrives(running: Running, way: str) -> None:
    text = json.dumps({"id": "foreign", "type": "eval", "content": "1", "options": {"timeout": 3}})
    target = running.root / "requests/other-name.json"
    if way == "create":
        target.write_text(text)
    elif way == "write later":
        with target.open("w") as file:
            file.write(text[:10])
            file.flush()
            await asyncio.sleep(0)
            file.write(text[10:])
    elif way == "rename inside":
        part = target.with_suffix(".part")
        part.write_text(text)
        part.rename(target)
    else:
        outside = running.root.parent / "outside.json"
        outside.write_text(text)
        outside.rename(target)
    await running.until_state("foreign", QUEUED)
    entry = running.entry("foreign")
    assert (entry.request_name, entry.timeout) == ("other-name.json", 3)


async def test_a_foreign_answer_waits_and_is_retired_when_it_is_old(start: Start) -> None:
    running = await start(QueueLimits(archive_seconds=1.5))
    (running.root / "requests/req_f.json").write_text('{"id":"f","type":"eval","content":"1"}')
    await running.until_state("f", QUEUED)
    await running.queue.submit(a_request("ours"))
    running.emacs.do("f")
    running.emacs.do("ours")
    await running.until_state("f", ANSWERED)
    await running.until(lambda: rid("f") not in running.queue.index)
    await running.until(lambda: "archive/resp_f.json" not in tree(running.root))
    files = tree(running.root)
    assert "responses/resp_ours.json" in files
    assert "archive/req_ours.json" in files
    assert "archive/req_f.json" not in files


async def test_a_request_its_client_took_away_is_forgotten(running: Running) -> None:
    (running.root / "requests/req_f.json").write_text('{"id":"f","type":"eval","content":"1"}')
    await running.until_state("f", QUEUED)
    (running.root / "requests/req_f.json").unlink()
    await running.until(lambda: len(running.queue.index) == 0)


async def test_an_unreadable_answer_is_reported_as_a_failure(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    put_answer(running.root, "{broken")
    view = await running.until_state("a", ANSWERED)
    assert answer_of(view).reason is RequestReason.INTERRUPTED
    assert "resp_a.json" in (answer_of(view).error or "")


async def test_an_answer_under_a_wrong_name_does_not_cross_over(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    put_answer(running.root, '{"id":"b","status":"success","result":"secret of b","execution_time":0}')
    view = await running.until_state("a", ANSWERED)
    assert answer_of(view).result is None


async def test_a_retry_restarts_the_clock_and_counts_the_attempt(running: Running) -> None:
    await running.begin("a")
    entry = running.entry("a")
    first = entry.running_since
    running.emacs.give_back("a")
    running.emacs.claim("a", 2)
    await running.until(lambda: entry.attempt == 2)
    assert entry.running_since != first


async def test_the_archive_is_never_listed_to_look(start: Start, root: Path) -> None:
    first = await start()
    await first.stop()
    listed: list[Area] = []

    class Listing(TestDisk):
        def names(self, area: Area) -> list[str]:
            listed.append(area)
            return super().names(area)

    running = await start(disk=Listing(root))
    listed.clear()
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until_state("a", ANSWERED)
    await running.queue.acknowledge(rid("a"))
    await running.queue.view(rid("a"))
    assert Area.ARCHIVE not in listed


async def test_a_removed_directory_ends_the_queue(root: Path) -> None:
    queue = DurableQueue(root)
    await queue.open()
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    shutil.rmtree(root / "requests")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(TIMEOUT):
            await task
    assert caught.group_contains(QueueBroken)
    await queue.close()


async def test_a_flood_of_names_leaves_turns_to_others(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for area in Area:
        (root / area).mkdir(parents=True, exist_ok=True)
    watcher, taken, turns = Watcher(root), set[str](), list[int]()
    # Each with the head of an event and a name, filled up to as much again.
    at_once = _BYTES_AT_ONCE // 32
    all_taken = asyncio.Event()

    def counted() -> None:
        read()
        names = {name for _, name in watcher._touched.names}
        turns.append(len(names - taken))
        taken.update(names)
        if len(taken) == at_once + 2:
            all_taken.set()

    read = watcher._read
    monkeypatch.setattr(watcher, "_read", counted)
    watcher.open()
    for number in range(at_once + 2):
        (root / Area.RESPONSES / f"resp_{number}.json").touch()
    async with asyncio.timeout(TIMEOUT):
        watching = asyncio.create_task(watcher.run())
        await all_taken.wait()
        watching.cancel()
    watcher.close()
    assert max(turns) == at_once


class BlindWatcher(Watcher):
    """As on a node that has no inotify instance left to give."""

    def open(self) -> None:
        return


async def test_without_inotify_the_scan_finds_everything(start: Start, root: Path) -> None:
    running = await start(watcher=BlindWatcher(root))
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until_state("a", ANSWERED)


async def test_a_thousand_names_at_once_are_all_found(running: Running) -> None:
    for number in range(1000):
        path = running.root / f"requests/req_n{number}.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, b'{"type":"eval","content":"1"}')
        os.close(fd)
    await running.until(lambda: running.queue.index.count(QUEUED) == 1000)


async def test_a_long_answer_is_shown_without_its_long_parts_and_read_whole_when_asked_for(
    running: Running,
) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.do("a", "x" * LONG_ANSWER_BYTES)
    view = await running.until_state("a", ANSWERED)
    assert (answer_of(view).reason, answer_of(view).result) == (RequestReason.SUCCEEDED, None)
    assert (view.response_bytes or 0) > LONG_ANSWER_BYTES
    whole = await running.queue.view(rid("a"))
    assert answer_of(whole).result == "x" * LONG_ANSWER_BYTES
