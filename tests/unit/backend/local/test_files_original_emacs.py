"""The original's Emacs on a queue that our client writes. What it does is in tests/support/original_queue.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.backend.errors import Conflict
from efrit.backend.interface import Outcome, RequestReason
from efrit.backend.local.files import QueueFiles
from tests.support.original_queue import OriginalEmacs
from tests.support.queue_client import state, submit


@pytest.fixture
def files(tmp_path: Path) -> Iterator[QueueFiles]:
    opened = QueueFiles(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def emacs(tmp_path: Path) -> OriginalEmacs:
    def evaluate(form: str) -> str:
        if form == "(/ 1 0)":
            raise ArithmeticError("Arithmetic error")
        return {"(+ 1 2)": "3", "2": "2"}[form]

    return OriginalEmacs(tmp_path, evaluate)


def test_it_takes_our_requests_and_we_read_its_answers(
    files: QueueFiles, emacs: OriginalEmacs, tmp_path: Path
) -> None:
    good = submit(files, "(+ 1 2)", timeout=5.0, return_context=True)
    bad = submit(files, "(/ 1 0)")
    refused = submit(files, "2")
    path = tmp_path / f"requests/req_{refused}.json"
    path.write_text(path.read_text().replace('"1.0.0"', '"9.0.0"'))
    assert state(files, good).reason is RequestReason.QUEUED
    emacs.work()
    ended = state(files, good)
    assert (ended.reason, ended.outcome, ended.result) == (RequestReason.SUCCEEDED, Outcome.SUCCESS, '"3"')
    assert ended.context == {"buffer": {"buffer-name": "*scratch*", "point": 7}}
    assert (ended.execution_seconds, files.result(good)) == (0.25, '"3"')
    failed = state(files, bad)
    assert (failed.outcome, failed.result) == (Outcome.SUCCESS, '"Error evaluating (/ 1 0): Arithmetic error"')
    error = state(files, refused).error
    assert error is not None
    assert error.message == "Incompatible schema version: 9.0.0"


def test_a_request_that_it_has_begun_runs(files: QueueFiles, emacs: OriginalEmacs) -> None:
    rid = submit(files, "2")
    (files.root / f"requests/req_{rid}.json").rename(files.root / f"processing/req_{rid}.json")
    assert state(files, rid).reason is RequestReason.RUNNING


@pytest.mark.parametrize("ours_first", [True, False])
def test_both_may_archive_and_the_answer_can_still_be_read(
    files: QueueFiles, emacs: OriginalEmacs, ours_first: bool
) -> None:
    rid = submit(files, "2")
    emacs.work()
    steps = [lambda: files.acknowledge(rid), emacs.clean_up]
    for step in steps if ours_first else reversed(steps):
        step()
    assert state(files, rid).result == '"2"'
    assert list((files.root / "processing").iterdir()) == []
    assert list((files.root / "responses").iterdir()) == []


def test_a_request_that_we_take_back_never_reaches_it(files: QueueFiles, emacs: OriginalEmacs) -> None:
    rid = submit(files, "(+ 1 2)")
    assert files.withdraw(rid)
    emacs.work()
    assert emacs.answered == []
    assert state(files, rid).reason is RequestReason.CANCELLED


def test_the_same_key_is_the_same_request_there_too(files: QueueFiles, emacs: OriginalEmacs) -> None:
    rid = submit(files, "(+ 1 2)", key="once")
    emacs.work()
    assert submit(files, "(+ 1 2)", key="once") == rid
    emacs.work()
    assert emacs.answered == [f"req_{rid}.json"]
    with pytest.raises(Conflict):
        submit(files, "2", key="once")
