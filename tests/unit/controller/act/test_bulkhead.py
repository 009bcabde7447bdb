"""act/bulkhead.py: few calls at a time, none to a bridge that does not answer, no key forgotten. On virtual time."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.controller.act.bulkhead import (
    FAILURES,
    FIRST_PAUSE_SECONDS,
    LAST_PAUSE_SECONDS,
    MAX_CALLS,
    MAX_TOGETHER,
    Bulkhead,
    Depth,
)
from efrit.controller.model.actions import Parked
from efrit.controller.model.keys import WorkKey
from tests.unit.controller.virtual_time import elapse, now, on_virtual_time

pytestmark = pytest.mark.virtual_time


def key(name: object) -> WorkKey:
    return WorkKey("EfritRequest", "team", str(name))


@dataclass
class Around:
    """Remembers what a bulkhead asks for."""

    invited: list[WorkKey] = field(default_factory=list)
    requeued: list[WorkKey] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)
    depths: list[Depth] = field(default_factory=list)
    problems: list[str | None] = field(default_factory=list)

    def requeue(self, key: WorkKey) -> None:
        self.requeued.append(key)

    def invite(self, key: WorkKey) -> None:
        self.invited.append(key)

    def probe(self, depth: Depth) -> None:
        self.probes.append(now())
        self.depths.append(depth)

    def changed(self, problem: str | None) -> None:
        self.problems.append(problem)


def made() -> tuple[Bulkhead, Around]:
    around = Around()
    return Bulkhead(around), around


def parked(bulkhead: Bulkhead, name: object) -> str | None:
    """Try a call that has to wait; return why none are made, if none are."""
    with pytest.raises(Parked) as caught, bulkhead.call(key(name)):
        pass
    return caught.value.problem


def fail(bulkhead: Bulkhead, *names: object) -> None:
    for name in names:
        with bulkhead.call(key(name)):
            bulkhead.failed("no answer.")


def opened() -> tuple[Bulkhead, Around]:
    bulkhead, around = made()
    fail(bulkhead, *range(FAILURES))
    assert around.problems == ["no answer."]
    return bulkhead, around


async def test_of_a_hundred_keys_few_call_at_a_time_and_the_others_follow_in_their_order() -> None:
    bulkhead, around = made()
    calls = [ExitStack() for _ in range(MAX_CALLS)]
    for number, call in enumerate(calls):
        call.enter_context(bulkhead.call(key(number)))
    for number in range(MAX_CALLS, 100):
        assert parked(bulkhead, number) is None
    assert (bulkhead.parked, around.invited) == (96, [])

    calls[0].close()

    assert around.invited == [key(MAX_CALLS)]
    parked(bulkhead, "late")
    with bulkhead.call(key(MAX_CALLS)):
        assert parked(bulkhead, "later") is None


async def test_of_a_bridge_that_takes_batches_more_elements_are_under_way_and_as_few_calls_of_their_own() -> None:
    bulkhead, around = made()
    with ExitStack() as calls:
        for number in range(MAX_CALLS):
            calls.enter_context(bulkhead.call(key(number), together=True))
        with pytest.raises(Parked), bulkhead.call(key("waits"), together=True):
            pass

        bulkhead.take_batches(True)

        assert around.invited == [key("waits")]
        bulkhead.key_reconciled(key("waits"))
        alone = [ExitStack() for _ in range(MAX_CALLS)]
        for number, call in enumerate(alone):
            call.enter_context(bulkhead.call(key(f"alone-{number}")))
        parked(bulkhead, "one more alone")
        with pytest.raises(Parked), bulkhead.call(key("and one"), Depth.SUBMIT):
            pass
        # No place of theirs: nobody is invited over and over.
        bulkhead.key_reconciled(key("one more alone"))
        assert around.invited == [key("waits")]
        for number in range(MAX_TOGETHER - 2 * MAX_CALLS):
            calls.enter_context(bulkhead.call(key(f"more-{number}"), together=True))
        with pytest.raises(Parked), bulkhead.call(key("too many"), together=True):
            pass

        alone[0].close()

        assert around.invited == [key("waits"), key("one more alone")]
        for call in alone[1:]:
            call.close()


async def test_a_place_that_nobody_uses_goes_to_the_next() -> None:
    bulkhead, around = made()
    with ExitStack() as calls:
        for number in range(MAX_CALLS):
            calls.enter_context(bulkhead.call(key(number)))
        for name in "abcdef":
            parked(bulkhead, name)
    assert around.invited == [key(name) for name in "abcd"]

    bulkhead.key_reconciled(key("a"))

    assert around.invited == [key(name) for name in "abcde"]


async def test_calls_that_fail_in_a_row_open_the_breaker_and_all_that_wait_learn_why() -> None:
    bulkhead, around = made()
    with ExitStack() as calls:
        for number in range(MAX_CALLS):
            calls.enter_context(bulkhead.call(key(number)))
        parked(bulkhead, "waits")
        bulkhead.failed("no answer.")
        bulkhead.succeeded()
        for _ in range(FAILURES):
            assert around.problems == []
            bulkhead.failed("no answer.")

    assert around.problems == ["no answer."]
    assert around.requeued == [key("waits")]
    assert around.invited == []
    assert parked(bulkhead, "another") == "no answer."


async def test_one_key_at_a_time_tries_again_ever_more_seldom_until_the_bridge_answers() -> None:
    bulkhead, around = opened()
    for name in "abc":
        parked(bulkhead, name)
    tries: list[float] = []
    for number in range(10):
        while len(around.invited) == number:
            await elapse(1)
        tries.append(now())
        last = around.invited[-1]
        with bulkhead.call(last):
            parked(bulkhead, "barges in")
            bulkhead.failed("still no answer.")
        parked(bulkhead, last.name)
        bulkhead.key_reconciled(last)

    pauses = [after - before for before, after in zip([0.0, *tries], tries, strict=False)]
    assert pauses[0] <= 1.25 * FIRST_PAUSE_SECONDS + 1
    assert all(pause <= 1.25 * LAST_PAUSE_SECONDS + 1 for pause in pauses)
    assert pauses[-1] >= 0.75 * LAST_PAUSE_SECONDS
    assert around.problems == ["no answer."], "a condition does not change with each probe"

    await elapse(2 * LAST_PAUSE_SECONDS)
    with bulkhead.call(around.invited[-1]):
        bulkhead.succeeded()
    assert around.problems == ["no answer.", None]
    assert bulkhead.problem is None
    assert len(around.invited) == 10 + 1 + 3, "all that wait are invited, as many as may call at a time"


async def test_where_nobody_waits_the_breaker_asks_for_a_probe() -> None:
    bulkhead, around = opened()
    await elapse(2 * FIRST_PAUSE_SECONDS)
    assert len(around.probes) == 1

    with bulkhead.call(None):
        bulkhead.failed("no answer.")
    await elapse(4 * FIRST_PAUSE_SECONDS)
    assert len(around.probes) == 2
    with bulkhead.call(None):
        bulkhead.succeeded()

    assert around.problems == ["no answer.", None]
    await elapse(3600)
    assert len(around.probes) == 2


async def test_an_invited_key_with_nothing_to_call_leaves_the_probe_to_the_next_or_to_nobody() -> None:
    bulkhead, around = opened()
    for name in "ab":
        parked(bulkhead, name)
    await elapse(2 * FIRST_PAUSE_SECONDS)
    assert around.invited == [key("a")]

    bulkhead.key_reconciled(key("a"))
    assert around.invited == [key("a"), key("b")]
    bulkhead.key_reconciled(key("b"))
    assert len(around.probes) == 1


async def test_a_stream_that_begins_anew_is_a_reason_to_try_and_one_failure_is_enough_then() -> None:
    bulkhead, around = opened()

    bulkhead.stream_opened()

    assert around.problems == ["no answer.", None]
    fail(bulkhead, "a")
    assert around.problems == ["no answer.", None, "no answer."]


async def test_streams_that_cannot_be_read_open_the_breaker_and_beginning_anew_does_not_close_it() -> None:
    bulkhead, around = made()
    for _ in range(FAILURES):
        bulkhead.stream_opened()
        bulkhead.unreadable("garbage.")
        with suppress(Parked), bulkhead.call(key("a")):
            bulkhead.succeeded()
    bulkhead.stream_opened()

    assert around.problems == ["garbage."]


async def test_a_connection_that_is_closed_keeps_no_key_and_no_problem() -> None:
    bulkhead, around = opened()
    parked(bulkhead, "a")

    bulkhead.close()
    await elapse(3600)

    assert around.requeued == [key("a")]
    assert around.problems == ["no answer.", None]
    assert (bulkhead.parked, around.probes) == (0, [])


@pytest.mark.parametrize("how", ["failed", "unreadable"])
async def test_what_fails_as_its_connection_is_closed_is_no_problem_of_the_next_one(how: str) -> None:
    bulkhead, around = made()
    with bulkhead.call(key("under way")):
        bulkhead.close()
        for _ in range(FAILURES):
            if how == "failed":
                bulkhead.failed("the connection was closed.")
            else:
                bulkhead.unreadable("garbage.")
    await elapse(3600)

    assert (around.problems, around.probes, bulkhead.problem) == ([], [], None)


def breaks(bulkhead: Bulkhead, depth: Depth) -> None:
    for number in range(FAILURES):
        with bulkhead.call(key(number), depth):
            bulkhead.failed("hangs.", depth)


@pytest.mark.parametrize(
    ("broken", "blocked"),
    [(Depth.READ, list(Depth)), (Depth.WRITE, [Depth.WRITE, Depth.SUBMIT]), (Depth.SUBMIT, [Depth.SUBMIT])],
)
async def test_what_fails_blocks_what_needs_as_much_of_the_bridge_and_no_other_calls(
    broken: Depth, blocked: list[Depth]
) -> None:
    bulkhead, _ = made()
    breaks(bulkhead, broken)

    refused = []
    for depth in Depth:
        try:
            with bulkhead.call(key("a"), depth):
                bulkhead.succeeded(Depth.READ)
        except Parked:
            refused.append(depth)

    assert refused == blocked


async def test_where_writes_hang_and_reads_do_not_the_condition_changes_once_until_a_write_succeeds() -> None:
    bulkhead, around = made()
    breaks(bulkhead, Depth.WRITE)
    for _ in range(20):
        with bulkhead.call(key("reads")):
            bulkhead.succeeded()
        await elapse(2 * LAST_PAUSE_SECONDS)
        with bulkhead.call(key("writes"), Depth.WRITE):
            bulkhead.failed("hangs.", Depth.WRITE)
    assert around.problems == ["hangs."]
    assert set(around.depths) == {Depth.WRITE}, "a probe that reads would prove nothing"

    await elapse(2 * LAST_PAUSE_SECONDS)
    with bulkhead.call(None, Depth.WRITE):
        bulkhead.succeeded(Depth.WRITE)

    assert around.problems == ["hangs.", None]


async def test_without_room_requests_wait_one_tries_again_and_none_is_asked_for_where_none_waits() -> None:
    bulkhead, around = made()
    with bulkhead.call(key("first"), Depth.SUBMIT):
        bulkhead.queue_full("full.")
    await elapse(2 * FIRST_PAUSE_SECONDS)
    assert (around.probes, around.problems, bulkhead.problem) == ([], [], None)
    with bulkhead.call(key("second"), Depth.SUBMIT):
        bulkhead.queue_full("full.")

    for number in range(10):
        with pytest.raises(Parked) as caught, bulkhead.call(key(number), Depth.SUBMIT):
            pass
        assert (caught.value.problem, caught.value.no_room) == ("full.", True)
    await elapse(4 * LAST_PAUSE_SECONDS)
    assert around.invited == [key(0)], "one finds out for all"

    with bulkhead.call(key(0), Depth.SUBMIT):
        bulkhead.succeeded(Depth.SUBMIT)
    assert around.invited == [key(number) for number in range(MAX_CALLS + 1)]


async def test_figures_that_report_room_have_the_next_request_tried_at_once() -> None:
    bulkhead, around = made()
    with bulkhead.call(key("first"), Depth.SUBMIT):
        bulkhead.queue_full("full.")
    with pytest.raises(Parked), bulkhead.call(key("second"), Depth.SUBMIT):
        pass

    bulkhead.queue_has_space()

    assert around.invited == [key("second")]


@given(st.lists(st.tuples(st.sampled_from(["call", "ok", "fail", "none", "settle", "wait"]), st.integers(0, 9))))
def test_whatever_happens_every_key_that_waits_is_invited_in_the_end(steps: list[tuple[str, int]]) -> None:
    @on_virtual_time
    async def play() -> None:
        bulkhead, around = made()
        calls: dict[int, ExitStack] = {}
        waits: set[int] = set()

        def use_invitations() -> None:
            """Reconcile what was invited: it calls, and its call is answered."""
            while around.invited:
                one = around.invited.pop()
                with suppress(Parked), bulkhead.call(one):
                    bulkhead.succeeded()
                    waits.discard(int(one.name))
                bulkhead.key_reconciled(one)

        for step, number in steps:
            if step == "call" and number not in calls:
                stack = ExitStack()
                try:
                    stack.enter_context(bulkhead.call(key(number)))
                except Parked:
                    waits.add(number)
                else:
                    calls[number] = stack
                    waits.discard(number)
            elif step in ("ok", "fail", "none") and number in calls:
                if step == "ok":
                    bulkhead.succeeded()
                elif step == "fail":
                    bulkhead.failed("no answer.")
                calls.pop(number).close()
            elif step == "settle":
                bulkhead.key_reconciled(key(number))
                around.invited = [instance for instance in around.invited if instance != key(number)]
                waits.discard(number)
            elif step == "wait":
                await elapse(number * 10)
            assert len(calls) <= MAX_CALLS
        for stack in calls.values():
            stack.close()
        for _ in range(20):
            use_invitations()
            if around.probes:
                around.probes.clear()
                with suppress(Parked), bulkhead.call(None):
                    bulkhead.succeeded()
            await elapse(2 * LAST_PAUSE_SECONDS)
        assert not bulkhead.parked
        assert not waits

    play()
