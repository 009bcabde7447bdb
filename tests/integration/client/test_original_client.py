"""The original's client at a queue that our Emacs serves. What it does is in tests/support/original_queue.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.conftest import laptop
from tests.support.efrit_program import Program
from tests.support.kube import until
from tests.support.original_queue import OriginalClient


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with laptop({"one": {}}) as made:
        made.ok("start", "one")
        yield made


@pytest.fixture
def client(program: Program) -> OriginalClient:
    return OriginalClient(Path(program.env["HOME"]) / ".local/state/efrit/instances/one/queue")


def assert_empties(directory: Path) -> None:
    until(lambda: not list(directory.iterdir()), f"{directory.name}/ to be empty")


def test_it_gets_its_answers_and_nothing_is_left_behind(client: OriginalClient) -> None:
    answer = client.execute("eval", '(progn (princ "hi") (+ 1 2))', return_context=True)
    assert (answer["status"], answer["result"]) == ("success", "3")
    assert answer["execution_time"] >= 0
    assert answer["context"]["current_buffer"]
    failed = client.execute("eval", '(error "No")')
    assert failed["status"] == "error"
    assert "No" in failed["error"]
    for directory in ("requests", "processing", "responses"):
        assert_empties(client.queue / directory)


def test_many_at_once_each_get_their_own(client: OriginalClient) -> None:
    ids = [client.submit("eval", str(number)) for number in range(20)]
    assert [client.answer(rid)["result"] for rid in ids] == [str(number) for number in range(20)]


def test_a_request_that_it_takes_back_while_another_runs_never_runs(client: OriginalClient) -> None:
    go_on, ran = client.queue / "go", client.queue / "ran"
    first = client.submit("eval", f'(progn (while (not (file-exists-p "{go_on}")) (sleep-for 0.02)) 1)')
    until(lambda: (client.queue / f"processing/req_{first}.json").exists(), "the request to run")
    second = client.submit("eval", f'(write-region "" nil "{ran}")')
    client.give_up(second)
    go_on.touch()
    assert client.answer(first)["result"] == "1"
    assert client.execute("eval", "2")["result"] == "2"
    assert not ran.exists()


def test_its_question_for_the_status_is_answered_with_json(client: OriginalClient) -> None:
    answer = client.execute("status", "sessions")
    assert (answer["status"], type(json.loads(answer["result"]))) == ("success", dict)
