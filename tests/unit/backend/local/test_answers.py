"""What a client of this machine tells of an answer: all that the queue's reader finds in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.backend.interface import Handle, Outcome, Phase, RequestReason, RequestState, RequestType
from efrit.backend.local.files import QueueFiles
from efrit.protocol import RequestId, request_file, response_file
from efrit.queue.answers import read_answer
from efrit.queue.layout import Area

RID = RequestId("r")

GOOD: dict[str, Any] = {
    "id": "r",
    "version": "1.0.0",
    "timestamp": "2026-01-31T09:30:00.250Z",
    "status": "success",
    "result": "3",
    "error": None,
    "execution_time": 0.5,
    "context": {"current_buffer": "*scratch*"},
    "reason": "Succeeded",
    "outcome": "Success",
    "attempt": 1,
    "sha256": "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce",
    "output": "o",
    "messages": "m",
    "truncated": False,
    "result_bytes": 1,
    "started": "2026-01-31T09:29:59.750Z",
}
BAD = {"status": "error", "reason": "EvalError", "outcome": "Failure", "result": None, "sha256": None, "error": "No"}
ANSWERS: dict[str, object] = {
    "a success": GOOD,
    "an error": {**GOOD, **BAD, "error_code": "void-variable"},
    "a timeout": {**GOOD, **BAD, "status": "timeout", "reason": "TimedOut"},
    "partial work": {**GOOD, **BAD, "reason": "BudgetExhausted", "outcome": "Partial"},
    "a plain success of another writer": {"id": "r", "status": "success", "result": "3"},
    "a plain error of another writer": {"id": "r", "status": "error", "error": "No"},
    "a plain timeout of another writer": {"id": "r", "status": "timeout", "error": "No"},
    "the answer to another request": {**GOOD, "id": "other"},
    "a success that was interrupted": {**GOOD, "reason": "Interrupted"},
    "an error that was a success": {**GOOD, **BAD, "reason": "Succeeded", "outcome": "Success"},
    "a partial success": {**GOOD, "outcome": "Partial"},
    "a failed success": {**GOOD, "outcome": "Failure"},
    "a result that was changed": {**GOOD, "result": "4"},
    "no object": [1],
    "no JSON": None,
}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[QueueFiles]:
    files = QueueFiles(tmp_path)
    yield files
    files.close()


def state(files: QueueFiles, answer: object, request: dict[str, Any] | None = None) -> RequestState:
    """Return the state of the request `r` with this answer; None stands for one that is not JSON."""
    assert files.disk
    (files.root / Area.RESPONSES / response_file(RID)).write_text("{" if answer is None else json.dumps(answer))
    (files.root / Area.ARCHIVE / request_file(RID)).write_text(json.dumps(request or {}))
    state = files.state(Handle("r"))
    assert state is not None
    return state


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_means_what_the_queue_says_it_means(files: QueueFiles, case: str) -> None:
    actual = state(files, ANSWERS[case])
    read = read_answer(files.disk, Area.RESPONSES, RID)
    assert read is not None
    response = read.response
    assert (actual.reason, actual.outcome) == (response.reason, response.outcome)
    assert (actual.result, actual.attempt) == (response.result, response.attempt)
    assert actual.phase is (Phase.SUCCEEDED if response.outcome is Outcome.SUCCESS else Phase.FAILED)
    assert (actual.error is None) is (response.error is None)


def test_all_of_an_answer_is_reported(files: QueueFiles) -> None:
    actual = state(files, GOOD, {"type": "eval", "content": "(+ 1 2)"})
    assert (actual.type, actual.content) == (RequestType.EVAL, "(+ 1 2)")
    assert (actual.output, actual.messages, actual.execution_seconds) == ("o", "m", 0.5)
    assert actual.context == {"current_buffer": "*scratch*"}
    assert actual.started is not None
    assert actual.completed is not None
    assert (actual.completed - actual.started).total_seconds() == 0.5


def test_a_result_left_in_a_file_is_reported_as_truncated(files: QueueFiles) -> None:
    answer = {**GOOD, "result": "the beginning", "result_path": "/w/.efrit/results/r.txt", "result_bytes": 900_000}
    actual = state(files, answer)
    assert (actual.truncated, actual.result_bytes, actual.reason) == (True, 900_000, RequestReason.SUCCEEDED)


@pytest.mark.parametrize("wrong", [{"attempt": "x"}, {"execution_time": []}, {"output": 5}, {"started": "soon"}])
def test_a_figure_that_makes_no_sense_costs_no_answer(files: QueueFiles, wrong: dict[str, object]) -> None:
    actual = state(files, {**GOOD, **wrong}, {"type": 7})
    assert (actual.reason, actual.result, actual.type) == (RequestReason.SUCCEEDED, "3", None)


def test_the_restart_that_a_model_needs_names_the_instance(files: QueueFiles) -> None:
    answer = {**GOOD, **BAD, "reason": "ModelNotConfigured", "error": "Set EFRIT_MODEL_NAME and restart it"}
    state(files, answer)
    actual = files.state(Handle("r", "box"))
    assert actual is not None
    assert actual.error is not None
    assert actual.message == "Set EFRIT_MODEL_NAME and restart it (efrit restart box)" == actual.error.message
