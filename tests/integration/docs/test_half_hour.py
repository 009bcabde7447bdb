"""The first half hour of a new user, played on a fresh home: the page and its picture say what happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY
from tests.integration.client.conftest import laptop
from tests.integration.docs.half_hour import HOME, PARTS, comparable, page, picture, transcript
from tests.integration.docs.pages import Block, Command
from tests.integration.docs.shell import play
from tests.integration.docs.test_pages import on_path
from tests.model.running import KEY, Model
from tests.support.efrit_program import Program

PAGE = REPOSITORY / "docs/first-half-hour.md"
PICTURE = REPOSITORY / "docs/first-half-hour.svg"
WRITE = "EFRIT_WRITE_HALF_HOUR"
IN_THE_PICTURE = ("The first answer", "Mistakes", "Work that takes its time")
LOCAL_URL = "http://localhost:8080"


@pytest.fixture
def fresh() -> Iterator[Program]:
    with laptop({}) as made:
        Path(made.env.pop("EFRIT_CONFIG")).unlink()
        yield made


def test_the_first_half_hour_goes_as_its_page_says(fresh: Program, model: Model, tmp_path: Path) -> None:
    """With EFRIT_WRITE_HALF_HOUR set, writes the page and the picture first (`make half-hour`)."""
    home = Path(fresh.env["HOME"])
    work = home / "work"
    work.mkdir()
    commands = tuple(Command(command) for part in PARTS for command in part.commands)
    block = Block(PAGE.name, 0, "console", "", "laptop", commands=commands)
    model.accept(KEY, "")
    try:
        ran = play([block], on_path(fresh.env, tmp_path), work, tmp_path, {LOCAL_URL: model.url})
    finally:
        model.accept(KEY)
    places = {model.url: LOCAL_URL, str(REPOSITORY): f"{HOME}/efrit-operator", str(home): HOME}
    outputs = iter([_elsewhere(result.printed, places) for result in ran])
    printed = {part.title: [next(outputs) for _ in part.commands] for part in PARTS}
    text = page(printed)
    shown = "".join(transcript(part, printed[part.title]) for part in PARTS if part.title in IN_THE_PICTURE)
    if os.environ.get(WRITE):
        PAGE.write_text(text)
        PICTURE.write_text(picture(shown))
    assert comparable(text) == comparable(PAGE.read_text()), "make half-hour writes the page anew"
    assert comparable(picture(shown)) == comparable(PICTURE.read_text())


def _elsewhere(text: str, places: dict[str, str]) -> str:
    for old, new in places.items():
        text = text.replace(old, new)
    return text


def test_no_command_of_the_half_hour_ends_in_a_traceback() -> None:
    assert "Traceback" not in PAGE.read_text()


def test_names_and_times_of_a_run_do_not_count() -> None:
    one = "efrit_1795400107_dc1099c5 ended\ndefault   12s   3.1ms ago\nefrit_1_a: Cancelled\n"
    other = "efrit_1795400339_52f00000 ended\ndefault  4s  100ms ago\nefrit_2_b: cancel requested\n"
    assert comparable(one) == comparable(other)
    assert comparable("a ended") != comparable("b ended")
