"""Cancelling: what waits is answered without running, what runs is ordered to stop, one answer wins."""

import asyncio
import errno
import json
import random
from pathlib import Path

import pytest

from efrit.errors import RequestNotFound, StorageError
from efrit.protocol import RequestReason, RequestState
from tests.support.queue_fakes import Fault, TestDisk, a_request, rid, tree
from tests.unit.queue.conftest import Running, Start, answer_of


async def test_a_waiting_request_is_answered_cancelled_and_never_runs(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    view = await running.queue.cancel(rid("a"))
    assert view.state is RequestState.ANSWERED
    assert (answer_of(view).reason, answer_of(view).attempt) == (RequestReason.CANCELLED, 0)
    assert tree(running.root) == {"archive/req_a.json", "responses/resp_a.json"}
    assert running.views[-1].state is RequestState.ANSWERED


async def test_what_is_to_be_cancelled_only_while_it_waits_goes_on_once_it_runs(running: Running) -> None:
    for name in ("waits", "runs"):
        await running.queue.submit(a_request(name))
    running.emacs.claim("runs")
    view = await running.queue.cancel(rid("runs"), running=False)
    again = await running.queue.decline(a_request("runs"), running=False)
    assert not view.state.final
    assert not again.state.final
    assert "control/cancel_runs" not in tree(running.root)
    assert (await running.queue.cancel(rid("waits"), running=False)).state is RequestState.ANSWERED


async def test_what_is_cancelled_before_it_comes_does_not_run_when_it_comes(running: Running) -> None:
    declined = await running.queue.decline(a_request("a"))
    late, new = await running.queue.submit(a_request("a"))
    assert (declined.state, late.state, new) == (RequestState.ANSWERED, RequestState.ANSWERED, False)
    assert (answer_of(late).reason, answer_of(late).attempt) == (RequestReason.CANCELLED, 0)
    assert tree(running.root) == {"archive/req_a.json", "responses/resp_a.json"}


async def test_what_is_here_already_is_cancelled_as_ever(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    assert (await running.queue.decline(a_request("a"))).state is RequestState.ANSWERED
    await running.queue.acknowledge(rid("a"))
    again = await running.queue.decline(a_request("a"))
    assert again.state is RequestState.ACKNOWLEDGED
    assert tree(running.root) == {"archive/req_a.json", "archive/resp_a.json"}


async def test_a_submission_and_its_cancel_that_arrive_together_end_in_one_answer(running: Running) -> None:
    for number in range(20):
        name = f"r{number}"
        await asyncio.gather(running.queue.submit(a_request(name)), running.queue.decline(a_request(name)))
        view = await running.queue.view(rid(name))
        assert answer_of(view).reason is RequestReason.CANCELLED


async def test_the_answer_is_on_the_disk_before_the_cancel_is_confirmed(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.disk.steps.clear()
    await running.queue.cancel(rid("a"))
    names = [step.split()[0] for step in running.disk.steps]
    assert names[:5] == ["rename", "create", "sync_file", "link", "sync_dir"]
    assert running.disk.steps[4] == "sync_dir responses"


async def test_a_foreign_request_can_be_cancelled_under_its_own_name(running: Running) -> None:
    (running.root / "requests/odd.json").write_text('{"id":"f","type":"eval","content":"1"}')
    await running.until_state("f", RequestState.QUEUED)
    view = await running.queue.cancel(rid("f"))
    assert view.state is RequestState.ANSWERED
    assert tree(running.root) == {"archive/req_f.json", "responses/resp_f.json"}


async def test_a_running_request_gets_an_order_and_the_first_reason_stays(running: Running) -> None:
    await running.begin("a")
    view = await running.queue.cancel(rid("a"))
    assert view.state is RequestState.RUNNING
    entry = running.entry("a")
    await running.queue.stop(entry, RequestReason.TIMED_OUT)
    assert (running.root / "control/cancel_a").read_text() == "Cancelled\n"
    assert entry.stop is not None
    assert entry.stop.reason is RequestReason.CANCELLED


async def test_the_order_to_stop_is_on_the_disk_before_anybody_is_interrupted(running: Running) -> None:
    await running.begin("a")
    running.disk.steps.clear()
    await running.queue.cancel(rid("a"))
    assert [step.split()[0] for step in running.disk.steps] == ["create", "sync_file", "link", "sync_dir"]
    assert running.disk.steps[-1] == "sync_dir control"


async def test_a_request_claimed_unnoticed_gets_an_order_too(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    await running.queue.cancel(rid("a"))
    assert (running.root / "control/cancel_a").exists()


async def test_an_answered_request_keeps_its_answer(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.do("a", "done")
    await running.until_state("a", RequestState.ANSWERED)
    for _ in range(2):
        view = await running.queue.cancel(rid("a"))
        assert answer_of(view).reason is RequestReason.SUCCEEDED
        await running.queue.acknowledge(rid("a"))


async def test_an_unknown_request_cannot_be_cancelled(running: Running) -> None:
    with pytest.raises(RequestNotFound):
        await running.queue.cancel(rid("never"))


@pytest.mark.parametrize("method", ["create", "sync_file", "link"])
async def test_a_cancel_that_finds_no_room_writes_the_answer_over_the_request(running: Running, method: str) -> None:
    await running.queue.submit(a_request("a"))
    running.disk.faults.append(Fault(method))
    cancelled = await running.queue.cancel(rid("a"))
    assert cancelled.state is RequestState.ANSWERED
    assert answer_of(cancelled).reason is RequestReason.CANCELLED
    assert tree(running.root) == {"responses/resp_a.json"}
    await running.queue.acknowledge(rid("a"))
    assert tree(running.root) == {"archive/resp_a.json"}


async def test_a_cancel_that_cannot_write_at_all_leaves_the_request_waiting(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.disk.faults.append(Fault("create", errno.EIO, lasting=True))
    with pytest.raises(StorageError):
        await running.queue.cancel(rid("a"))
    assert tree(running.root) == {"requests/req_a.json"}
    running.disk.faults.clear()
    assert (await running.queue.cancel(rid("a"))).state is RequestState.ANSWERED


async def test_a_cancel_that_cannot_archive_the_request_leaves_nothing_once_it_is_acknowledged(
    start: Start, root: Path
) -> None:
    disk = TestDisk(root, Fault("rename", when=lambda args: args[2] == "archive"))
    running = await start(disk=disk)
    await running.queue.submit(a_request("a"))
    assert (await running.queue.cancel(rid("a"))).state is RequestState.ANSWERED
    await running.queue.acknowledge(rid("a"))
    assert tree(root) == {"archive/req_a.json", "archive/resp_a.json"}


async def test_the_order_survives_a_restart(start: Start) -> None:
    first = await start()
    await first.queue.submit(a_request("a"))
    first.emacs.claim("a")
    await first.queue.cancel(rid("a"))
    await first.stop()
    second = await start()
    entry = second.entry("a")
    assert entry.stop is not None
    assert entry.stop.reason is RequestReason.CANCELLED


@pytest.mark.parametrize("seed", range(5))
async def test_cancel_and_claim_racing_give_one_answer_each(running: Running, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - only a choice of order
    names = [f"r{number}" for number in range(30)]
    await asyncio.gather(*(running.queue.submit(a_request(name)) for name in names))

    async def emacs(name: str) -> bool:
        await asyncio.sleep(chance.random() * 0.02)
        try:
            await asyncio.to_thread(running.emacs.claim, name)
        except FileNotFoundError:
            return False
        if (running.root / f"control/cancel_{name}").exists():
            running.emacs.answer(name, status="error", reason="Cancelled", outcome="Failure")
        else:
            running.emacs.answer(name)
        running.emacs.archive(name)
        return True

    async def cancel(name: str) -> None:
        await asyncio.sleep(chance.random() * 0.02)
        await running.queue.cancel(rid(name))

    results = await asyncio.gather(*(emacs(name) for name in names), *(cancel(name) for name in names))
    for name, ran in zip(names, results, strict=False):
        view = await running.until_state(name, RequestState.ANSWERED)
        assert ran or answer_of(view).reason is RequestReason.CANCELLED
        assert sum(view.id == name and view.state is RequestState.ANSWERED for view in running.views) == 1
    answers = sorted(path.name for path in (running.root / "responses").iterdir())
    assert answers == sorted(f"resp_{name}.json" for name in names)
    assert json.loads((running.root / "responses/resp_r0.json").read_text())["id"] == "r0"
