"""All orders of hand-over, cancel, restart and lost writes: what ends as never run was never handed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from efrit.controller.decide import requests
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.store import instances, request_record
from efrit.controller.store.handovers import Handovers
from efrit.controller.store.index import Index
from tests.unit.controller.handover_model import World, first_world

WORLDS_AT_LEAST = 1_000


def explore(first: World, depth: int) -> tuple[int, list[str] | None, set[str]]:
    """Return how many worlds there are, the shortest way to one that breaks a promise, and all ends."""
    fingerprints = {first.fingerprint()}
    waiting: deque[tuple[World, list[str]]] = deque([(first, [])])
    ends: set[str] = set()
    while waiting:
        world, way = waiting.popleft()
        if world.final:
            ends.add(world.request["status"]["reason"])
        if world.broken() is not None:
            return len(fingerprints), way, ends
        if len(way) == depth:
            world.drop()
            continue
        steps = world.steps()
        # The last step is taken in the world itself: a copy takes longer than a step.
        worlds = [*(world.copy() for _ in steps[1:]), world]
        for (name, step), after in zip(steps, worlds, strict=False):
            step(after)
            print_of = after.fingerprint()
            if print_of not in fingerprints:
                fingerprints.add(print_of)
                waiting.append((after, [*way, name]))
            else:
                after.drop()
    return len(fingerprints), None, ends


def follow(world: World, way: Iterable[str]) -> World:
    """Return the world after these steps, but for those that are not possible."""
    for name in way:
        possible = dict(world.steps())
        if name in possible:
            possible[name](world)
    return world


def open_world() -> World:
    """Return a world whose instance is open, with a request that is yet to be handed over."""
    return follow(first_world(), ("pod comes", "connect", "decide instance", "create"))


def shared_world() -> World:
    """Return a world with a request in which another process leads as well."""
    return replace(follow(first_world(), ("create", "pod comes")), other=True, restarts=1)


@pytest.mark.parametrize(("begin", "depth"), [(first_world, 7), (open_world, 9), (shared_world, 7)])
def test_what_ends_as_never_run_was_never_handed_over_in_any_order(begin: Callable[[], World], depth: int) -> None:
    worlds, way, ends = explore(begin(), depth)

    assert way is None
    assert worlds > WORLDS_AT_LEAST
    assert "Cancelled" in ends


def _without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close an instance though requests that it may have got do not say so."""
    monkeypatch.setattr(Handovers, "_unmarked", lambda *_: False)


def _with_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on under the same id after a write of Closed whose fate is unknown."""
    monkeypatch.setattr(Handovers, "close_begins", Handovers.may_close)


def _without_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over without the record that the instance is open."""
    monkeypatch.setattr(Handovers, "submit_begins", lambda *_: True)
    monkeypatch.setattr(InstanceSnapshot, "handover_open", True)


def _without_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what this process has not handed over for never handed over."""
    monkeypatch.setattr(Index, "is_listed", lambda *_: True)
    monkeypatch.setattr(instances, "_observe_handover", lambda *_: None)


def _without_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe the watch that nobody has opened the instance."""
    monkeypatch.setattr(requests, "_confirm_never_ran", lambda *_: [])


def _without_calls_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close an instance while a call hands a request over."""
    monkeypatch.setattr(request_record.RequestRecord, "submitting", property(lambda _: False, lambda *_: None))


RUN = ("decide request", "returns", "cancel")
SENT = ("decide request", "arrive", "cancel")


REOPENED = ("pod goes", "write lost", "pod comes", "connect")
OTHER_RUNS = ("other opens", "other hands over", "arrive", "cancel")


@pytest.mark.parametrize(
    ("without", "begin", "way"),
    [
        (_without_marks, open_world, (*RUN, "restart", "pod goes", "decide instance", "decide request")),
        (_with_one_id, open_world, (*REOPENED, *RUN, "restart", "decide request")),
        (_without_open, open_world, (*SENT, "pod goes", "decide instance", "restart", "decide request")),
        (_without_others, open_world, (*RUN, "restart", "decide request")),
        (_without_others, shared_world, (*OTHER_RUNS, "watch", "decide request")),
        (_without_question, shared_world, (*OTHER_RUNS, "decide request")),
        (_without_calls_under_way, open_world, (*SENT, "pod goes", "decide instance", "restart", "decide request")),
    ],
)
def test_each_safety_step_is_needed(
    without: Callable[[pytest.MonkeyPatch], None],
    begin: Callable[[], World],
    way: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert follow(begin(), way).broken() is None

    without(monkeypatch)

    assert follow(begin(), way).broken() is not None
