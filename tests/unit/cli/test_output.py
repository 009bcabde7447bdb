"""How things look."""

from datetime import UTC, datetime
from typing import Any

import pytest

from efrit.backend.interface import (
    Handle,
    Instance,
    InstanceStatus,
    Outcome,
    Phase,
    Progress,
    RequestReason,
    RequestState,
    RequestType,
)
from efrit.cli.exit_codes import MEANINGS, Exit, combined_exit, exit_of
from efrit.cli.output import age_text, duration_text, json_value, name_of, shortened, table, unquoted
from efrit.cli.top import screen

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def over(reason: RequestReason, outcome: Outcome = Outcome.FAILURE) -> RequestState:
    return RequestState(Handle("r"), Phase.FAILED, reason, outcome=outcome)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (over(RequestReason.SUCCEEDED, Outcome.SUCCESS), Exit.DONE),
        (over(RequestReason.SUCCEEDED, Outcome.PARTIAL), Exit.PARTIAL),
        (over(RequestReason.EVAL_ERROR), Exit.FAILED),
        (over(RequestReason.MODEL_ERROR), Exit.FAILED),
        (over(RequestReason.MODEL_ERROR, Outcome.PARTIAL), Exit.PARTIAL),
        (over(RequestReason.BUDGET_EXHAUSTED, Outcome.PARTIAL), Exit.PARTIAL),
        (over(RequestReason.INPUT_REQUIRED, Outcome.PARTIAL), Exit.INPUT_REQUIRED),
        (over(RequestReason.TIMED_OUT, Outcome.PARTIAL), Exit.TIMED_OUT),
        (over(RequestReason.CANCELLED), Exit.CANCELLED),
        (over(RequestReason.INTERRUPTED), Exit.UNKNOWN),
        (over(RequestReason.REJECTED), Exit.REJECTED),
    ],
)
def test_the_exit_code_says_how_the_work_ended(state: RequestState, code: Exit) -> None:
    assert exit_of(state) is code


def test_every_way_a_request_can_end_has_a_code_and_every_code_a_meaning() -> None:
    assert all(exit_of(over(reason)) in MEANINGS for reason in RequestReason if reason.final)
    assert set(MEANINGS) == set(Exit)


def test_of_several_the_first_that_failed_counts() -> None:
    assert combined_exit([Exit.DONE, Exit.TIMED_OUT, Exit.FAILED]) is Exit.TIMED_OUT
    assert combined_exit([Exit.DONE]) is Exit.DONE


@pytest.mark.parametrize(
    ("result", "raw"),
    [
        ('"text"', "text"),
        ('"two\\"quotes\\\\"', 'two"quotes\\'),
        ('"line\nbreak"', "line\nbreak"),
        ('"a\\nb"', "a\nb"),
        ("(1 2)", "(1 2)"),
        ('"a" "b"', '"a" "b"'),
        ('"', '"'),
        ("", ""),
    ],
)
def test_a_printed_string_loses_its_quotes_and_nothing_else_does(result: str, raw: str) -> None:
    assert unquoted(result) == raw


def test_times_and_words_are_plain_in_json() -> None:
    document = json_value(over(RequestReason.CANCELLED))
    assert (document["name"], document["reason"], document["outcome"], document["created"]) == (
        "r",
        "Cancelled",
        "Failure",
        None,
    )
    assert json_value(NOW) == "2026-01-31T09:30:00.000Z"


def test_a_table_has_its_columns_below_their_heads_and_no_line_breaks() -> None:
    assert table(("A", "LONG"), [("wider", "x\ny"), (None, 3)]).splitlines() == [
        "A       LONG",
        "wider   x y",
        "-       3",
    ]


@pytest.mark.parametrize(
    ("seconds", "age"), [(None, "-"), (5, "5s"), (130, "2m10s"), (3600, "60m"), (86_400, "24h"), (1e6, "11d")]
)
def test_an_age_has_one_or_two_units(seconds: float | None, age: str) -> None:
    assert age_text(seconds) == age


@pytest.mark.parametrize(
    ("seconds", "duration"), [(0.00012, "0.12ms"), (0.25, "250ms"), (1.26, "1.3s"), (700, "11m")]
)
def test_a_duration_has_the_digits_that_matter(seconds: float, duration: str) -> None:
    assert duration_text(seconds) == duration


def test_names_and_short_texts() -> None:
    assert (name_of(over(RequestReason.CANCELLED)), name_of(Instance("one", InstanceStatus.ACTIVE, "Ready"))) == (
        "r",
        "one",
    )
    assert shortened("a  b\nc" + "d" * 100, 10) == "a b cdddd…"


def test_top_shows_running_work_then_waiting_then_the_latest_and_fits_the_screen() -> None:
    common: dict[str, Any] = {"type": RequestType.COMMAND, "content": "Do it", "created": NOW}
    requests = [
        RequestState(
            Handle("old", "one"), Phase.SUCCEEDED, RequestReason.SUCCEEDED, outcome=Outcome.SUCCESS, **common
        ),
        RequestState(Handle("new", "one"), Phase.FAILED, RequestReason.EVAL_ERROR, outcome=Outcome.FAILURE, **common),
        RequestState(Handle("waits", "one"), Phase.QUEUED, RequestReason.QUEUED, **common),
        RequestState(
            Handle("runs", "one"),
            Phase.RUNNING,
            RequestReason.RUNNING,
            progress=Progress(2, "reading a file"),
            **common,
        ),
    ]
    instances = [Instance("one", InstanceStatus.ACTIVE, "Ready", pending=1, processing=1)]
    text = screen("local", "here", instances, requests, NOW)
    lines = text.splitlines()
    assert "1 of 1 instances active, 1 running, 1 waiting" in lines[1]
    assert [line.split()[0] for line in lines[-4:]] == ["runs", "waits", "new", "old"]
    assert "reading a file" in lines[-4]
    small = screen("local", "here", instances, requests, NOW, (20, 6)).splitlines()
    assert len(small) == 5
    assert max(len(line) for line in small) <= 20


def test_what_others_wrote_moves_no_cursor_and_keeps_the_columns() -> None:
    text = table(("A", "B"), [("\x1b[2Jx\r", 1), ("日本", 2)])
    assert "\x1b" not in text
    assert [line.split()[-1] for line in text.splitlines()] == ["B", "1", "2"]
