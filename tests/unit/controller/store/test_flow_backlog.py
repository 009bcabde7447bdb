"""The line in front of a pool: flows share what there is by their weights, and nothing is saved up or lost."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from efrit.controller.model.keys import Key
from efrit.controller.store.flow_backlog import MAX_NAMED_FLOWS, OTHER_FLOWS, FlowBacklog, Shares

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str) -> Key:
    return "ns", name


def add(line: FlowBacklog, flow: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        line.add(key(f"{flow}{number}"), (T0 + timedelta(seconds=number), f"{flow}{number}"), flow)


def start(line: FlowBacklog, count: int) -> list[str]:
    """Start the next requests one after the other and return their flows."""
    flows = []
    for _ in range(count):
        (request,) = line.first(1)
        flow = request[1].rstrip("0123456789")
        line.discard(request)
        line.started(flow)
        flows.append(flow)
    return flows


def test_within_a_flow_the_oldest_goes_first() -> None:
    line = FlowBacklog()
    add(line, "a", 3)
    assert line.first(2) == [key("a0"), key("a1")]
    assert [line.ahead_of(key(f"a{number}"), 10) for number in range(3)] == [0, 1, 2]


def test_one_request_of_a_quiet_flow_is_next_however_many_another_has() -> None:
    line = FlowBacklog()
    add(line, "loud", 2000)
    start(line, 100)
    add(line, "quiet", 1)
    assert key("quiet0") in line.first(2)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, {"a": 40, "b": 40, "c": 40}),
        ({"a": 2}, {"a": 60, "b": 30, "c": 30}),
        ({"a": 3, "b": 2}, {"a": 60, "b": 40, "c": 20}),
    ],
)
def test_flows_that_wait_get_their_shares(weights: dict[str, int], expected: dict[str, int]) -> None:
    line = FlowBacklog()
    line.shares = Shares(weights)
    for flow in "abc":
        add(line, flow, 200)
    counts = Counter(start(line, 120))
    assert all(abs(counts[flow] - count) <= 1 for flow, count in expected.items())


def test_the_order_that_is_reported_is_the_one_that_follows() -> None:
    line = FlowBacklog()
    line.shares = Shares({"b": 3})
    for flow in "abc":
        add(line, flow, 5)
    names = [request[1].rstrip("0123456789") for request in line.first(15)]
    assert start(line, 15) == names


SHARES = (Shares(), Shares({"a": 3}), Shares(max_running=1))


def change(line: FlowBacklog, chance: random.Random) -> None:
    """Do one thing to LINE that may change the order."""
    flow, number = chance.choice("abcd"), chance.randrange(4)
    match chance.randrange(5):
        case 0 | 1:
            add(line, flow, 1, first=number)
        case 2:
            line.discard(key(f"{flow}{number}"))
        case 3:
            line.ended(flow)
        case 4:
            start(line, len(line.first(1)))
            line.shares = chance.choice(SHARES)


def test_the_order_is_the_same_however_often_one_asks_for_it() -> None:
    for seed in range(300):
        asked, unasked = FlowBacklog(), FlowBacklog()
        for line in (asked, unasked):
            chance = random.Random(seed)  # noqa: S311
            for _ in range(12):
                change(line, chance)
                if line is asked:
                    line.first(3)
        assert asked.first(20) == unasked.first(20), seed


def test_flows_are_put_in_order_once_for_all_that_ask_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []
    monkeypatch.setattr(heapq, "heapify", lambda flows: ordered.append(len(flows)))
    line = FlowBacklog()
    for number in range(MAX_NAMED_FLOWS):
        add(line, f"flow{number:04}-", 2)
    for number in range(MAX_NAMED_FLOWS):
        assert line.ahead_of(key(f"flow{number:04}-1"), 1) == 1
    assert ordered == [MAX_NAMED_FLOWS]


def test_a_flow_that_had_nothing_to_do_saves_nothing_up() -> None:
    line = FlowBacklog()
    add(line, "a", 300)
    add(line, "b", 1)
    start(line, 200)
    add(line, "b", 100, first=1)
    counts = Counter(start(line, 40))
    assert abs(counts["a"] - counts["b"]) <= 1


@pytest.mark.parametrize(
    ("others", "weights", "expected"), [("b", {}, 60), ("bcd", {}, 30), ("b", {"b": 9}, 12), ("b", {"a": 3}, 90)]
)
def test_a_flow_with_one_request_at_a_time_has_its_share_and_no_more(
    others: str, weights: dict[str, int], expected: int
) -> None:
    line = FlowBacklog()
    line.shares = Shares(weights)
    for flow in others:
        add(line, flow, 200)
    counts = Counter[str]()
    for number in range(120):
        if not line.waiting_of("a"):
            add(line, "a", 1, first=number)
        (flow,) = start(line, 1)
        line.ended(flow)
        counts[flow] += 1
    assert abs(counts["a"] - expected) <= 1
    # A flow that had its share is not one of the busiest.
    line.discard(line.first_of("a") or key(""))
    assert "a" not in [name for name, *_ in line.busiest(5)]


@pytest.mark.parametrize("weights", [{}, {"a": 3}, {"a": 9, "b": 2}], ids=["equal", "one", "two"])
@pytest.mark.parametrize("places", [1, 3])
def test_flows_that_wait_have_the_same_by_weight_but_for_one_of_each_whatever_was_before(
    weights: dict[str, int], places: int
) -> None:
    """The bound of start-time fair queueing (Goyal et al. 1996)."""
    one = {flow: Fraction(1, weights.get(flow, 1)) for flow in "abc"}
    for seed in range(50):
        chance, line, running = random.Random(seed), FlowBacklog(), list[str]()  # noqa: S311
        line.shares = Shares(weights)
        counts = dict[str, Fraction]()
        for number in range(150):
            if chance.random() < 0.6:
                add(line, chance.choice("abc"), 1, first=number)
            elif running:
                line.ended(running.pop(chance.randrange(len(running))))
            while len(running) < places and len(line):
                waiting = [flow for flow in "abc" if line.waiting_of(flow)]
                # Who comes has no more than those had before.
                counts = dict.fromkeys(waiting, Fraction()) if set(waiting) - set(counts) else counts
                counts = {flow: counts[flow] for flow in waiting}
                running += (started := start(line, 1))
                counts[started[0]] += one[started[0]]
                assert all(
                    abs(counts[first] - counts[second]) <= one[first] + one[second]
                    for first in counts
                    for second in counts
                ), seed


def test_a_flow_has_no_more_than_it_may_at_a_time() -> None:
    line = FlowBacklog()
    line.shares = Shares(max_running=2)
    add(line, "a", 5)
    assert len(line.first(5)) == 2
    start(line, 2)
    assert line.first(5) == []
    assert line.ahead_of(key("a2"), 7) == 7
    line.ended("a")
    assert line.first(5) == [key("a2")]


def test_a_request_that_is_set_aside_waits_in_nobodys_way() -> None:
    line = FlowBacklog()
    add(line, "a", 2)
    add(line, "b", 3)
    line.set_aside(key("a0"))
    assert line.first(9) == [key("a1"), key("b0"), key("b1"), key("b2")]
    line.set_aside(key("a1"))
    line.set_aside(key("a1"))
    assert line.first(9) == [key("b0"), key("b1"), key("b2")]
    assert line.ahead_of(key("b0"), 9) == 0
    # Virtual time goes on as if there were none: what comes next has its share, and no more.
    assert start(line, 2) == ["b", "b"]
    add(line, "c", 9)
    assert start(line, 2) == ["c", "b"]
    # It counts among those that wait, which some limits are about.
    assert (len(line), line.waiting_of("a"), line.flow_of(key("a0")), line.oldest) == (10, 2, "a", T0)
    line.resume(key("a1"))
    assert line.first(1) == [key("a1")]


def test_nothing_is_left_of_a_request_that_was_set_aside() -> None:
    line = FlowBacklog()
    add(line, "a", 2)
    line.set_aside(key("a0"))
    line.set_aside(key("b0"))
    line.resume(key("b0"))
    line.refile_begins()
    line.refile(lambda _: "other", 1000)
    assert (line.waiting_of("a"), line.first(2)) == (0, [key("a0"), key("a1")])
    line.set_aside(key("a0"))
    assert not line.idle
    for name in ("a0", "a1"):
        line.discard(key(name))
    assert line.idle
    assert len(line) == 0


def test_a_request_is_paid_for_once() -> None:
    line = FlowBacklog()
    add(line, "a", 1)
    add(line, "b", 1)
    for _ in range(10):
        line.started("a", is_paid=True)
        line.ended("a")
    assert line.first(1) == [key("a0")]


def test_of_a_flow_without_requests_nothing_is_kept() -> None:
    line = FlowBacklog()
    for number in range(50):
        add(line, f"f{number}-", 1)
    start_all = line.first(50)
    for request in start_all:
        flow = request[1].rstrip("0123456789")
        line.discard(request)
        line.started(flow)
        line.ended(flow)
    assert line.idle
    assert len(line) == 0


def run_out_of_turn(line: FlowBacklog, flow: str, count: int) -> None:
    for _ in range(count):
        line.started(flow)
    for _ in range(count):
        line.ended(flow)


def test_what_goes_out_of_turn_gives_no_credit_to_a_flow_that_has_nothing_to_do() -> None:
    line = FlowBacklog()
    add(line, "a", 100)
    start(line, 1)
    run_out_of_turn(line, "a", 50)
    add(line, "b", 100)
    counts = Counter(start(line, 40))
    assert abs(counts["a"] - counts["b"]) <= 1


def test_a_flow_that_owes_is_forgotten_once_nothing_waits_or_runs() -> None:
    line = FlowBacklog()
    add(line, "b", 20)
    run_out_of_turn(line, "a", 10)
    add(line, "a", 1)
    assert "a" not in start(line, 10)
    for request in list(line.waiting):
        line.discard(request)
    assert not line.idle
    for _ in range(10):
        line.ended("b")
    assert line.idle


def test_flows_that_owe_leave_room_for_others_once_they_have_paid() -> None:
    line = FlowBacklog()
    add(line, "b", 10)
    for number in range(MAX_NAMED_FLOWS - 1):
        run_out_of_turn(line, f"owes{number}", 3)
    assert line.known("one more") == OTHER_FLOWS
    start(line, 4)
    assert line.known("one more") == "one more"


def test_beyond_a_number_of_flows_all_share_one() -> None:
    line = FlowBacklog()
    for number in range(MAX_NAMED_FLOWS):
        line.add(key(f"r{number}"), (T0, f"r{number}"), line.known(f"flow {number}"))
    assert line.known("one more") == OTHER_FLOWS
    assert line.known("flow 7") == "flow 7"


def test_a_request_beside_those_of_all_others_keeps_its_flow_when_it_is_put_in_line_anew() -> None:
    line = FlowBacklog()
    for number in range(MAX_NAMED_FLOWS + 1):
        line.add(key(f"r{number}"), (T0, f"r{number}"), line.known(f"flow {number}"))
    line.discard(key("r7"))
    assert line.known("flow 7") == "flow 7"


def test_the_oldest_is_the_one_created_first_whatever_its_flow_and_priority() -> None:
    line = FlowBacklog()
    line.add(key("old"), (T0 + timedelta(hours=9), "old"), "a", T0)
    line.add(key("young"), (T0 + timedelta(hours=1), "young"), "b")
    assert line.oldest == T0

    line.refile_begins()
    line.refile(lambda _: "c", 1000)
    assert line.oldest == T0

    line.discard(key("old"))
    assert line.oldest == T0 + timedelta(hours=1)
    line.discard(key("young"))
    assert line.oldest is None
