"""Names of one file: rename(2) of a hard link onto another does nothing and reports success."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from efrit.protocol import RequestState
from efrit.queue.archive import acknowledge
from efrit.queue.cancel import withdraw
from efrit.queue.durable import Disk
from efrit.queue.layout import Area
from tests.support.queue_fakes import a_request, rid
from tests.unit.queue.conftest import Running

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def disk(root: Path) -> Iterator[Disk]:
    made = Disk(root)
    made.open()
    yield made
    made.close()


def names(root: Path, area: str) -> list[str]:
    return sorted(path.name for path in (root / area).iterdir())


def test_a_rename_onto_another_name_of_the_file_leaves_the_new_name_only(disk: Disk, root: Path) -> None:
    (root / "responses/a").write_text("x")
    os.link(root / "responses/a", root / "archive/a")
    assert disk.rename(Area.RESPONSES, "a", Area.ARCHIVE, "a")
    assert (names(root, "responses"), names(root, "archive")) == ([], ["a"])


def test_a_rename_onto_itself_keeps_the_file(disk: Disk, root: Path) -> None:
    (root / "archive/a").write_text("x")
    assert disk.rename(Area.ARCHIVE, "a", Area.ARCHIVE, "a")
    assert names(root, "archive") == ["a"]


def test_an_acknowledged_answer_that_is_a_link_of_the_archived_one_leaves_responses(disk: Disk, root: Path) -> None:
    for area, kind in (("responses", "resp"), ("processing", "req")):
        (root / f"{area}/{kind}_a.json").write_text("{}")
        os.link(root / f"{area}/{kind}_a.json", root / f"archive/{kind}_a.json")
    assert acknowledge(disk, rid("a"))
    assert (names(root, "responses"), names(root, "processing")) == ([], [])
    assert names(root, "archive") == ["req_a.json", "resp_a.json"]


def test_a_withdrawn_request_that_is_a_link_of_an_earlier_withdrawal_leaves_requests(disk: Disk, root: Path) -> None:
    (root / "requests/req_a.json").write_text("{}")
    os.link(root / "requests/req_a.json", root / "tmp/withdrawn_a.json")
    assert withdraw(disk, rid("a"), "req_a.json", NOW)
    assert (names(root, "requests"), names(root, "tmp")) == ([], [])


async def test_an_acknowledged_link_of_the_archived_answer_is_not_reported_again(running: Running) -> None:
    await running.queue.submit(a_request("a"))
    running.emacs.do("a")
    await running.until_state("a", RequestState.ANSWERED)
    os.link(running.root / "responses/resp_a.json", running.root / "archive/resp_a.json")
    await running.queue.acknowledge(rid("a"))
    assert names(running.root, "responses") == []
    assert (await running.queue.view(rid("a"))).state is RequestState.ACKNOWLEDGED
