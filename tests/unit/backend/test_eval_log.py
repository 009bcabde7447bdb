"""The log of an eval, made of its answer."""

from __future__ import annotations

import json

from msgspec.structs import replace

from efrit.backend import eval_log
from efrit.backend.interface import Error, Handle, Outcome, Phase, RequestReason, RequestState, RequestType

OVER = RequestState(
    Handle("r"),
    Phase.SUCCEEDED,
    RequestReason.SUCCEEDED,
    type=RequestType.EVAL,
    outcome=Outcome.SUCCESS,
    execution_seconds=0.5,
)


def entries(state: RequestState) -> list[dict[str, object]]:
    return [json.loads(line) for line in eval_log.lines(state)]


def test_an_eval_that_is_not_over_has_no_lines_yet() -> None:
    assert entries(RequestState(Handle("r"), Phase.RUNNING, RequestReason.RUNNING, type=RequestType.EVAL)) == []


def test_the_end_is_always_there() -> None:
    assert entries(OVER) == [{"type": "end", "reason": "Succeeded", "seconds": 0.5}]


def test_what_was_printed_and_said_and_the_error_come_before_the_end() -> None:
    failed = replace(
        OVER,
        reason=RequestReason.EVAL_ERROR,
        output="é\n",
        messages="Backtrace:\n  car(1)\n",
        error=Error("wrong-type-argument", "Wrong type argument: listp, 1"),
    )
    assert [entry["type"] for entry in entries(failed)] == ["output", "messages", "error", "end"]
    assert entries(failed)[0]["text"] == "é\n"
    assert entries(failed)[2]["code"] == "wrong-type-argument"


def test_only_evals_have_logs_that_are_made_here() -> None:
    assert eval_log.is_eval(OVER)
    assert not eval_log.is_eval(replace(OVER, type=RequestType.CHAT))
