"""lease.py: one leader at a time, a short absence of the API server survived, the lease given back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from efrit import resources
from efrit.api.meta import rfc3339_micro
from efrit.controller import lease as lease_module
from efrit.controller.act.kube import Kube
from efrit.controller.lease import POLL_SECONDS, Lease
from efrit.controller.retry import LONGEST_WARNING_PAUSE_SECONDS
from efrit.errors import ApiConflict, ApiUnavailable
from tests.support.timeout import TIMEOUT
from tests.unit.controller.fake_api import FakeApi

LEASES = resources.LEASES.path("efrit-system")
LEASE = f"{LEASES}/efrit-operator"


HOURS = 3600.0


class Ended:
    """The processes that have ended, as far as it is known."""

    def __init__(self, *identities: str) -> None:
        self.identities = set(identities)
        self.asked: list[str] = []
        self.stopped = False
        self.seen = asyncio.Event()

    def knows_ended(self, identity: str) -> bool:
        self.asked.append(identity)
        return identity in self.identities

    def stop(self) -> None:
        self.stopped = True

    def ends(self, identity: str) -> None:
        self.identities.add(identity)
        self.seen.set()


class Leading:
    """What runs while the lease is held."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def lease(kube: Kube, identity: str = "pod-1", seconds: float = TIMEOUT) -> Lease:
    """Return a lease that is renewed all the time, and runs out in no test that does not wait for it."""
    made = Lease(kube, "efrit-system", "efrit-operator", identity, seconds)
    made._pause = 0.05
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no test wait for a second between two reads of somebody else's lease."""
    monkeypatch.setattr(lease_module, "POLL_SECONDS", 0.05)


@contextlib.asynccontextmanager
async def holding(lease: Lease, leading: Leading) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(lease.hold(leading))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def held_by(holder: str | None, *, ago: float = 0, lasts: float = TIMEOUT) -> dict[str, Any]:
    moment = rfc3339_micro(datetime.now(UTC) - timedelta(seconds=ago))
    spec = {"leaseDurationSeconds": lasts, "acquireTime": moment, "renewTime": moment}
    return {"metadata": {"name": "efrit-operator"}, "spec": {**spec, "holderIdentity": holder} if holder else spec}


async def begun(leading: Leading) -> None:
    await asyncio.wait_for(leading.began.wait(), TIMEOUT)


async def test_a_lease_that_does_not_exist_is_made_and_held(api: FakeApi, kube: Kube) -> None:
    leading = Leading()

    async with holding(lease(kube), leading):
        await begun(leading)

    spec = api.objects[LEASE]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("pod-1", TIMEOUT)
    assert datetime.fromisoformat(spec["renewTime"]).tzinfo is not None


async def test_a_lease_given_back_is_taken_at_once(api: FakeApi, kube: Kube) -> None:
    api.put(LEASE, held_by(None))
    leading = Leading()

    async with holding(lease(kube), leading):
        await begun(leading)

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "pod-1"


async def test_a_lease_is_renewed_on_condition_of_its_version_and_keeps_its_beginning(
    api: FakeApi, kube: Kube
) -> None:
    leading = Leading()

    async with holding(lease(kube), leading):
        await begun(leading)
        await api.until(lambda: len(api.made("PATCH")) >= 1)

    (first, *_rest) = api.made("PATCH")
    assert first.body["metadata"]["resourceVersion"]
    assert first.body["spec"]["acquireTime"] == api.made("POST")[0].body["spec"]["acquireTime"]


async def test_a_lease_somebody_holds_is_waited_for(api: FakeApi, kube: Kube) -> None:
    api.put(LEASE, held_by("pod-0"))
    leading = Leading()

    async with holding(lease(kube), leading):
        await api.until(lambda: len(api.made("GET")) >= 2)
        assert not leading.began.is_set()

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "pod-0"


async def test_the_lease_of_a_holder_that_renews_no_more_is_taken_over(api: FakeApi, kube: Kube) -> None:
    api.put(LEASE, held_by("pod-0", ago=3600, lasts=1))
    leading = Leading()

    async with holding(lease(kube, seconds=1), leading):
        await begun(leading)

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "pod-1"


@pytest.mark.parametrize("known", ["before", "while it waits"])
async def test_the_lease_of_a_holder_that_has_ended_is_taken_long_before_it_runs_out(
    api: FakeApi, kube: Kube, known: str
) -> None:
    api.put(LEASE, held_by("pod-0_a"))
    leading, ended = Leading(), Ended(*(["pod-0_a"] if known == "before" else []))

    async with holding(Lease(kube, "efrit-system", "efrit-operator", "pod-1_b", HOURS, ends=ended), leading):
        if known != "before":
            await api.until(lambda: len(api.made("GET")) >= 2)
            assert not leading.began.is_set()
            ended.ends("pod-0_a")
        await begun(leading)

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "pod-1_b"
    assert ended.stopped


async def test_that_an_earlier_process_of_its_pod_has_ended_takes_no_lease_from_a_holder(
    api: FakeApi, kube: Kube
) -> None:
    api.put(LEASE, held_by("pod-0_b"))
    leading, ended = Leading(), Ended("pod-0_a", "pod-1_a")

    async with holding(Lease(kube, "efrit-system", "efrit-operator", "pod-1_b", HOURS, ends=ended), leading):
        await api.until(lambda: len(api.made("GET")) >= 3)
        assert not leading.began.is_set()

    assert set(ended.asked) == {"pod-0_b"}
    assert api.made("PATCH") == []


async def test_a_leader_keeps_its_lease_from_those_who_take_it_for_ended(api: FakeApi, kube: Kube) -> None:
    """As after a kubelet that is wrong: the next renewal finds it out, and it does nothing more."""
    first, second = Leading(), Leading()

    async with holding(lease(kube, "pod-0_a"), first) as task:
        await begun(first)
        async with holding(
            Lease(kube, "efrit-system", "efrit-operator", "pod-1_b", HOURS, ends=Ended("pod-0_a")), second
        ):
            await begun(second)
            await asyncio.wait_for(task, TIMEOUT)
            assert first.ended.is_set()


async def test_a_race_for_the_lease_has_one_winner(api: FakeApi, kube: Kube) -> None:
    api.put(LEASE, held_by(None))
    first, second = Leading(), Leading()

    async with holding(lease(kube, "pod-1"), first), holding(lease(kube, "pod-2"), second):
        await api.until(lambda: len(api.made("PATCH")) >= 2)
        winner = api.objects[LEASE]["spec"]["holderIdentity"]
        await begun(first if winner == "pod-1" else second)

        assert (first.began.is_set(), second.began.is_set()) == (winner == "pod-1", winner == "pod-2")


async def test_a_short_absence_of_the_api_server_does_not_end_the_leading(api: FakeApi, kube: Kube) -> None:
    leading = Leading()

    async with holding(lease(kube), leading) as task:
        await begun(leading)
        api.fail("GET", LEASE, 503)
        api.fail("PATCH", LEASE, 500)
        await api.until(lambda: len(api.made("PATCH")) >= 2)

        assert not task.done()
        assert not leading.ended.is_set()


async def test_an_absence_at_the_start_is_waited_for(api: FakeApi, kube: Kube) -> None:
    api.fail("GET", LEASE, 0)
    api.fail("GET", LEASE, 503, "<html>")
    leading = Leading()

    async with holding(lease(kube), leading):
        await begun(leading)


class AwayFor:
    """An API server that is away for so many seconds, with a lease that another keeps renewing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.asked = 0

    async def call(self, method: str, path: str, **_: Any) -> Any:
        self.asked += 1
        moment = asyncio.get_running_loop().time()
        if moment < self._seconds:
            raise ApiUnavailable(f"{method} {path}: 503: away")
        lease = held_by("pod-0")
        lease["spec"]["renewTime"] = str(moment)
        return lease


@pytest.mark.virtual_time
async def test_while_the_api_server_is_away_a_candidate_asks_often_and_logs_that_ever_less_often(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "POLL_SECONDS", POLL_SECONDS)
    caplog.set_level(logging.DEBUG, logger=lease_module.log.name)
    away = AwayFor(2 * HOURS)

    async with holding(lease(cast(Kube, away)), Leading()):
        await asyncio.sleep(2.5 * HOURS)

    assert away.asked > 2 * HOURS / (2 * POLL_SECONDS)
    lines = [record.getMessage() for record in caplog.records]
    assert "503: away" in lines[0]
    assert lines[-1].startswith("lease efrit-system/efrit-operator: calls succeed again after 7200 s; ")
    assert len(lines) <= 2 * HOURS / LONGEST_WARNING_PAUSE_SECONDS + 10


class Quicker:
    """An API server whose lease is released, and taken by another between the read and the write of it."""

    def __init__(self) -> None:
        self.holder: str | None = None

    async def call(self, method: str, path: str, **_: Any) -> Any:
        if method == "PATCH":
            self.holder = "pod-0"
            raise ApiConflict(f"{method} {path}: 409: changed")
        lease = held_by(self.holder)
        lease["metadata"]["resourceVersion"] = "1"
        lease["spec"]["renewTime"] = str(asyncio.get_running_loop().time())
        return lease


@pytest.mark.virtual_time
async def test_a_lease_that_another_was_quicker_to_take_is_not_logged_as_an_absence_of_the_api_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger=lease_module.log.name)

    async with holding(lease(cast(Kube, Quicker())), Leading()):
        await asyncio.sleep(60)

    (line,) = [record.getMessage() for record in caplog.records]
    assert "409: changed" in line


async def test_a_lease_taken_by_another_ends_the_leading(api: FakeApi, kube: Kube) -> None:
    leading = Leading()

    async with holding(lease(kube), leading) as task:
        await begun(leading)
        api.put(LEASE, held_by("pod-2"))
        await asyncio.wait_for(task, TIMEOUT)

        assert leading.ended.is_set()


async def test_a_living_holder_keeps_the_lease_when_our_clock_is_set_forward(
    api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(LEASE, held_by("pod-0"))
    leading, now = Leading(), time.time

    async with holding(lease(kube), leading):
        await api.until(lambda: len(api.made("GET")) >= 1)
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        await api.until(lambda: len(api.made("GET")) >= 2)

        assert api.made("PATCH") == []


async def test_a_dead_holder_loses_the_lease_though_our_clock_is_set_back(
    api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(LEASE, held_by("pod-0", lasts=1))
    leading, now = Leading(), time.time

    async with holding(lease(kube, seconds=1), leading):
        await api.until(lambda: len(api.made("GET")) >= 1)
        monkeypatch.setattr(time, "time", lambda: now() - 3600)
        await begun(leading)

    assert api.objects[LEASE]["spec"]["leaseTransitions"] == 1


async def test_who_was_stopped_for_longer_than_the_lease_lasts_knows_at_once(
    api: FakeApi, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, own_lease, now = Leading(), lease(kube), lease_module._now

    async with holding(own_lease, leading):
        await begun(leading)
        assert own_lease.held
        # The whole process stands still, as under SIGSTOP: nothing on this loop has a turn.
        monkeypatch.setattr(lease_module, "_now", lambda: now() + TIMEOUT)
        assert not own_lease.held
        monkeypatch.undo()


async def test_who_stops_has_ended_its_work_before_anybody_else_can_lead(api: FakeApi, kube: Kube) -> None:
    leading = Leading()

    async with holding(lease(kube), leading):
        await begun(leading)

    assert leading.ended.is_set()


@pytest.mark.parametrize(("holder", "left"), [("pod-1", None), ("pod-2", "pod-2")])
async def test_a_lease_is_given_back_by_its_holder_alone(
    api: FakeApi, kube: Kube, holder: str, left: str | None
) -> None:
    api.put(LEASE, held_by(holder))

    await lease(kube).release()

    assert api.objects[LEASE]["spec"].get("holderIdentity") == left


@pytest.mark.parametrize("status", [0, 404, 503])
async def test_a_lease_that_cannot_be_given_back_stops_nobody(api: FakeApi, kube: Kube, status: int) -> None:
    api.fail("GET", LEASE, status)

    await lease(kube).release()
