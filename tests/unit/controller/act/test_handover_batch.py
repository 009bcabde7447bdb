"""act/handover_batch.py: what goes together and when, and what an answer says of each element."""

from __future__ import annotations

import pytest

from efrit.controller.act.handover_batch import (
    LINGER_SECONDS,
    MAX_BATCHES,
    MAX_RESULT_BYTES,
    PACE_SECONDS,
    STUCK_SECONDS,
    Gathering,
    Results,
)
from efrit.errors import EfritError
from efrit.protocol import RequestState, request_id
from efrit.protocol.handover import MAX_BATCH_BYTES, MAX_BATCH_ELEMENTS, BatchResult
from efrit.protocol.view import RequestView

NOW = 1000.0


def gathering(*urgent: str, lingering: tuple[str, ...] = ()) -> Gathering[str]:
    """Return what waits since NOW."""
    made = Gathering[str]()
    for ticket in urgent:
        made.add(b"{}\n", ticket, NOW)
    for ticket in lingering:
        made.add(b"{}\n", ticket, NOW, lingers=True)
    return made


def taken(made: Gathering[str], now: float = NOW) -> list[str]:
    return [element.ticket for element in made.take(now)]


def test_the_first_of_a_quiet_time_goes_at_once_and_what_comes_during_its_call_goes_together() -> None:
    made = gathering("a")
    assert (made.due(NOW), taken(made)) == (NOW, ["a"])
    for ticket in "bcd":
        made.add(b"{}\n", ticket, NOW + 0.001)

    assert made.due(NOW + 0.001) == NOW + STUCK_SECONDS
    made.ended(NOW)
    assert made.due(NOW + 0.02) == NOW + 0.02
    assert taken(made, NOW + 0.02) == ["b", "c", "d"]
    assert made.due(NOW + 1) is None


def test_under_load_calls_follow_each_other_slowly_unless_a_batch_is_full() -> None:
    made = gathering("a")
    assert made.due(NOW, loaded=True) == NOW
    made.take(NOW)
    made.ended(NOW)
    made.add(b"{}\n", "b", NOW)
    assert made.due(NOW, loaded=True) == NOW + PACE_SECONDS
    assert made.due(NOW) == NOW
    for number in range(MAX_BATCH_ELEMENTS):
        made.add(b"{}\n", str(number), NOW)
    assert made.due(NOW, loaded=True) == NOW


def test_an_acknowledgement_waits_for_company_and_holds_up_no_request() -> None:
    made = gathering(lingering=("a", "b"))
    assert made.due(NOW) == NOW + LINGER_SECONDS
    made.add(b"{}\n", "request", NOW + 0.01)
    assert made.due(NOW + 0.01) == NOW + 0.01
    assert taken(made, NOW + 0.01) == ["a", "b", "request"]


def test_a_batch_is_full_by_its_elements_or_its_bytes_and_goes_at_once() -> None:
    made = gathering(lingering=tuple(map(str, range(MAX_BATCH_ELEMENTS + 1))))
    assert made.due(NOW) == NOW
    assert len(taken(made)) == MAX_BATCH_ELEMENTS
    assert len(made) == 1

    made = Gathering[str]()
    for ticket in "abc":
        made.add(b"x" * (MAX_BATCH_BYTES // 2), ticket, NOW, lingers=True)
    assert made.due(NOW) == NOW
    assert taken(made) == ["a", "b"]


def test_a_line_that_is_longer_than_a_batch_is_not_stuck() -> None:
    made = Gathering[str]()
    made.add(b"x" * (MAX_BATCH_BYTES + 1), "long", NOW)
    assert taken(made) == ["long"]


def test_a_call_that_has_stuck_is_passed_by_the_next_and_those_by_none() -> None:
    made = gathering("a")
    made.take(NOW)
    made.add(b"{}\n", "b", NOW)
    assert made.due(NOW) == NOW + STUCK_SECONDS
    made.take(NOW + STUCK_SECONDS)
    made.add(b"{}\n", "c", NOW + STUCK_SECONDS)
    assert MAX_BATCHES == 2
    assert made.due(NOW + 10) is None
    made.ended(NOW)
    assert made.due(NOW + 10) == NOW + 10


def test_what_is_forgotten_is_returned() -> None:
    made = gathering("a", lingering=("b",))
    assert [element.ticket for element in made.clear()] == ["a", "b"]
    assert made.due(NOW) is None


# Results.


def line(index: int) -> bytes:
    view = RequestView(id=request_id(f"r{index}"), state=RequestState.QUEUED)
    return BatchResult(index=index, request=view).to_line()


def test_results_come_in_any_order_and_in_any_parts() -> None:
    results = Results(3)
    whole = line(2) + line(0)
    read = [result.index for place in range(len(whole)) for result in results.feed(whole[place : place + 1])]
    assert (read, results.missing) == ([2, 0], [1])


@pytest.mark.parametrize(
    "answer",
    [
        line(0) + line(0),
        line(3),
        b'{"index": 64}\n',
        b'{"index": -1}\n',
        b"{}\n",
        b"\n",
        b"[]\n",
        b"x" * (MAX_RESULT_BYTES + 1),
        b"x" * (MAX_RESULT_BYTES + 1) + b"\n",
    ],
)
def test_an_answer_twice_to_nothing_or_too_long_is_an_error_and_what_came_before_it_stands(answer: bytes) -> None:
    results = Results(3)
    assert [result.index for result in results.feed(line(1))] == [1]
    with pytest.raises(EfritError):
        list(results.feed(answer))
    assert set(results.missing) <= {0, 2}
