"""When Emacs is interrupted and when it is killed: a table of moments."""

import pytest

from efrit.bridge.overrun import (
    EmacsAlive,
    Interrupt,
    Kill,
    Order,
    Run,
    SignalTimes,
    Step,
    SupervisionLimits,
    Wake,
    can_react,
    decide,
    next_check,
    occupant,
)
from efrit.protocol import RequestId, RequestReason, RestartReason, request_id
from efrit.queue.process_sample import ResponseMeter, Sample, could_run
from efrit.queue.self_check import RestartCause

A = request_id("a")
LIMITS = SupervisionLimits(grace=5, stall=120)
EMACS = EmacsAlive(since=0, last_heartbeat=100)
TIMED_OUT = Order(A, RequestReason.TIMED_OUT)


@pytest.mark.parametrize(
    ("run", "interrupted", "now", "expected"),
    [
        pytest.param(Run(A, 100, 30), {}, 129.9, [], id="in time"),
        pytest.param(Run(A, 100, 30), {}, 130, [TIMED_OUT], id="over its time"),
        pytest.param(Run(A, 100, 30, 130), {}, 130, [Interrupt(A)], id="order written"),
        pytest.param(Run(A, 100, 30, 130), {A: 130}, 130.9, [], id="interrupted a moment ago"),
        pytest.param(Run(A, 100, 30, 130), {A: 130}, 131, [Interrupt(A)], id="interrupted a second ago"),
        pytest.param(
            Run(A, 100, 30, 130), {A: 132}, 134, [Interrupt(A, insist=True)], id="not heard for two seconds"
        ),
        pytest.param(Run(A, 100, 30, 130), {A: 134}, 135, [Kill(A)], id="grace is over"),
        pytest.param(Run(A, 100, 30, 110), {}, 110, [Interrupt(A)], id="cancelled before its time"),
        pytest.param(Run(A, 100, 30, 50), {}, 110, [Interrupt(A)], id="never killed before it was asked"),
    ],
)
def test_one_request_at_one_moment(run: Run, interrupted: dict[str, float], now: float, expected: list[Step]) -> None:
    stops = {request_id(k): SignalTimes(v, v) for k, v in interrupted.items()}
    assert decide([run], EMACS, stops, LIMITS, now) == expected


def test_without_emacs_nothing_is_done() -> None:
    assert decide([Run(A, 0, 1, 0)], None, {}, LIMITS, 1000) == []
    assert next_check([Run(A, 0, 1, 0)], None, {}, 5, 1000) is None


def test_a_new_emacs_gets_the_whole_time_again() -> None:
    young = EmacsAlive(since=200, last_heartbeat=200)
    assert decide([Run(A, 100, 30)], young, {}, LIMITS, 229) == []
    assert decide([Run(A, 100, 30, 130)], young, {A: SignalTimes(201, 201)}, LIMITS, 204.9) == [
        Interrupt(A, insist=True)
    ]
    assert decide([Run(A, 100, 30, 130)], young, {A: SignalTimes(204, 204)}, LIMITS, 205) == [Kill(A)]


def test_silence_is_believed_only_while_nothing_runs() -> None:
    assert decide([], EMACS, {}, LIMITS, 102.9) == []
    assert decide([], EMACS, {}, LIMITS, 103) == [Wake()]
    assert decide([], EMACS, {}, LIMITS, 103.9) == [Wake()]
    assert decide([], EMACS, {}, LIMITS, 104) == [Wake(insist=True)]
    assert decide([], EMACS, {}, LIMITS, 219) == [Wake(insist=True)]
    assert decide([], EMACS, {}, LIMITS, 220) == [Kill(None)]
    assert decide([Run(A, 100, 500)], EMACS, {}, LIMITS, 300) == []


def test_the_next_check_is_at_the_next_deadline() -> None:
    stopping = Run(A, 100, 30, 130)
    assert next_check([], EMACS, {}, 5, 100) is None
    assert next_check([Run(A, 100, 30)], EMACS, {}, 5, 100) == 130
    assert next_check([stopping], EMACS, {A: SignalTimes(130, 133.5)}, 5, 134) == 134.5
    assert next_check([stopping], EMACS, {A: SignalTimes(130, 134.5)}, 5, 134.6) == 135


# Several at once: sessions, and an eval or a tool that occupies Emacs.

S, T = request_id("s"), request_id("t")
SESSION = Run(S, 100, 600, session=True)
STOPPED = Run(S, 100, 600, 130, session=True)
LATE = Run(S, 100, 600, 398, session=True)
OTHER = Run(T, 90, 600, session=True)
EVAL = Run(A, 125, 30)
FRESH = EmacsAlive(since=0, last_heartbeat=134.5)


def at(moment: float, current: str | None = None) -> EmacsAlive:
    """Emacs with its last heartbeat at `moment`."""
    return EmacsAlive(since=0, last_heartbeat=moment, current=None if current is None else request_id(current))


@pytest.mark.parametrize(
    ("runs", "emacs"),
    [
        pytest.param([STOPPED, EVAL], at(134.5, "a"), id="an eval in time"),
        pytest.param([STOPPED, EVAL], at(124.9), id="an eval that the heartbeat does not name yet"),
        pytest.param([STOPPED, OTHER], at(131, "t"), id="a tool of another session"),
    ],
)
def test_what_occupies_emacs_in_its_time_is_neither_disturbed_nor_killed_for_a_session_that_is_to_stop(
    runs: list[Run], emacs: EmacsAlive
) -> None:
    stops = {S: SignalTimes(130, 134)}
    assert occupant(runs, emacs, 140) == runs[1]
    assert not can_react(runs, emacs, 140)
    assert decide(runs, emacs, stops, LIMITS, 140) == []
    assert next_check(runs, emacs, stops, 5, 140) == runs[1].since + runs[1].timeout


def test_the_grace_of_a_session_begins_when_emacs_can_listen() -> None:
    """It was ordered to stop long ago, at 130: an eval occupied Emacs until 150."""
    emacs = at(149.9, "s")
    assert decide([STOPPED], emacs, {}, LIMITS, 150) == [Interrupt(S)]
    assert decide([STOPPED], emacs, {S: SignalTimes(150, 154)}, LIMITS, 154.9) == []
    assert decide([STOPPED], emacs, {S: SignalTimes(150, 154)}, LIMITS, 155) == [Kill(S)]


def test_what_overran_is_stopped_though_it_is_not_what_the_heartbeat_names() -> None:
    """The tool of a session ended, an eval began, and that hangs so that no heartbeat tells of it."""
    overran = Run(A, 100, 30, 130)
    stale = at(99.9, "t")
    assert decide([OTHER, overran], stale, {}, LIMITS, 130) == [Interrupt(A)]
    assert decide([OTHER, overran], stale, {A: SignalTimes(130, 134)}, LIMITS, 135) == [Kill(A)]


def test_a_session_whose_tool_does_not_stop_costs_emacs_its_life() -> None:
    stops = {S: SignalTimes(130, 134)}
    assert decide([STOPPED, OTHER], at(134.5, "s"), stops, LIMITS, 134.9) == []
    assert decide([STOPPED, OTHER], at(134.5, "s"), stops, LIMITS, 135) == [Kill(S)]


def test_an_emacs_that_lives_is_not_killed_for_a_session_that_only_waits() -> None:
    stops = {S: SignalTimes(130, 139.5)}
    assert decide([STOPPED], at(139.5), stops, LIMITS, 140) == []
    assert decide([STOPPED], at(249), {S: SignalTimes(130, 249.5)}, LIMITS, 250) == [Kill(S)], (
        "it does not obey at all"
    )


def test_a_silent_emacs_is_killed_for_a_session_after_the_grace_unless_others_would_be_lost_with_it() -> None:
    stops = {S: SignalTimes(130, 134.5)}
    assert decide([STOPPED], at(129), stops, LIMITS, 135) == [Kill(S)]
    assert decide([STOPPED, OTHER], at(129), stops, LIMITS, 135) == [Wake(insist=True)]
    assert decide([STOPPED, OTHER], at(129), {S: SignalTimes(130, 248.9)}, LIMITS, 249) == [Kill(None)]


def test_an_emacs_whose_sessions_only_wait_gives_signs_of_life() -> None:
    assert decide([SESSION, OTHER], at(200), {}, LIMITS, 202.9) == []
    assert decide([SESSION, OTHER], at(200), {}, LIMITS, 203) == [Wake()]
    assert decide([SESSION, OTHER], at(200), {}, LIMITS, 320) == [Kill(None)]
    assert decide([SESSION, OTHER], at(200, "s"), {}, LIMITS, 400) == [], "a tool of it may take its time"


def test_each_session_has_its_own_time() -> None:
    short = Run(T, 90, 45, session=True)
    assert decide([SESSION, short], FRESH, {}, LIMITS, 134.9) == []
    assert decide([SESSION, short], FRESH, {}, LIMITS, 135) == [Order(T, RequestReason.TIMED_OUT)]
    assert next_check([SESSION, short], FRESH, {}, 5, 134) == 135


# Code that a request has left behind, which keeps Emacs busy between requests.


@pytest.mark.parametrize(
    ("emacs", "expected"),
    [
        pytest.param(EmacsAlive(0, 100, unresponsive=5.9), [Wake(insist=True)], id="its grace time is not over"),
        pytest.param(EmacsAlive(0, 100, unresponsive=6), [Kill(None)], id="it could run and heard nothing"),
        pytest.param(
            EmacsAlive(0, 100, unresponsive=0), [Wake(insist=True)], id="it is stopped, or waits for its disk"
        ),
        pytest.param(EmacsAlive(0, 100, unresponsive=9, attended=True), [Wake()], id="a person works in it"),
        pytest.param(EmacsAlive(0, 100, request_id("s"), unresponsive=9), [], id="a tool occupies it"),
    ],
)
def test_an_emacs_that_is_busy_between_requests_is_signalled_and_then_killed(
    emacs: EmacsAlive, expected: list[Step]
) -> None:
    runs = [SESSION] if emacs.current else []
    assert decide(runs, emacs, {}, LIMITS, 110) == expected


@pytest.mark.parametrize(
    ("runs", "emacs", "signals", "now", "expected"),
    [
        pytest.param([], EmacsAlive(0, 100, occupied=400), {}, 400, [], id="an eval ended just now"),
        pytest.param([], EmacsAlive(0, 100, occupied=400), {}, 402.9, [], id="its heartbeat may still come"),
        pytest.param([], EmacsAlive(0, 100, occupied=400), {}, 403, [Wake()], id="none came in three seconds"),
        pytest.param([], EmacsAlive(0, 100, occupied=400), {}, 404, [Wake(insist=True)], id="nor in four"),
        pytest.param([], EmacsAlive(0, 100, occupied=400), {}, 520, [Kill(None)], id="nor in the stall time"),
        pytest.param([], EmacsAlive(0, 401, occupied=400), {}, 403.9, [], id="one came since"),
        pytest.param([SESSION], EmacsAlive(0, 100, occupied=400), {}, 402.9, [], id="a session waits beside it"),
        pytest.param(
            [LATE],
            EmacsAlive(0, 100, occupied=400),
            {S: SignalTimes(398, 404)},
            404,
            [Wake(insist=True)],
            id="and is to stop",
        ),
        pytest.param(
            [LATE],
            EmacsAlive(0, 100, occupied=400),
            {S: SignalTimes(398, 404)},
            405,
            [Kill(S)],
            id="and does not stop",
        ),
    ],
)
def test_silence_counts_from_when_something_last_occupied_emacs(
    runs: list[Run], emacs: EmacsAlive, signals: dict[RequestId, SignalTimes], now: float, expected: list[Step]
) -> None:
    """The eval ran from 100 on, and no heartbeat came meanwhile."""
    assert decide(runs, emacs, signals, LIMITS, now) == expected


@pytest.mark.parametrize(
    ("emacs", "silent_from"),
    [
        pytest.param(EmacsAlive(0, 100, rest=9), 109, id="nothing is due before"),
        pytest.param(EmacsAlive(0, 100, rest=9, waiting=104), 104, id="a request has come, which it is to begin"),
        pytest.param(EmacsAlive(0, 100, rest=9, waiting=95), 100, id="it came before the heartbeat"),
        pytest.param(EmacsAlive(0, 100, rest=9, waiting=115), 109, id="it came when it was silent already"),
        pytest.param(EmacsAlive(0, 100, rest=9, occupied=105), 105, id="an eval has ended its rest"),
        pytest.param(EmacsAlive(0, 100, waiting=104), 100, id="it does not rest"),
    ],
)
def test_an_emacs_that_rests_is_silent_from_when_something_is_due(emacs: EmacsAlive, silent_from: float) -> None:
    assert decide([], emacs, {}, LIMITS, silent_from + 2.9) == []
    assert decide([], emacs, {}, LIMITS, silent_from + 3) == [Wake()]


START_SECONDS = 2.0
"""In which another Emacs serves."""


@pytest.mark.parametrize("grace", [0.0, 2.0, 5.0, 30.0, 600.0])
@pytest.mark.parametrize("late", [0.0, 0.5, 0.99])
def test_a_hung_emacs_is_killed_early_enough_for_the_next_to_answer_within_ten_seconds(
    grace: float, late: float
) -> None:
    """The last heartbeat is at 100, Emacs could run all the time, and the supervisor looks each second."""
    looks = (100 + late + second for second in range(30))
    killed = next(
        now
        for now in looks
        if Kill(None)
        in decide([], EmacsAlive(0, 100, unresponsive=now - 100), {}, SupervisionLimits(grace, 120), now)
    )
    assert 3 <= killed - 100 < 10 - START_SECONDS


CAUSE = RestartCause(RestartReason.SELF_CHECK_FAILED, "wrong")


@pytest.mark.parametrize(
    ("runs", "current", "expected"),
    [
        pytest.param([], None, [Kill(None, CAUSE)], id="nothing runs"),
        pytest.param([SESSION], None, [Kill(None, CAUSE)], id="only sessions that wait"),
        pytest.param([SESSION], S, [], id="a tool occupies it"),
        pytest.param([Run(A, 100, 30)], None, [], id="an eval runs"),
    ],
)
def test_an_emacs_whose_self_check_fails_is_killed_unless_something_occupies_it(
    runs: list[Run], current: RequestId | None, expected: list[Step]
) -> None:
    emacs = EmacsAlive(0, 109.5, current, cause=CAUSE)
    assert decide(runs, emacs, {}, LIMITS, 110) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(Sample("S", 1), Sample("S", 1), 2, id="it waits for something"),
        pytest.param(Sample("R", 1), Sample("R", 3), 2, id="it computes"),
        pytest.param(Sample("R", 1), Sample("R", 1.5), 2, id="it has enough of a CPU"),
        pytest.param(Sample("R", 1), Sample("R", 1.125), 0.5, id="others have the CPU"),
        pytest.param(Sample("R", 1), Sample("T", 1), 0, id="it is stopped"),
        pytest.param(Sample("S", 1), Sample("D", 1), 0, id="it waits for its disk"),
    ],
)
def test_silence_counts_while_emacs_could_run(before: Sample, after: Sample, expected: float) -> None:
    assert could_run(before, after, 2) == expected


WAITS = Sample("S", 1)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([(0, False), (2, False), (4, False)], 4, id="nothing occupied it"),
        pytest.param([(0, True), (60, True)], 0, id="an eval runs"),
        pytest.param([(0, True), (60, True), (61, False)], 1, id="the eval ended a second ago"),
        pytest.param([(0, False), (2, True), (9, True), (10, False)], 1, id="it was silent before the eval as well"),
    ],
)
def test_what_occupies_emacs_does_not_count_as_time_in_which_it_could_have_answered(
    looks: list[tuple[float, bool]], expected: float
) -> None:
    meter = ResponseMeter()
    for now, occupied in looks:
        meter.note(WAITS, now, occupied=occupied)
    assert meter.seconds == expected


def test_what_was_silent_before_a_heartbeat_does_not_count() -> None:
    meter = ResponseMeter()
    for now in (0, 2):
        meter.note(WAITS, now)
    meter.restart()
    assert meter.seconds == 0
    for now in (4, 5):
        meter.note(WAITS, now)
    assert meter.seconds == 1


def test_only_time_in_which_an_answer_was_due_counts() -> None:
    meter = ResponseMeter()
    meter.note(WAITS, 100)
    meter.note(WAITS, 112, due_seconds=3)
    meter.note(WAITS, 113, due_seconds=4)
    assert meter.seconds == 4
