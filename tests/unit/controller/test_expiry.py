"""expiry.py and store/expirations.py: what is due is deleted, in order and within a bound of memory."""

from __future__ import annotations

import pickle
from datetime import datetime
from typing import Any

import pytest

from efrit.controller.decide.retention import due_of
from efrit.controller.expiry import RETRY_AFTER, Expiry
from efrit.controller.model.actions import Delete
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.expirations import MAX_EXPIRATIONS, Expiration, Expirations
from efrit.errors import ApiUnavailable
from tests.support.factory import NOW, final_status, request_json, seconds


def expiration(number: int, *, after: float | None = None, namespace: str = "team") -> Expiration:
    due = NOW + seconds(number if after is None else after)
    return Expiration(due, "EfritRequest", (namespace, f"r{number}"), f"uid-{number}")


def due_names(expirations: Expirations, now: datetime) -> list[str]:
    return [due.key[1] for due in iter(lambda: expirations.pop_due(now), None)]


def test_what_is_due_comes_in_order_and_once() -> None:
    expirations = Expirations()
    for number in (3, 1, 2, 1):
        expirations.add(expiration(number))

    assert due_names(expirations, NOW + seconds(2)) == ["r1", "r2"]
    assert len(expirations) == 1


def test_of_very_many_those_that_are_due_first_are_kept_and_the_others_are_looked_for_again() -> None:
    expirations = Expirations(limit=10)
    for number in reversed(range(100)):
        expirations.add(expiration(number))
        assert len(expirations) <= 20

    assert not expirations.needs_listing()
    assert due_names(expirations, NOW + seconds(1000))[:10] == [f"r{number}" for number in range(10)]
    assert (expirations.needs_listing(), expirations.needs_listing()) == (True, False)


@pytest.mark.parametrize(
    ("owner", "spec", "default", "due"),
    [
        (None, {}, 60, NOW + seconds(60)),
        (None, {"ttlSecondsAfterFinished": 5}, 60, NOW + seconds(5)),
        (None, {}, None, None),
        ("Workflow", {}, 60, NOW + seconds(60)),
        ("EfritPlan", {}, 60, None),
    ],
)
def test_a_request_without_a_time_to_live_has_the_default_unless_it_is_part_of_a_plan(
    owner: str | None, spec: dict[str, Any], default: int | None, due: datetime | None
) -> None:
    obj = request_json(status=final_status(), **spec)
    obj["metadata"]["ownerReferences"] = [{"kind": owner, "name": "a"}] if owner else []
    assert due_of(obj, default) == due


def test_what_is_kept_of_a_finished_object_is_small() -> None:
    assert len(pickle.dumps(expiration(1))) < 400
    assert MAX_EXPIRATIONS * 2 * 500 <= 10_000_000


@pytest.mark.parametrize(
    ("status", "spec", "due"),
    [
        (final_status(), {"ttlSecondsAfterFinished": 60}, NOW + seconds(60)),
        (final_status("Failed"), {"ttlSecondsAfterFinished": 0}, NOW),
        (final_status(), {}, None),
        ({"phase": "Running"}, {"ttlSecondsAfterFinished": 60}, None),
        ({"phase": "Succeeded"}, {"ttlSecondsAfterFinished": 60}, None),
        ({"phase": "Succeeded", "completionTime": "soon"}, {"ttlSecondsAfterFinished": 60}, None),
    ],
)
def test_an_object_is_due_its_time_to_live_after_its_end(
    status: Any, spec: dict[str, Any], due: datetime | None
) -> None:
    assert due_of(request_json(status=status, **spec)) == due


async def test_what_cannot_be_deleted_is_tried_again_later_and_a_namespace_that_is_not_served_is_left_alone() -> None:
    expirations, deletions = Expirations(), list[Delete]()
    for number, namespace in ((1, "team"), (2, "refused"), (3, "team")):
        expirations.add(expiration(number, after=0, namespace=namespace))

    async def carry_out(_: WorkKey, action: Delete) -> None:
        deletions.append(action)
        if action.key[1] == "r1":
            raise ApiUnavailable("503")

    now = NOW
    expiry = Expiry(expirations, carry_out, lambda namespace: namespace == "team", lambda: now)
    await expiry.delete_due()
    assert deletions == [Delete("EfritRequest", ("team", f"r{number}"), f"uid-{number}") for number in (1, 3)]

    await expiry.delete_due()
    assert len(deletions) == 2
    now += RETRY_AFTER
    await expiry.delete_due()
    assert len(deletions) == 3
