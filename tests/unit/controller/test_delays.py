"""Moments of keys: what is stale takes little memory. Their order is in test_work_queue.py."""

from __future__ import annotations

import pickle

from efrit.controller.delays import COMPACT_ABOVE, Delays
from efrit.controller.model.keys import WorkKey

KEYS = [WorkKey("EfritRequest", "team", f"work-{number:04}") for number in range(10_000)]


def size(delays: Delays) -> int:
    return len(pickle.dumps(delays))


def made(keys: list[WorkKey]) -> Delays:
    delays = Delays()
    for key in keys:
        delays.put(key, 3600)
    return delays


def test_many_earlier_moments_of_few_keys_leave_few_entries() -> None:
    delays, whole = Delays(), size(made(KEYS[:400]))

    for sweep in range(60):
        for number, key in enumerate(KEYS[:200]):
            delays.put(key, 3600 - sweep - number / 1000)

    assert size(delays) < whole


def test_keys_that_are_forgotten_leave_few_entries() -> None:
    delays, whole = Delays(), size(made(KEYS[: COMPACT_ABOVE + 1]))
    for key in KEYS:
        delays.put(key, 3600)
        delays.forget(key)

    assert size(delays) < whole
