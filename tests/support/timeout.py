"""How long a test waits for what will come, and how often it looks.

It waits for conditions: a test that passes never takes this long.
"""

from __future__ import annotations

import os

TIMEOUT = float(os.environ.get("EFRIT_TEST_TIMEOUT", "180"))
"""In seconds. Long, because a busy machine is slow; the Lisp tests have the same (efrit-test-queue.el)."""

SHORTEST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 0.25


def poll_interval(waited: float) -> float:
    """Return the seconds until the next poll of a condition that has been polled for `waited` seconds.

    A long wait is polled less often: on two processors the polls would slow down what they wait for.
    """
    return min(max(SHORTEST_POLL_SECONDS, waited / 5), LONGEST_POLL_SECONDS)
