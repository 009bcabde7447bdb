"""A queue that ends with its pod: what never began is given back, and nothing that may have begun."""

import asyncio

import pytest

from efrit.errors import QueueNotReady, RequestNotFound
from efrit.protocol import RequestReason, RequestState
from efrit.protocol.view import RequestView
from efrit.queue.limits import QueueLimits
from tests.support.queue_fakes import Fault, TestDisk, a_request, rid, tree
from tests.unit.queue.conftest import Running, Start, answer_of


def is_given_back(view: RequestView) -> bool:
    return view.state is RequestState.ANSWERED and answer_of(view).is_given_back


async def test_what_waits_is_given_back_once_and_for_all(running: Running) -> None:
    await running.queue.submit(a_request("a"))

    assert await running.queue.give_back() == 1

    assert tree(running.root) == set()
    assert is_given_back(running.views[-1])
    assert is_given_back(await running.queue.view(rid("a")))
    assert running.queue.awaits_acknowledgement
    await running.queue.scanner.scan()
    await running.queue.scanner.scan()
    assert [view.id for view in running.queue.views()] == ["a"]
    await running.queue.acknowledge(rid("a"))
    assert not running.queue.awaits_acknowledgement
    with pytest.raises(RequestNotFound):
        await running.queue.view(rid("a"))


async def test_what_was_claimed_and_did_not_begin_is_given_back(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    (running.root / "requests/req_a.json").rename(running.root / "processing/req_a.json")

    assert await running.queue.give_back() == 1

    assert tree(running.root) == set()


async def test_what_has_begun_or_waits_to_be_run_again_is_not_given_back(running: Running) -> None:
    for name in ("runs", "again", "answered"):
        await running.queue.submit(a_request(name))
        running.emacs.claim(name)
    running.emacs.give_back("again")
    running.emacs.answer("answered")

    assert await running.queue.give_back() == 0

    assert (await running.queue.view(rid("runs"))).state is RequestState.RUNNING
    assert (await running.queue.view(rid("again"))).state is RequestState.QUEUED
    assert answer_of(await running.queue.view(rid("answered"))).reason is RequestReason.SUCCEEDED
    assert running.queue.awaits_acknowledgement


async def test_what_another_client_has_put_there_stays(running: Running) -> None:
    (running.root / "requests/req_f.json").write_text(a_request("f").to_json())
    await running.until(lambda: rid("f") in running.queue.index)

    assert await running.queue.give_back() == 0

    assert tree(running.root) == {"requests/req_f.json"}


async def test_an_answer_that_another_client_waits_for_is_not_waited_for(running: Running) -> None:
    (running.root / "requests/req_f.json").write_text(a_request("f").to_json())
    running.emacs.claim("f")
    running.emacs.answer("f")
    await running.until_state("f", RequestState.ANSWERED)

    assert not running.queue.awaits_acknowledgement


async def test_nothing_more_is_taken_and_what_is_just_being_stored_is_given_back(running: Running) -> None:
    stored = asyncio.create_task(running.queue.submit(a_request("a")))
    await running.until(lambda: rid("a") in running.queue.index)

    assert await running.queue.give_back() == 1

    await stored
    assert is_given_back(running.views[-1])
    with pytest.raises(QueueNotReady, match="ends with its pod"):
        await running.queue.submit(a_request("b"))


async def test_a_request_that_cannot_be_taken_off_the_disk_is_given_back_later(start: Start, root: object) -> None:
    disk = TestDisk(root, Fault("rename", at=0, when=lambda args: "requests" in str(args[0])))  # type: ignore[arg-type]
    running = await start(QueueLimits(), disk)
    await running.queue.submit(a_request("a"))

    with pytest.raises(Exception, match="give back a"):
        await running.queue.give_back()
    assert (await running.queue.view(rid("a"))).state is RequestState.QUEUED
    assert await running.queue.give_back() == 1
