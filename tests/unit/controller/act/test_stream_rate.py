"""act/stream_rate.py: how long a stream is not read after what it has cost."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from efrit.controller.act.stream_rate import BURST, BUSY_SHARE, LINE_COST, RATE, Shared, StreamRate


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("part", "cost"),
    [(b"x" * 1000, 1000), (b"\n" * 1000, 1000 * (1 + LINE_COST)), (b"data: 1\n\n", 9 + 2 * LINE_COST)],
)
def test_a_stream_waits_for_what_it_has_read_beyond_its_burst(part: bytes, cost: int) -> None:
    clock = Clock()
    rate = StreamRate(Shared(), clock)
    times = BURST // cost
    for _ in range(times):
        rate.read(part)
    assert rate.pause() == 0

    for _ in range(10):
        rate.read(part)

    assert rate.pause() == pytest.approx((10 * cost - (BURST - times * cost)) / RATE)
    clock.now += rate.pause()
    assert rate.pause() == pytest.approx(0, abs=1e-6)
    clock.now += 3600
    rate.read(b"x" * BURST)
    assert rate.pause() == 0


def test_a_stream_whose_events_take_long_is_read_for_its_share_of_the_time() -> None:
    clock, paused = Clock(), 0.0
    rate = StreamRate(Shared(), clock)
    rate.read(b"x" * BURST)
    for _ in range(1000):
        clock.now += 0.001
        rate.worked(0.001)
        paused += rate.pause()
        clock.now += rate.pause()

    assert 1.0 / (1.0 + paused) == pytest.approx(BUSY_SHARE, rel=0.02)


def test_streams_in_debt_share_the_rate_and_others_do_not_wait() -> None:
    clock, shared = Clock(), Shared()
    hostile = [StreamRate(shared, clock) for _ in range(10)]
    for stream in hostile:
        stream.read(b"x" * 2 * BURST)
        stream.pause()

    assert shared.in_debt == 10
    assert hostile[0].pause() == pytest.approx(10 * BURST / RATE)
    usual = StreamRate(shared, clock)
    usual.read(b"x" * 1000)
    assert usual.pause() == 0
    for stream in hostile[1:]:
        stream.close()
    assert hostile[0].pause() == pytest.approx(BURST / RATE)
