"""A server that runs for days sees what other programs write into its configuration file."""

from pathlib import Path

import pytest

from efrit.client.errors import WrongSettings
from efrit.client.interface import Backend
from efrit.mcp.reloading_backend import ReloadingBackend
from tests.unit.mcp.scripted import ScriptedBackend


class FiledBackend(ScriptedBackend):
    """One whose place is a file."""

    closed = False

    async def close(self, *, handed_over: bool = True) -> None:
        self.closed = True


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
    assert await fresh.current() is await fresh.current()


async def test_where_there_is_no_file_one_backend_serves(fresh: ReloadingBackend, file: Path) -> None:
    put(file, None)
    assert await fresh.current() is await fresh.current()


async def test_a_changed_file_is_read_by_the_next_call_and_a_call_under_way_keeps_its_backend(
    fresh: ReloadingBackend, file: Path, opened: list[FiledBackend]
) -> None:
    first = await fresh.current()
    put(file, '{"instances": {}}')
    second = await fresh.current()
    assert second is not first
    assert [backend.closed for backend in opened] == [False, False]
    await fresh.close()
    assert [backend.closed for backend in opened] == [True, True]


async def test_a_file_that_appears_is_read(fresh: ReloadingBackend, file: Path) -> None:
    put(file, None)
    first = await fresh.current()
    put(file, "{}")
    assert await fresh.current() is not first


async def test_a_wrong_file_is_reported_until_it_is_mended(fresh: ReloadingBackend, file: Path) -> None:
    await fresh.current()
    put(file, "wrong")
    for _ in range(2):
        with pytest.raises(WrongSettings):
            await fresh.current()
    put(file, "{ }")
    await fresh.current()
