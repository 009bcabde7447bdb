"""lease_thread.py: a busy main loop keeps the lease, one that stands still loses it. The API server is a dict."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from efrit.controller.lease import Lease
from efrit.controller.lease_thread import LeaseThread
from efrit.errors import ApiNotFound
from efrit.kube.client import KubeClient
from tests.support.timeout import TIMEOUT
from tests.unit.controller.test_lease import Leading, begun


class OneLease:
    """An API server with one lease, for threads: counts its renewals."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.renewed = threading.Semaphore(0)
        self.renewals = 0
        self.closed = False

    async def call(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        if method == "GET":
            if self.lease is None:
                raise ApiNotFound("no lease")
            return self.lease
        old = (self.lease or {}).get("spec", {})
        meta = {"name": "efrit-operator", "resourceVersion": str(self.renewals)}
        self.lease = {"metadata": meta, "spec": {**old, **body["spec"]}}
        self.renewals += 1
        self.renewed.release()
        return self.lease

    async def close(self) -> None:
        self.closed = True

    @property
    def holder(self) -> str | None:
        return self.lease["spec"]["holderIdentity"] if self.lease else None


def made(api: OneLease, end: Callable[[int], None] = os._exit) -> LeaseThread:
    """Return a thread whose lease is renewed all the time, and runs out in no test that does not wait for it."""

    async def connect(is_responsive: Callable[[], bool]) -> tuple[Lease, OneLease]:
        lease = Lease(cast(KubeClient, api), "efrit-system", "efrit-operator", "pod-1", TIMEOUT, is_responsive)
        lease._pause = 0.05
        return lease, api

    return LeaseThread(connect, TIMEOUT, end)


async def test_a_loop_that_is_kept_busy_keeps_its_lease_and_gives_it_back_in_the_end() -> None:
    api, leading = OneLease(), Leading()
    lease = made(api)
    task = asyncio.create_task(lease.hold(leading))
    await begun(leading)

    before = api.renewals
    while api.renewals < before + 2:
        # The loop does nothing else meanwhile, as in a flood of events.
        assert api.renewed.acquire(timeout=TIMEOUT)
        await asyncio.sleep(0)
    assert lease.held
    assert not leading.ended.is_set()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert leading.ended.is_set()
    assert not lease.held
    await lease.release()
    assert (api.holder, api.closed) == (None, True)
    assert "lease" not in {thread.name for thread in threading.enumerate()}


async def test_a_loop_that_stands_still_loses_its_lease_and_the_process_ends() -> None:
    api, leading, ended = OneLease(), Leading(), threading.Event()
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    lease = made(api, end)
    task = asyncio.create_task(lease.hold(leading))
    await begun(leading)

    # From now on it lasts for a second.
    own = lease._lease
    assert own is not None
    own._sure_seconds = 1.0
    while own._sure_until > time.monotonic() + 1.0:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is to stand still
    lease._seconds = 1.0
    # Nothing on this loop can happen until the thread gives up.
    assert ended.wait(TIMEOUT)

    assert not lease.held
    assert codes == [1]
    renewals = api.renewals
    await asyncio.wait_for(task, TIMEOUT)
    assert leading.ended.is_set()
    assert api.renewals == renewals
    await lease.release()


async def test_a_lease_that_another_takes_ends_the_work_before_its_holder_learns_of_it() -> None:
    api, leading = OneLease(), Leading()
    lease = made(api)
    task = asyncio.create_task(lease.hold(leading))
    await begun(leading)

    assert api.lease is not None
    api.lease["spec"]["holderIdentity"] = "pod-2"
    await asyncio.wait_for(task, TIMEOUT)

    assert leading.ended.is_set()
    assert not lease.held
    await lease.release()
    assert api.holder == "pod-2"


async def test_who_is_stopped_before_it_began_leads_nothing() -> None:
    api, leading = OneLease(), Leading()
    lease = made(api)
    task = asyncio.create_task(lease.hold(leading))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.wait({task}, timeout=TIMEOUT)
    await lease.release()

    assert task.done()
    assert api.holder is None
    assert leading.began.is_set() == leading.ended.is_set()


async def test_a_connection_that_cannot_be_made_is_raised() -> None:
    async def connect(is_responsive: Callable[[], bool]) -> tuple[Lease, OneLease]:
        raise ApiNotFound("no kubeconfig")

    lease = LeaseThread(connect, TIMEOUT)
    holding = await asyncio.gather(lease.hold(Leading()), return_exceptions=True)
    await lease.release()

    assert [type(error) for error in holding] == [ApiNotFound]


async def test_who_sees_another_hold_the_lease_stands_by_and_who_leads_at_once_does_not() -> None:
    api, leading = OneLease(), Leading()
    first, second = made(api), made(api)
    task = asyncio.create_task(first.hold(leading))
    await begun(leading)
    assert not first.stands_by.is_set()
    assert api.lease is not None
    api.lease["spec"]["holderIdentity"] = "pod-2"
    waiting = asyncio.create_task(second.hold(Leading()))

    await asyncio.wait_for(second.stands_by.wait(), TIMEOUT)

    for one, holding in ((second, waiting), (first, task)):
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await one.release()
