"""Which states of a volume to test: for every moment of a recording, what a crash then may have left. Pure.

Of 2^n combinations of n changes that were not synced: none, all, each alone, each missing alone, all up to one (a
journal that keeps the order), each write torn, and random ones. Equal states are one state, judged by the latest
moment at which it is possible: by then the most had been promised.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.chaos.storage.disk_model import Content, Kind, Volume, fingerprint

RANDOM_SUBSETS = 6


@dataclass(frozen=True)
class CrashState:
    """What a crash has left. `crash`: how many operations had happened; `why`: how the state came about."""

    crash: int
    tree: Mapping[str, Content]
    why: str


def crash_states(volume: Volume, *, seed: int, share: float = 1.0) -> list[CrashState]:
    """Return the distinct states of `volume`.

    With a `share` below 1 every moment has the states none and all, and that share of the others, chosen by `seed`.
    """
    chance = random.Random(seed)  # noqa: S311 - a choice of tests
    states: dict[str, CrashState] = {}
    for crash in range(len(volume.operations) + 1):
        for state in _states_at(volume, crash, chance, share):
            states[fingerprint(state.tree)] = state
    return list(states.values())


def _states_at(volume: Volume, crash: int, chance: random.Random, share: float) -> Iterator[CrashState]:
    open_changes = volume.open_at(crash)
    yield _state(volume, crash, (), "nothing unsynced is there")
    yield _state(volume, crash, open_changes, "everything is there")
    for subset, why in _subsets(volume, open_changes, chance):
        if chance.random() < share:
            yield _state(volume, crash, subset, why)
    everything = volume.persisted_operations(crash, open_changes)
    for number in open_changes:
        change = volume.changes[number]
        if change.kind is not Kind.WRITE or not change.data:
            continue
        for torn, how in ((change.data[: len(change.data) // 2], "half"), (bytes(len(change.data)), "zeros")):
            if chance.random() < share:
                yield CrashState(crash, volume.tree(everything, {number: torn}), f"{_name(volume, number)} is {how}")


def _subsets(volume: Volume, open_changes: list[int], chance: random.Random) -> Iterator[tuple[Iterable[int], str]]:
    for place, number in enumerate(open_changes):
        name = _name(volume, number)
        yield [number], f"only {name} is there"
        yield [other for other in open_changes if other != number], f"only {name} is lost"
        yield open_changes[:place], f"all before {name} is there"
    for turn in range(RANDOM_SUBSETS):
        yield [number for number in open_changes if chance.random() < 0.5], f"a random choice ({turn})"


def _state(volume: Volume, crash: int, chosen: Iterable[int], why: str) -> CrashState:
    return CrashState(crash, volume.tree(volume.persisted_operations(crash, chosen)), why)


def _name(volume: Volume, number: int) -> str:
    change = volume.changes[number]
    operation = volume.operations[change.at]
    return f"{change.kind.value} of #{operation.number} {operation.kind} {operation.target or operation.path}"
