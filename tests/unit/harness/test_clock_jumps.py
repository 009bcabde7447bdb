"""The clock that jumps ahead: forwards only, within its bound, and the same again."""

from __future__ import annotations

import itertools

from tests.clock_jumps import LONGEST_SECONDS, MAX_SECONDS, JumpingClock


def looks(clock: JumpingClock, name: str = "one") -> list[float]:
    clock.begin(name)
    return [clock.monotonic() for _ in range(1000)]


def test_it_jumps_ahead_by_as_much_as_one_test_may_have_and_then_stays_ahead() -> None:
    clock = JumpingClock(lambda: 100.0, 1)
    seen = looks(clock)
    steps = [after - before for before, after in itertools.pairwise(seen)]
    assert 0 <= min(steps) < 0.5 < max(steps) <= LONGEST_SECONDS
    assert seen[-1] == 100 + MAX_SECONDS
    clock.begin("two")
    clock.end()
    assert clock.monotonic() == seen[-1]


def test_its_jumps_depend_on_the_seed_and_on_the_test() -> None:
    assert looks(JumpingClock(lambda: 0.0, 1)) == looks(JumpingClock(lambda: 0.0, 1))
    assert looks(JumpingClock(lambda: 0.0, 1)) != looks(JumpingClock(lambda: 0.0, 2))
    assert looks(JumpingClock(lambda: 0.0, 1)) != looks(JumpingClock(lambda: 0.0, 1), "two")
