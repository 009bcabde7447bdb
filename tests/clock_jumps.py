"""A pytest plugin: the monotonic clock jumps ahead, as if the process had stood still.

    .venv/bin/python -m pytest -p tests.clock_jumps --clock-jumps 1 tests/unit --forks 8

It does so at every tenth look at the clock, so that time limits and timers of an event loop that wait for each other
are over at once, in either order: denser, and without the wait, than tests/stalls.py, but within the processes of the
tests alone. To explore with; each test has a few seconds of it, so that limits of ten seconds are not reached. A test
that runs a real server in a process of its own may fail for no other reason than that the two clocks differ.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

CHANCE = 0.1
LONGEST_SECONDS = 1.5
MAX_SECONDS = 8.0
"""In one test."""


class JumpingClock:
    """A clock that jumps ahead while a test runs."""

    def __init__(self, real: Callable[[], float], seed: int) -> None:
        """Follow `real`."""
        self._real = real
        self._seed = seed
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._ahead = 0.0
        self._left = 0.0

    def begin(self, name: str) -> None:
        """Begin to jump, for the test of that name, by the same amounts each time."""
        self._chance = random.Random(f"{self._seed} {name}")  # noqa: S311 - no secret
        self._left = MAX_SECONDS

    def end(self) -> None:
        """Go as the real one does."""
        self._left = 0.0

    def monotonic(self) -> float:
        """Return the seconds."""
        if self._left > 0 and self._chance.random() < CHANCE:
            jump = min(self._left, self._chance.uniform(0, LONGEST_SECONDS))
            self._left -= jump
            self._ahead += jump
        return self._real() + self._ahead


class Jumps:
    """The hooks, where a seed is given."""

    def __init__(self, seed: int) -> None:
        self._clock = JumpingClock(time.monotonic, seed)
        time.monotonic = self._clock.monotonic

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin before the fixtures."""
        self._clock.begin(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """End after the test."""
        self._clock.end()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--clock-jumps", type=int, metavar="SEED", help="have the monotonic clock jump ahead at random")


def pytest_configure(config: pytest.Config) -> None:
    """Replace the clock before anything takes a reference to it."""
    seed = config.getoption("--clock-jumps")
    if seed is not None:
        config.pluginmanager.register(Jumps(seed))
