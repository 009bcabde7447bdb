"""What somebody else left where the bridge looks: nothing of it is followed, waited for, or in the others' way."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from efrit.errors import StorageError
from efrit.protocol import RequestReason, RequestState, request_id
from efrit.queue.layout import Area
from tests.support.file_modes import modes_hold
from tests.support.queue_fakes import a_request
from tests.unit.queue.conftest import Running, Start, answer_of

MAKE: dict[str, Callable[[Path], object]] = {
    "symlink": lambda path: path.symlink_to("/etc/hostname"),
    "dangling symlink": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "directory nobody may enter": lambda path: path.mkdir(mode=0),
    "full directory": lambda path: (path / "inner").mkdir(parents=True),
}


def is_ordinary_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@pytest.mark.parametrize("kind", MAKE)
async def test_an_answer_that_is_no_file_ends_the_request_as_interrupted(start: Start, kind: str) -> None:
    with modes_hold():
        running = await start()
        await running.queue.submit(a_request("a"))
        running.emacs.claim("a")
        MAKE[kind](running.root / "responses/resp_a.json")
        view = await running.until_state("a", RequestState.ANSWERED)
        assert answer_of(view).reason is RequestReason.INTERRUPTED
        assert "not a regular file" in (answer_of(view).error or "")
        await running.queue.acknowledge(request_id("a"))
    archived = await running.queue.view(request_id("a"))
    assert answer_of(archived).reason is RequestReason.INTERRUPTED
    assert (await running.queue.submit(a_request("a")))[1] is False


@pytest.mark.parametrize("odd", ["[]", "{}", "null", "7", '["chat"]', '"chat\\u0000"'])
async def test_a_request_whose_type_or_session_is_anything_is_known_and_hides_no_other(
    running: Running, odd: str
) -> None:
    text = f'{{"id":"x","type":{odd},"content":"1","options":{{"session":{{"id":{odd}}},"budget":{odd}}}}}'
    (running.root / "requests/req_x.json").write_text(text)
    await running.until_state("x", RequestState.QUEUED)
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until_state("a", RequestState.ANSWERED)


@pytest.mark.parametrize("kind", MAKE)
async def test_what_lies_in_the_way_in_the_archive_does_not_keep_an_answer_out(running: Running, kind: str) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until_state("a", RequestState.ANSWERED)
    MAKE[kind](running.root / "archive/resp_a.json")
    await running.queue.acknowledge(request_id("a"))
    assert json.loads((running.root / "archive/resp_a.json").read_text())["result"] == "2"


@pytest.mark.parametrize(
    "place", ["requests/req_x.json", "responses/resp_x.json", "processing/req_x.json", "heartbeat"]
)
async def test_a_file_that_may_not_be_read_hides_no_other(start: Start, root: Path, place: str) -> None:
    (root / place).parent.mkdir(parents=True)
    (root / place).touch(mode=0)
    with modes_hold():
        running = await start()
        await running.queue.submit(a_request("a"))
        running.emacs.do("a")
        await running.until_state("a", RequestState.ANSWERED)


async def test_an_identity_that_may_not_be_opened_is_named_and_nothing_is_lost(start: Start) -> None:
    running = await start()
    await running.queue.submit(a_request("a"))
    await running.stop()
    identity = running.root / "identity"
    identity.chmod(0)
    with modes_hold(), pytest.raises(StorageError, match=r"/identity, which the bridge must own.*denied"):
        await start()
    identity.chmod(0o600)
    running = await start()
    await running.until_state("a", RequestState.QUEUED)


async def test_a_file_from_beyond_the_year_9999_can_be_reported(running: Running) -> None:
    path = running.root / "tmp/x"
    path.write_text('{"id":"x","type":"eval","content":"1"}')
    os.utime(path, (2**38, 2**38))
    path.rename(running.root / "requests/req_x.json")
    await running.until_state("x", RequestState.QUEUED)


@pytest.mark.parametrize("place", ["tmp/bridge_x", "tmp/withdrawn_x.json", "control/cancel_x"])
async def test_a_directory_among_what_is_swept_does_not_keep_the_queue_from_opening(
    start: Start, root: Path, place: str
) -> None:
    (root / place / "inner").mkdir(parents=True)
    running = await start()
    assert running.queue.is_open


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", ["identity", "totals", "claims.log", "claims.old", "claims.new"])
async def test_what_is_not_a_file_does_not_keep_the_queue_from_opening(
    start: Start, root: Path, name: str, kind: str
) -> None:
    (root / "tmp").mkdir(parents=True)
    MAKE[kind](root / name)
    with modes_hold():
        running = await start()
        await running.queue.submit(a_request("a"))
        running.emacs.do("a")
        await running.until_state("a", RequestState.ANSWERED)
        await running.stop()


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", ["totals", "claims.log"])
async def test_what_is_put_in_place_of_a_file_of_the_bridge_is_replaced(
    running: Running, name: str, kind: str
) -> None:
    with modes_hold():
        (running.root / name).unlink(missing_ok=True)
        MAKE[kind](running.root / name)
        await running.queue.submit(a_request("a"))
        await running.until(lambda: is_ordinary_file(running.root / "claims.log"))
        running.emacs.do("a")
        await running.until_state("a", RequestState.ANSWERED)
        await running.queue.scanner.save_totals()
        await running.until(lambda: is_ordinary_file(running.root / name))
        assert running.queue.upkeep.failure is None


@pytest.mark.parametrize("kind", MAKE)
async def test_what_is_in_the_place_of_the_journal_keeps_no_exchange_from_its_end(
    start: Start, root: Path, kind: str
) -> None:
    (root / "tmp").mkdir(parents=True)
    (root / "claims.new").write_text("x 2 boot\n")
    MAKE[kind](root / "claims.log")
    with modes_hold():
        running = await start()
    assert running.queue.parts.journal.attempt(request_id("x")) == 2


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"a b\n", b"x" * 200, b"\0\0"])
async def test_a_spoilt_identity_is_replaced_once(start: Start, root: Path, garbage: bytes) -> None:
    (root / "tmp").mkdir(parents=True)
    (root / "identity").write_bytes(garbage)
    first = await start()
    queue_id = first.queue.queue_id
    assert queue_id.isalnum()
    assert len(queue_id) == 32
    await first.stop()
    again = await start()
    assert again.queue.queue_id == queue_id


async def test_a_result_that_is_not_the_one_its_digest_speaks_of_is_no_answer(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.claim("a")
    running.emacs.answer("a", "2", sha256="0" * 64)
    view = await running.until_state("a", RequestState.ANSWERED)
    assert answer_of(view).reason is RequestReason.INTERRUPTED
    assert answer_of(view).result is None


async def test_metadata_of_a_foreign_file_is_reported_only_if_it_can_be(running: Running) -> None:
    for name, metadata in (
        ("pair", '{"a":"\\ud800"}'),
        ("long", json.dumps({"a": "x" * 5000})),
        ("nan", '{"a":NaN}'),
    ):
        text = f'{{"id":"{name}","type":"eval","content":"1","metadata":{metadata}}}'
        (running.root / "tmp/x").write_text(text)
        (running.root / "tmp/x").rename(running.root / f"requests/{name}.json")
        assert (await running.until_state(name, RequestState.QUEUED)).metadata is None
    assert running.queue.index.count(RequestState.QUEUED) == 3
    assert running.queue.disk.names(Area.REQUESTS)
