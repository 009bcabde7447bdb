"""Submitting: durable before it is promised, once, or without a trace."""

import asyncio
import errno
import json
from pathlib import Path

import pytest

from efrit.errors import (
    NoSpace,
    QueueFull,
    QueueNotReady,
    RequestConflict,
    RequestTooLarge,
    StorageError,
)
from efrit.protocol import RequestState
from efrit.queue.limits import QueueLimits
from efrit.queue.queue import DurableQueue
from efrit.queue.submit import Submission, commit
from tests.support.queue_fakes import Fault, TestDisk, a_request, rid, tree
from tests.unit.queue.conftest import Running, Start


async def test_a_submitted_request_lies_in_requests_with_all_its_keys(running: Running) -> None:
    request = a_request("a", options={"timeout": 5}, instance_id="ns/one", later={"x": 1})
    view, created = await running.queue.submit(request)
    assert (created, view.state, view.attempt) == (True, RequestState.QUEUED, 0)
    stored = json.loads((running.root / "requests/req_a.json").read_text())
    assert stored["options"]["timeout"] == 5
    assert stored["later"] == {"x": 1}
    assert tree(running.root) == {"requests/req_a.json"}


async def test_the_file_then_its_name_is_synced_before_submit_returns(running: Running) -> None:
    running.disk.steps.clear()
    await running.queue.submit(a_request("a"))
    steps = [step for step in running.disk.steps if "tmp" not in step or step.startswith(("create", "link"))]
    assert [step.split()[0] for step in steps] == ["create", "sync_file", "link", "sync_dir"]
    assert steps[-1] == "sync_dir requests"


async def test_the_same_request_again_is_the_same_request(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    view, created = await running.queue.submit(a_request("a", metadata={"other": 1}))
    assert (created, view.state) == (False, RequestState.QUEUED)


async def test_a_repeated_submission_is_confirmed_only_once_its_name_is_on_the_disk(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.disk.steps.clear()
    await running.queue.submit(a_request("a"))
    assert "sync_dir requests" in running.disk.steps


async def test_other_content_under_the_same_id_is_a_conflict(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    with pytest.raises(RequestConflict):
        await running.queue.submit(a_request("a", "(+ 2 2)"))


@pytest.mark.parametrize("stage", ["processing", "answered", "archived", "acknowledged"])
async def test_a_resubmission_is_recognised_at_every_stage(running: Running, stage: str) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    if stage != "processing":
        running.emacs.answer("a")
    if stage in ("archived", "acknowledged"):
        running.emacs.archive("a")
    if stage == "acknowledged":
        await running.until_state("a", RequestState.ANSWERED)
        await running.queue.acknowledge(rid("a"))
    _, created = await running.queue.submit(a_request("a"))
    assert not created
    with pytest.raises(RequestConflict):
        await running.queue.submit(a_request("a", "(other)"))
    assert not (running.root / "requests/req_a.json").exists()


async def test_a_resubmission_is_recognised_after_a_restart(start: Start) -> None:
    first = await start()
    await first.queue.submit(a_request("a"))
    await first.stop()
    second = await start()
    assert (await second.queue.submit(a_request("a")))[1] is False
    with pytest.raises(RequestConflict):
        await second.queue.submit(a_request("a", "(other)"))


async def test_two_at_the_same_moment_make_one_request(running: Running) -> None:
    answers = await asyncio.gather(*(running.queue.submit(a_request("a")) for _ in range(10)))
    assert sorted(created for _, created in answers) == [False] * 9 + [True]


async def test_two_different_ones_at_the_same_moment_make_one_and_a_conflict(running: Running) -> None:
    answers = await asyncio.gather(
        *(running.queue.submit(a_request("a", f"(+ {n} 1)")) for n in range(5)), return_exceptions=True
    )
    assert sum(isinstance(answer, RequestConflict) for answer in answers) == 4


async def test_a_client_that_hangs_up_leaves_a_whole_request(running: Running) -> None:
    task = asyncio.create_task(running.queue.submit(a_request("a")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await running.until_state("a", RequestState.QUEUED)
    assert (await running.queue.submit(a_request("a")))[1] is False


async def test_a_full_queue_refuses_and_takes_again_when_answers_came(start: Start) -> None:
    running = await start(QueueLimits(max_pending=2))
    await running.queue.submit(a_request("a"))
    await running.queue.submit(a_request("b"))
    with pytest.raises(QueueFull) as caught:
        await running.queue.submit(a_request("c"))
    assert caught.value.retry_after > 0
    assert (await running.queue.submit(a_request("a")))[1] is False
    running.emacs.do("a")
    await running.until_state("a", RequestState.ANSWERED)
    assert (await running.queue.submit(a_request("c")))[1] is True


async def test_a_burst_never_exceeds_the_limit(start: Start, root: Path) -> None:
    running = await start(QueueLimits(max_pending=10))
    answers = await asyncio.gather(
        *(running.queue.submit(a_request(f"r{n}")) for n in range(50)), return_exceptions=True
    )
    assert sum(isinstance(answer, QueueFull) for answer in answers) == 40
    assert len(list((root / "requests").iterdir())) == 10


async def test_size_is_counted_in_bytes_of_utf8(start: Start) -> None:
    running = await start(QueueLimits(max_request_bytes=10))
    await running.queue.submit(a_request("a", "ä" * 5))
    with pytest.raises(RequestTooLarge):
        await running.queue.submit(a_request("b", "ä" * 6))


async def test_metadata_is_bounded_and_reported(running: Running) -> None:
    view, _ = await running.queue.submit(a_request("a", metadata={"uid": "u-1"}))
    assert view.metadata == {"uid": "u-1"}
    with pytest.raises(RequestTooLarge, match="metadata"):
        await running.queue.submit(a_request("b", metadata={"x": "y" * 5000}))


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOSPC, NoSpace), (errno.EDQUOT, NoSpace), (errno.EIO, StorageError)]
)
@pytest.mark.parametrize("method", ["create", "sync_file", "link", "sync_dir"])
async def test_a_failing_step_leaves_nothing_and_the_next_try_succeeds(
    running: Running, method: str, number: int, expected: type[StorageError]
) -> None:
    running.disk.faults.append(Fault(method, number))
    with pytest.raises(expected):
        await running.queue.submit(a_request("a"))
    assert tree(running.root) == set()
    assert running.queue.index.open_count == 0
    assert (await running.queue.submit(a_request("a")))[1] is True
    assert tree(running.root) == {"requests/req_a.json"}
    assert [view.state for view in running.views] == [RequestState.QUEUED]


async def test_a_request_claimed_before_its_sync_failed_is_not_forgotten(running: Running) -> None:

    def claimed(args: tuple[object, ...]) -> bool:
        if args[0] == "requests" and (running.root / "requests/req_a.json").exists():
            running.emacs.claim("a")
            return True
        return False

    running.disk.faults.append(Fault("sync_dir", errno.EIO, when=claimed))
    with pytest.raises(StorageError):
        await running.queue.submit(a_request("a"))
    await running.until_state("a", RequestState.RUNNING)
    assert (await running.queue.submit(a_request("a")))[1] is False


def test_a_batch_shares_one_directory_sync_and_each_gets_its_own_verdict(root: Path) -> None:
    disk = TestDisk(root)
    disk.open()
    (root / "archive/resp_b.json").write_text("{}")
    disk.faults.append(Fault("sync_file", errno.EIO, at=2))
    disk.steps.clear()
    results = commit(disk, [Submission(rid(name), b"{}") for name in "abcd"])
    assert [type(result).__name__ for result in results] == ["NoneType", "IdTaken", "StorageError", "NoneType"]
    assert disk.steps.count("sync_dir requests") == 1
    assert tree(root) == {"requests/req_a.json", "requests/req_d.json", "archive/resp_b.json"}
    disk.close()


async def test_a_burst_is_committed_in_few_batches(running: Running) -> None:
    running.disk.steps.clear()
    await asyncio.gather(*(running.queue.submit(a_request(f"r{n}")) for n in range(200)))
    assert running.disk.steps.count("sync_file") == 200
    assert running.disk.steps.count("sync_dir requests") <= 10


async def test_a_closed_queue_takes_nothing(root: Path) -> None:
    queue = DurableQueue(root)
    with pytest.raises(QueueNotReady):
        await queue.submit(a_request("a"))
    await queue.close()
