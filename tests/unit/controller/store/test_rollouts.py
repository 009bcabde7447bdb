"""store/rollouts.py: who is being updated, waits for it, or has failed it; read off statuses and StatefulSets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from efrit.controller.model.keys import Key
from efrit.controller.model.rollout import UpdateCause, UpdateSlot
from efrit.controller.model.views import StatefulSetView
from efrit.controller.store.rollouts import Rollouts
from tests.support.factory import NAMESPACE, NOW, Json, condition_json, instance, seconds

ALPHA = (NAMESPACE, "alpha")
STATEFULSET = StatefulSetView(
    "efrit-alpha", "ss", 1, release_hash="r2", update_started=NOW - seconds(5), update_trial=True
)


def status(value: str, reason: str) -> Json:
    return {"conditions": [condition_json("Updated", value, reason)]}


def observe(
    rollouts: Rollouts, value: str, reason: str, key: Key = ALPHA, statefulset: StatefulSetView = STATEFULSET
) -> bool:
    return rollouts.observe(key, instance(key[1], namespace=key[0], status=status(value, reason)), statefulset)


@pytest.fixture
def rollouts() -> Rollouts:
    return Rollouts("r2")


@pytest.mark.parametrize(
    ("reason", "since", "draining"), [("UpdateDraining", NOW, True), ("Updating", NOW - seconds(5), False)]
)
def test_an_update_is_counted_from_the_status_alone(
    rollouts: Rollouts, reason: str, since: object, draining: bool
) -> None:
    observe(rollouts, "Unknown", reason)

    (slot,) = rollouts.view().slots
    assert (slot.namespace, slot.name, slot.since, slot.draining) == (*ALPHA, since, draining)


@pytest.mark.parametrize(
    ("value", "reason"), [("True", "UpToDate"), ("False", "UpdateHeld"), ("False", "UpdateFailed")]
)
def test_an_update_that_ended_frees_its_place_for_those_that_wait(
    rollouts: Rollouts, value: str, reason: str
) -> None:
    observe(rollouts, "Unknown", "Updating")

    assert observe(rollouts, value, reason)
    assert rollouts.view().slots == ()


def test_an_instance_that_is_gone_or_suspended_frees_its_place(rollouts: Rollouts) -> None:
    observe(rollouts, "Unknown", "Updating")
    assert rollouts.observe(ALPHA, None, STATEFULSET)
    observe(rollouts, "Unknown", "Updating")
    assert rollouts.observe(ALPHA, instance(status=status("Unknown", "Updating")), None)
    assert rollouts.view().slots == ()


def test_failures_and_successes_of_the_current_release_are_reported(rollouts: Rollouts) -> None:
    assert observe(rollouts, "False", "UpdateFailed")
    assert observe(rollouts, "True", "UpToDate", (NAMESPACE, "beta"))

    assert rollouts.view().failed == (ALPHA,)
    assert rollouts.view().succeeded == 1
    assert observe(rollouts, "True", "UpToDate")
    assert (rollouts.view().failed, rollouts.view().succeeded) == ((), 2)


def test_what_another_release_or_a_user_broke_says_nothing_of_the_current_release() -> None:
    rollouts = Rollouts("r3")
    observe(rollouts, "False", "UpdateFailed")
    user = StatefulSetView("efrit-beta", "ss", 1, release_hash="r3", update_started=NOW, update_trial=False)
    observe(rollouts, "False", "UpdateFailed", (NAMESPACE, "beta"), user)

    assert rollouts.view().failed == ()


def test_a_reservation_counts_until_it_is_taken_back(rollouts: Rollouts) -> None:
    rollouts.reserve(ALPHA, UpdateCause.SPEC, NOW)

    assert rollouts.is_reserved(ALPHA)
    assert rollouts.view().slots == (UpdateSlot(*ALPHA, NOW, UpdateCause.SPEC, draining=True),)
    rollouts.cancel_reservation(ALPHA)
    assert rollouts.view().slots == ()


def test_a_reservation_whose_status_is_written_counts_once_and_keeps_its_cause(rollouts: Rollouts) -> None:
    rollouts.reserve(ALPHA, UpdateCause.SPEC, NOW)
    observe(rollouts, "Unknown", "UpdateDraining")
    rollouts.cancel_reservation(ALPHA)
    observe(rollouts, "Unknown", "Updating")

    assert [slot.cause for slot in rollouts.view().slots] == [UpdateCause.SPEC]


def test_the_cause_of_an_update_that_an_earlier_controller_began_is_taken_for_the_release(rollouts: Rollouts) -> None:
    observe(rollouts, "Unknown", "UpdateDraining")

    assert [slot.cause for slot in rollouts.view().slots] == [UpdateCause.RELEASE]


def test_those_that_waited_longest_come_first_and_no_namespace_is_forgotten(rollouts: Rollouts) -> None:
    for name in ("a", "b", "c"):
        observe(rollouts, "False", "UpdateQueued", (NAMESPACE, name))
    observe(rollouts, "False", "UpdateStopped", ("other", "z"))
    observe(rollouts, "False", "UpdateQueued", (NAMESPACE, "a"))

    assert rollouts.next_waiting(2) == [(NAMESPACE, "a"), (NAMESPACE, "b"), ("other", "z")]
    observe(rollouts, "Unknown", "Updating", (NAMESPACE, "a"))
    rollouts.observe(("other", "z"), None, None)
    assert rollouts.next_waiting(2) == [(NAMESPACE, "b"), (NAMESPACE, "c")]


def test_nothing_is_kept_of_instances_that_are_gone(rollouts: Rollouts) -> None:
    keys = [(f"ns{number}", "alpha") for number in range(1000)]
    for key in keys:
        observe(rollouts, "False", "UpdateFailed", key)
        observe(rollouts, "False", "UpdateQueued", key)
        rollouts.observe(key, None, None)

    assert rollouts.view() == Rollouts("r2").view()
    assert rollouts.next_waiting(1) == []


def test_an_update_is_not_begun_anew_by_whoever_writes_a_later_time_to_the_statefulset(rollouts: Rollouts) -> None:
    observe(rollouts, "Unknown", "Updating")

    for later in (seconds(60), seconds(600), seconds(6000)):
        observe(rollouts, "Unknown", "Updating", statefulset=replace(STATEFULSET, update_started=NOW + later))

    (slot,) = rollouts.view().slots
    assert slot.since == NOW - seconds(5)


def test_namespaces_that_wait_take_turns(rollouts: Rollouts) -> None:
    for namespace in ("a", "b", "c"):
        for name in ("one", "two", "three"):
            observe(rollouts, "False", "UpdateQueued", (namespace, name))

    turns = []
    for _ in range(6):
        key = rollouts.next_waiting(1)[0]
        turns.append(key)
        rollouts.reserve(key, UpdateCause.RELEASE, NOW)
        observe(rollouts, "Unknown", "UpdateDraining", key)
        rollouts.cancel_reservation(key)

    assert turns == [("a", "one"), ("b", "one"), ("c", "one"), ("a", "two"), ("b", "two"), ("c", "two")]
