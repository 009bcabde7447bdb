"""store/unreadable_times.py: an object with times that only Kubernetes can read is seen all the same."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from efrit.api import EfritRequest, condition_of
from efrit.controller.store import unreadable_times
from efrit.controller.store.unreadable_times import ObjectReader
from tests.support.factory import Json, condition_json, instance_json, plan_json, request_json
from tests.unit.controller.store.test_claims import claim_json
from tests.unit.controller.store.test_pools import pool_json
from tests.unit.controller.store.world import ALPHA, World

pytestmark = pytest.mark.virtual_time

UNREADABLE = ("0000-01-01T00:00:00Z", "2026-01-01T00:00:60Z")


def written(obj: Json, moment: str, *names: str) -> Json:
    """Return an object with a status that somebody has written by hand."""
    condition = {**condition_json("Ready", "True", "Ready"), "lastTransitionTime": moment}
    return {**obj, "status": {**dict.fromkeys(names, moment), "conditions": [condition]}}


@pytest.mark.parametrize("moment", UNREADABLE)
async def test_an_object_of_each_kind_is_seen_and_the_time_counts_as_absent(world: World, moment: str) -> None:
    store = world.store
    store.instances.observe(written(instance_json(), moment, "startTime", "lastActivityTime"))
    store.requests.observe(written(request_json(), moment, "queuedTime", "startTime", "completionTime"))
    store.plans.observe(written(plan_json(), moment, "startTime", "completionTime"))
    store.pools.observe(written(pool_json(), moment, "oldestPendingTime"))
    store.claims.observe(written(claim_json("one"), moment, "boundTime", "expirationTime"))
    kinds = {kind for kind, _ in await world.due_keys()}
    assert kinds == {"Instance", "Request", "Plan", "Pool", "Claim"}
    status = world.instance(ALPHA).instance.status
    assert (status.start_time, status.last_activity_time) == (None, None)
    ready = condition_of(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.last_transition_time.year) == ("True", 1)


def test_it_is_logged_once_for_each_object_and_anew_for_another_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable_times, "MAX_REPORTED", 2)
    reader = ObjectReader()
    obj = written(request_json(), UNREADABLE[0], "startTime")
    before = copy.deepcopy(obj)
    for _ in range(3):
        reader.read(EfritRequest, obj)
    assert obj == before, "what the caller has was changed"
    message = (
        "EfritRequest team/work has times that cannot be read, which count as absent: "
        "status.conditions.0.lastTransitionTime, status.startTime"
    )
    assert caplog.messages == [message]
    obj["status"]["queuedTime"] = UNREADABLE[0]
    reader.read(EfritRequest, obj)
    assert len(caplog.messages) == 2
    for name in ("a", "b", "work"):
        reader.read(EfritRequest, written(request_json(name), UNREADABLE[0], "startTime"))
    assert len(caplog.messages) == 5


@pytest.mark.parametrize(
    "spoil",
    [
        lambda obj: obj["status"].update(phase="Sideways"),
        lambda obj: obj["status"].update(startTime=["no time"]),
        lambda obj: obj["metadata"].update(creationTimestamp=UNREADABLE[0]),
    ],
)
def test_what_else_cannot_be_read_is_not_read(spoil: Callable[[Json], object]) -> None:
    obj = written(request_json(), UNREADABLE[0], "completionTime")
    spoil(obj)
    with pytest.raises(ValidationError):
        ObjectReader().read(EfritRequest, obj)
