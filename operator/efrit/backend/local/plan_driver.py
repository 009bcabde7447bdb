"""Drives one plan on this machine: the engine decides, the queue has it done, the record remembers.

What the controller does in a cluster, with the same engine and the same status. The order is the protocol: a request
is in the record before it is sent, its answer is in the record before the next decision. So whoever drives the plan
after a crash, at whatever point, finds what was done: a request sent again has the same id, which the queue knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from efrit.api import EfritPlan, EfritRequest, PlanStatus, RequestReason
from efrit.api.request import MAX_CONTENT_CHARS
from efrit.api_group import GROUP
from efrit.backend.errors import NotReady, RequestNotFound, RestartNeeded, ResultTruncated
from efrit.backend.interface import Handle, RequestState, Update, Work
from efrit.backend.local.plan_record import PlanRecord, finished
from efrit.backend.local.plan_requests import final_status, request_of, status_of, work_of
from efrit.backend.local.request_file import id_of
from efrit.plan import engine, status, view

POLL_SECONDS = 0.5
"""How often a driver that waits looks for a change of the plan."""

RESENT_WITHIN = timedelta(hours=12)
"""How old a request may be that is sent again. Its answer is kept for a day in the queue: one that is older and not
there may have run, and is not run again."""

SENT = f"{GROUP}/sent"
"""Annotation of a request that the queue had: where it has it no longer, it may have run."""


class Queue(Protocol):
    """What a driver needs of the backend of this machine."""

    async def submit(self, work: Work) -> Handle:
        """Store the work; the same key is the same request."""

    async def get(self, handle: Handle) -> RequestState:
        """Return the state. Raises `RequestNotFound`."""

    def watch(self, handle: Handle) -> AsyncIterator[Update]:
        """Yield the states, up to the final one."""

    async def cancel(self, handle: Handle) -> RequestState:
        """Have it stopped."""

    async def result(self, handle: Handle) -> str:
        """Return the whole result."""


class PlanDriver:
    """Drives the plan of a record, whose only driver this is. `keep_trying`: go on where the queue takes nothing."""

    def __init__(
        self,
        record: PlanRecord,
        queue: Queue,
        instance: str,
        workspace: str,
        clock: Callable[[], datetime],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        keep_trying: bool = True,
        max_session_tokens: int | None = None,
        max_timeout_seconds: int | None = None,
    ) -> None:
        self._record = record
        self._queue = queue
        self._instance = instance
        self._workspace = workspace
        self._clock = clock
        self._pause = pause
        self._keep_trying = keep_trying
        self._max_session_tokens = max_session_tokens
        self._max_timeout_seconds = max_timeout_seconds
        self._requests, self._results = record.requests()

    async def run(self) -> AsyncGenerator[None, None]:
        """Go on until the plan is over; yield whenever its status has changed. Raises what the queue raises."""
        while True:
            # Before the plan is read: what changes meanwhile is not waited for.
            version = self._record.version()
            if (plan := self._record.plan()).final:
                return
            snapshot = engine.Snapshot(
                plan,
                dict(self._requests),
                dict(self._results),
                max_content_bytes=MAX_CONTENT_CHARS,
                max_session_tokens=self._max_session_tokens,
                max_timeout_seconds=self._max_timeout_seconds,
                workspace=self._workspace,
            )
            decision = engine.decide(snapshot, self._clock())
            described = view.describe(snapshot, decision)
            if self._write_status(plan, status.status_of(plan, decision, described, self._instance, self._clock())):
                yield
            for name in decision.cancel:
                spec = self._requests[name].spec.model_copy(update={"cancel": True})
                self._store_request(self._requests[name].model_copy(update={"spec": spec}))
            for name in decision.superseded:
                self._forget_request(name)
            match decision.action:
                case engine.Create() as create:
                    # Before it is sent: a later driver sends what is here, not what it would make of it.
                    self._store_request(request_of(plan, self._instance, create, self._clock()))
                case engine.Wait(until=until):
                    try:
                        await self._wait(plan, until, version)
                    except NotReady as error:
                        if isinstance(error, RestartNeeded) or not self._keep_trying:
                            raise
                        sentence = f"{error.message}: {error.advice}" if error.advice else error.message
                        blocked = self._record.plan()
                        if self._write_status(blocked, status.blocked(blocked, sentence, self._clock())):
                            yield
                        await self._pause_until(self._clock() + status.RETRY_BLOCKED, version)

    def _write_status(self, plan: EfritPlan, new: PlanStatus) -> bool:
        """Store a status that says something new."""
        if not status.differs_in_substance(plan.status, new):
            return False
        self._record.write_status(new)
        return True

    def _store_request(self, request: EfritRequest, result: str | None = None) -> None:
        self._record.store(request, result)
        self._requests[request.metadata.name] = request
        if result is not None:
            self._results[request.metadata.name] = result

    def _forget_request(self, name: str) -> None:
        self._record.forget(name)
        self._requests.pop(name, None)
        self._results.pop(name, None)

    # Waiting

    async def _wait(self, plan: EfritPlan, until: datetime | None, version: int) -> None:
        """Wait for the request under way, a time, or a change of the plan; whichever comes first."""
        under_way = next((request for request in self._requests.values() if not request.final), None)
        if under_way is None:
            await self._pause_until(until, version)
            return
        work = work_of(plan, self._instance, under_way)
        handle = Handle(id_of(work), self._instance)
        if (end := await self._submit_request(under_way, work, handle)) is not None:
            self._store_request(finished(under_way, final_status(*end, self._clock())))
            return
        if under_way.spec.cancel:
            await self._queue.cancel(handle)
        try:
            state = await self._await_final(handle, until, version)
            if state is None:
                return
            result = await self._result(handle)
        except RequestNotFound:
            # Removed meanwhile: the next check says how it ends.
            return
        self._store_request(finished(under_way, status_of(state, result, self._clock())), result)

    async def _submit_request(
        self, request: EfritRequest, work: Work, handle: Handle
    ) -> tuple[RequestReason, str] | None:
        """Have the queue know the request; return how it ends where it must not be sent (again)."""
        with contextlib.suppress(RequestNotFound):
            await self._queue.get(handle)
            self._record_submission(request)
            return None
        if SENT in request.metadata.annotations:  # gate: plan-sent-once
            return RequestReason.INTERRUPTED, "It was removed before its answer was read: what it did is unknown."
        if request.spec.cancel:
            return RequestReason.CANCELLED, "It was cancelled before it was sent."
        created = request.metadata.creation_timestamp
        if created is not None and self._clock() - created > RESENT_WITHIN:  # gate: plan-resent-within
            return RequestReason.INTERRUPTED, "Its answer is no longer kept: what it did is unknown."
        await self._queue.submit(work)
        # Not before: what a kill kept from the queue is sent by the next driver.
        self._record_submission(request)
        return None

    def _record_submission(self, request: EfritRequest) -> None:
        if SENT not in request.metadata.annotations:
            metadata = request.metadata.model_copy(update={"annotations": {SENT: "true"}})
            self._store_request(request.model_copy(update={"metadata": metadata}))

    async def _await_final(self, handle: Handle, until: datetime | None, version: int) -> RequestState | None:
        """Return the final state; None where the plan was changed or the time has come before."""
        updates = self._queue.watch(handle)
        pending: asyncio.Future[Update] | None = None
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(updates))
                await asyncio.wait({pending}, timeout=POLL_SECONDS)
                if pending.done():
                    state, pending = pending.result().state, None
                    if state is not None and state.final:
                        return state
                # Also of work that never stops reporting: somebody may want it stopped.
                if self._is_due(until, version):
                    return None
        finally:
            if pending is not None:
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await pending

    async def _result(self, handle: Handle) -> str:
        """Return the whole result, or what was kept of it."""
        try:
            return await self._queue.result(handle)
        except ResultTruncated as error:
            return error.kept

    async def _pause_until(self, until: datetime | None, version: int) -> None:
        while not self._is_due(until, version):
            await self._pause(POLL_SECONDS)

    def _is_due(self, until: datetime | None, version: int) -> bool:
        return self._record.version() != version or (until is not None and self._clock() >= until)
