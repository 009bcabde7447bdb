"""Carries batches to one bridge: begins calls when they are due, and gives each element its result.

What is to be sent together is decided in handover_batch.py, what a result means in bridges.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Protocol

from efrit.controller.act.handover_batch import Gathering, Results, Waiting
from efrit.errors import BridgeUnreachable, BridgeUnresponsive, EfritError, NotLeading
from efrit.protocol.handover import MAX_BATCH_ELEMENTS, BatchResult

log = logging.getLogger(__name__)

Answer = asyncio.Future[BatchResult]


class BatchCall(Protocol):
    """One call to the bridge."""

    def __call__(self, body: bytes) -> AsyncGenerator[bytes]:
        """Send a batch and yield the parts of its answer. Raises EfritError, as of the whole batch."""


class HandoverCalls:
    """The batches of one connection. Close it with the connection."""

    def __init__(
        self,
        call: BatchCall,
        unusable: Callable[[EfritError], EfritError],
        leading: Callable[[], bool],
        loaded: Callable[[], bool],
    ) -> None:
        """Use `call` for each batch, while `leading`.

        `unusable` takes in that an answer cannot be used, and returns its error. `loaded`: see `Gathering.due`.
        """
        self._call = call
        self._unusable = unusable
        self._leading = leading
        self._loaded = loaded
        self._gathering: Gathering[Answer] = Gathering()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def limit(self, elements: int) -> None:
        """Take in how many elements the bridge takes at a time."""
        self._gathering.max_elements = min(elements, MAX_BATCH_ELEMENTS)

    async def add(self, line: bytes, *, lingers: bool = False) -> BatchResult:
        """Return what the bridge says of this element. Raises EfritError where the batch got no such answer."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise BridgeUnreachable("the connection to the bridge was closed", sent=False)
        answer: Answer = loop.create_future()
        self._gathering.add(line, answer, loop.time(), lingers=lingers)
        self._schedule()
        return await answer

    async def close(self) -> None:
        """End every call. What waits was not sent; of what is under way it is not known."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        _fail(self._gathering.clear(), BridgeUnreachable("the connection to the bridge was closed", sent=False))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _schedule(self) -> None:
        """Have the next call begin when it is due: in the next turn of the loop at the earliest, for company."""
        loop = asyncio.get_running_loop()
        due = None if self._closed else self._gathering.due(loop.time(), loaded=self._loaded())
        if self._timer is not None:
            if due is not None and self._timer.when() <= due and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = loop.call_at(due, self._begin)

    def _begin(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        due = self._gathering.due(now, loaded=self._loaded())
        if due is not None and due <= now:
            batch = self._gathering.take(now)
            results = Results(len(batch))
            task = asyncio.create_task(self._read(batch, results), name="batch")
            self._tasks.add(task)
            # Not in the task: one that is cancelled before its first step runs nothing of it.
            task.add_done_callback(partial(self._ended, batch, results, now))
        self._schedule()

    def _ended(self, batch: list[Waiting[Answer]], results: Results, began: float, task: asyncio.Task[None]) -> None:
        """Take in that a call is over, in whichever way."""
        self._tasks.discard(task)
        self._gathering.ended(began)
        error = _failure(task)
        if error is not None:
            # Sent again by their keys: each is as idempotent as the call of its own.
            _fail([batch[index] for index in results.missing], error)  # gate: batch-reported-again
        self._let_go(error)
        self._schedule()

    def _let_go(self, error: EfritError | None) -> None:
        """Have retried what has waited for too long, or all that waits once the bridge counts as not answering."""
        if isinstance(error, BridgeUnresponsive):  # gate: batches-of-silent
            _fail(self._gathering.clear(), BridgeUnresponsive(error.message, sent=False))
            return
        overdue = self._gathering.overdue(asyncio.get_running_loop().time())
        _fail(overdue, BridgeUnreachable("the bridge was busy with earlier batches for too long", sent=False))

    async def _read(self, batch: list[Waiting[Answer]], results: Results) -> None:
        """Send a batch and give each element its result. Raises EfritError where some got none."""
        if not self._leading():  # gate: batch-leading
            # It was decided a moment ago, and the process may have been stopped in between.
            raise NotLeading("this process cannot be sure that it leads: the batch is not sent")
        async with aclosing(self._call(b"".join(element.line for element in batch))) as parts:
            async for part in parts:
                try:
                    for result in results.feed(part):
                        _settle(batch[result.index].ticket, result)
                except EfritError as error:
                    raise self._unusable(error) from error
        if results.missing:
            raise self._unusable(BridgeUnreachable("the bridge's answer to a batch ended early"))


def _failure(task: asyncio.Task[None]) -> EfritError | None:
    """Return what kept a call from being answered in full."""
    if task.cancelled():
        return BridgeUnreachable("the connection to the bridge was closed")
    failure = task.exception()
    if failure is None or isinstance(failure, EfritError):
        return failure
    log.error("a batch: unexpected", exc_info=failure)
    return BridgeUnreachable(f"the batch has failed: {failure!r}")


def _settle(answer: Answer, result: BatchResult) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(batch: list[Waiting[Answer]], error: EfritError) -> None:
    for element in batch:
        if not element.ticket.done():
            element.ticket.set_exception(error)
            # Whoever waited for it may be gone.
            element.ticket.exception()
