"""A server that runs for days sees what other programs write into its configuration file."""

import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from efrit.backend.errors import NotReady, WrongSettings
from efrit.backend.interface import Backend, Handle
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.files import QueueFiles
from efrit.mcp.reloading_backend import MAX_FORMER, ReloadingBackend
from tests.unit.mcp.scripted import ScriptedBackend


class FiledBackend(ScriptedBackend):
    """One whose place is a file."""

    closed = False
    problem: Exception | None = None

    async def close(self, *, handed_over: bool = True) -> None:
        self.closed = True
        if self.problem is not None:
            raise self.problem


async def current(reloading: ReloadingBackend) -> Backend:
    """Return the backend of a call that ends at once."""
    async with reloading.use() as backend:
        return backend


def text_of(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


def put(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "config.json"
    made.write_text("{}")
    return made


@pytest.fixture
def fresh(file: Path, opened: list[FiledBackend]) -> ReloadingBackend:
    async def opening() -> Backend:
        if text_of(file) == "wrong":
            raise WrongSettings("the file is wrong")
        backend = FiledBackend()
        backend.place = str(file)
        opened.append(backend)
        return backend

    return ReloadingBackend(opening)


@pytest.fixture
def opened() -> list[FiledBackend]:
    return []


async def test_while_the_file_stays_as_it_is_one_backend_serves(fresh: ReloadingBackend) -> None:
    assert await current(fresh) is await current(fresh)


async def test_where_there_is_no_file_one_backend_serves(fresh: ReloadingBackend, file: Path) -> None:
    put(file, None)
    assert await current(fresh) is await current(fresh)


async def test_a_changed_file_is_read_by_the_next_call_and_a_call_under_way_keeps_its_backend(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend]
) -> None:
    async with fresh.use() as first:
        put(file, '{"instances": {}}')
        async with fresh.use() as second:
            assert second is not first
        assert [backend.closed for backend in opened] == [False, False]
    assert [backend.closed for backend in opened] == [True, False]
    await fresh.close()
    assert [backend.closed for backend in opened] == [True, True]


async def test_of_calls_under_way_the_last_one_closes_a_former_backend(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend]
) -> None:
    async with fresh.use():
        async with fresh.use():
            put(file, '{"instances": {}}')
            await current(fresh)
        assert not opened[0].closed
    assert opened[0].closed


async def test_however_often_the_file_changes_one_backend_is_open(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend]
) -> None:
    for number in range(30):
        put(file, " " * number)
        await current(fresh)
    assert [backend.closed for backend in opened] == [True] * 29 + [False]


async def test_calls_that_do_not_end_keep_only_so_many_former_backends_open(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend]
) -> None:
    async with AsyncExitStack() as calls:
        for number in range(30):
            put(file, " " * number)
            await calls.enter_async_context(fresh.use())
        assert [backend.closed for backend in opened] == [True] * (29 - MAX_FORMER) + [False] * (MAX_FORMER + 1)


async def test_a_backend_that_cannot_be_closed_costs_no_call_its_result(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend], caplog: pytest.LogCaptureFixture
) -> None:
    async with fresh.use():
        opened[0].problem = NotReady("the disk is gone")
        put(file, '{"instances": {}}')
        await current(fresh)
    assert opened[0].closed
    assert "the disk is gone" in caplog.text


async def test_a_file_that_appears_is_read(fresh: ReloadingBackend, file: Path) -> None:
    put(file, None)
    first = await current(fresh)
    put(file, "{}")
    assert await current(fresh) is not first


async def test_a_wrong_file_is_reported_until_it_is_mended(fresh: ReloadingBackend, file: Path) -> None:
    await current(fresh)
    put(file, "wrong")
    for _ in range(2):
        with pytest.raises(WrongSettings):
            await current(fresh)
    put(file, "{ }")
    await current(fresh)


class TestOfAQueue:
    """The backend of this machine, whose files are real."""

    @pytest.fixture
    def queue(self, tmp_path: Path) -> Path:
        return tmp_path / "queue"

    @pytest.fixture
    def local(self, file: Path, queue: Path) -> ReloadingBackend:
        files = QueueFiles(queue)
        assert files.disk
        files.close()
        (queue / "responses/resp_r.json").write_text(
            json.dumps({"id": "r", "version": "1.0.0", "status": "success", "result": "42"})
        )

        async def opening() -> Backend:
            return LocalBackend.configured(file)

        return ReloadingBackend(opening)

    def change(self, file: Path, queue: Path, number: int) -> None:
        entry = {"queue_dir": str(queue), "daemon_name": f"efrit-test-{number}", "auto_start": False}
        file.write_text(json.dumps({"instances": {"default": entry}}) + " " * number)

    def descriptors(self, queue: Path) -> int:
        links = (os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir())
        return sum(Path(link).is_relative_to(queue) for link in links)

    async def test_each_change_gives_its_descriptors_back(
        self, local: ReloadingBackend, file: Path, queue: Path
    ) -> None:
        counts = set()
        for number in range(30):
            self.change(file, queue, number)
            await (await current(local)).requests()
            counts.add(self.descriptors(queue))
        assert len(counts) == 1
        await local.close()
        assert self.descriptors(queue) == 0

    async def test_a_call_that_outlives_its_backend_ends_as_usual_and_leaves_no_descriptor(
        self, local: ReloadingBackend, file: Path, queue: Path
    ) -> None:
        self.change(file, queue, 0)
        async with local.use() as first:
            assert (await first.instance("default")).daemon_name == "efrit-test-0"
            async with AsyncExitStack() as calls:
                for number in range(1, MAX_FORMER + 3):
                    self.change(file, queue, number)
                    await calls.enter_async_context(local.use())
                assert (await first.instance("default")).daemon_name == "efrit-test-0"
                assert (await first.get(Handle("r"))).result == "42"
        # What it handed over is archived, as at the end of every call of a backend that is closed.
        assert (queue / "archive/resp_r.json").exists()
        await local.close()
        assert self.descriptors(queue) == 0
