"""Ends requests of a queue before their time: withdraws what waits, orders what runs to stop."""

import time
from collections.abc import Awaitable, Callable, Sequence

from efrit.protocol import Request, RequestId, RequestReason, RequestState, from_epoch, response_file
from efrit.protocol.view import RequestView
from efrit.queue.cancel import (
    decline,
    decline_without_request,
    finish_in_place,
    order_stop,
    withdraw,
    withdraw_in_place,
)
from efrit.queue.durable import is_full, naming_failures
from efrit.queue.layout import Area, withdrawn_file
from efrit.queue.parts import QueueParts
from efrit.queue.state import Entry, StopOrder
from efrit.queue.submit import submission


class Cancellations:
    """The cancellations of one queue.

    `refresh` brings the index up to date, `view` reads one request with its answer, `until_stored` waits until no
    submission of an id is under way.
    """

    def __init__(
        self,
        parts: QueueParts,
        refresh: Callable[[Sequence[RequestId]], Awaitable[None]],
        view: Callable[[RequestId], Awaitable[RequestView]],
        until_stored: Callable[[RequestId], Awaitable[None]],
    ) -> None:
        self._parts = parts
        self._refresh = refresh
        self._view = view
        self._until_stored = until_stored

    async def cancel(self, rid: RequestId, *, running: bool = True) -> RequestView:
        """Answer a pending request `Cancelled`; with `running`, order a running one to stop. A response stays.

        Raises `RequestNotFound`, `NoSpace`, `StorageError`.
        """
        await self._until_stored(rid)
        entry = self._parts.index.get(rid)
        if entry is None or entry.state is RequestState.ANSWERED:
            return await self._view(rid)
        if entry.state is RequestState.QUEUED and await self._withdraw(entry):
            return await self._view(rid)
        if running:  # gate: cancel-only-waiting
            await self.stop(entry, RequestReason.CANCELLED)
        return await self._view(rid)

    async def decline(self, request: Request, *, running: bool = True) -> RequestView:
        """Cancel `request`, even before it is submitted: submitted later, it is found cancelled and does not run.

        Raises `NoSpace`, `StorageError`.
        """
        await self._until_stored(request.id)
        if self._parts.index.get(request.id) is None:
            with naming_failures(f"cancel {request.id}"):
                await self._parts.worker.run(self._decline_blocking, request)
            # One that came meanwhile was refused, and what the index knew of it is gone.
            await self._until_stored(request.id)
            await self._refresh([request.id])
        return await self.cancel(request.id, running=running)

    def _decline_blocking(self, request: Request) -> None:
        now = from_epoch(time.time())
        try:
            self._parts.upkeep.retry_with_space(decline, self._parts.disk, submission(request), now)
        except OSError as error:
            if not is_full(error):
                raise
            self._parts.upkeep.retry_with_space(
                decline_without_request, self._parts.disk, request.id, now, reserve=True
            )

    async def _withdraw(self, entry: Entry) -> bool:
        entry.withdrawing = True
        try:
            with naming_failures(f"cancel {entry.id}"):
                done = await self._parts.worker.run(self._withdraw_blocking, entry.id, entry.request_name)
            if done:
                await self._refresh([entry.id])
        finally:
            # What was taken back and could not be answered is not gone: the next cancel finishes it.
            entry.withdrawing = await self._parts.worker.run(self._is_withdrawn, entry.id)
        return done

    def _is_withdrawn(self, rid: RequestId) -> bool:
        return self._parts.disk.stat_any(Area.TMP, withdrawn_file(rid)) is not None

    def _withdraw_blocking(self, rid: RequestId, name: str) -> bool:
        now = from_epoch(time.time())
        try:
            return self._parts.upkeep.retry_with_space(withdraw, self._parts.disk, rid, name, now)
        except OSError as error:
            if not is_full(error):
                raise
            if self._parts.disk.stat_any(Area.RESPONSES, response_file(rid)) is not None:
                # It is answered; what is left of the request is archived with the acknowledgement.
                return True
        if not withdraw_in_place(self._parts.disk, rid, name, now):  # gate: withdraw-in-place
            return False
        self._parts.upkeep.retry_with_space(finish_in_place, self._parts.disk, rid, reserve=True)
        return True

    async def stop(self, entry: Entry, reason: RequestReason) -> None:
        """Write a stop order where Emacs looks for it; the supervisor interrupts Emacs."""
        with naming_failures(f"order {entry.id} to stop"):
            await self._parts.worker.run(self._order_blocking, entry.id, reason)
        if entry.stop is None:
            entry.stop = StopOrder(reason, time.monotonic())

    def _order_blocking(self, rid: RequestId, reason: RequestReason) -> None:
        self._parts.upkeep.retry_with_space(
            order_stop, self._parts.disk, rid, reason, reserve=True
        )  # gate: stop-reserve
