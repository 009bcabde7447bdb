"""One batch of a controller: each line is done as the call of its own would be, and answered once it is on the disk.

All are begun together: submissions are stored by one group commit, acknowledgements in one turn of the disk thread.
None waits for another to be answered. The wire is `efrit.protocol.handover`; no HTTP here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from efrit.auto_reset_event import AutoResetEvent
from efrit.bridge.events import inlined
from efrit.errors import EfritError, InvalidRequest, RequestTooLarge
from efrit.protocol.handover import MAX_BATCH_BYTES, MAX_BATCH_ELEMENTS, BatchElement, BatchOperation, BatchResult
from efrit.protocol.view import ErrorDetail, RequestView
from efrit.queue.queue import DurableQueue

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.005
"""How long a result may wait for those of others: most of a batch are known within it, and are sent at once."""

Element = BatchElement | EfritError
"""A line that was read, or why it cannot be."""


def read_batch(body: bytes) -> list[Element]:
    """Return the elements of a batch. Raises `RequestTooLarge`; a line that is none is refused alone."""
    if len(body) > MAX_BATCH_BYTES:
        raise RequestTooLarge(f"the batch is longer than {MAX_BATCH_BYTES} bytes")
    lines = body.removesuffix(b"\n").split(b"\n")
    if len(lines) > MAX_BATCH_ELEMENTS:
        raise RequestTooLarge(f"the batch has {len(lines)} elements, {MAX_BATCH_ELEMENTS} are allowed")
    return [_read(line) for line in lines]


def _read(line: bytes) -> Element:
    try:
        return BatchElement.parse(line)
    except InvalidRequest as error:
        return error


def _reported(error: Exception, what: str) -> EfritError:
    """Return the error that the controller gets; one that is none of ours is logged, with what it came from."""
    if isinstance(error, EfritError):
        return error
    log.error("%s: unexpected", what, exc_info=error)
    return EfritError("internal error; see the bridge log")


class Batch:
    """One batch that is being worked on. `wake` has the supervisor check what is to be stopped."""

    def __init__(self, queue: DurableQueue, elements: Sequence[Element], wake: Callable[[], None]) -> None:
        self._queue = queue
        self._elements = elements
        self._wake = wake
        self._ready: list[BatchResult] = []
        self._remaining = len(elements)
        self._result_ready = AutoResetEvent()
        self._tasks: set[asyncio.Task[None]] = set()
        """Not awaited where the client goes away: what has begun is finished."""

    async def results(self) -> AsyncIterator[tuple[bytes, bool]]:
        """Yield lines of results soon after they are known, and whether they are the last."""
        self._begin()
        while self._remaining:
            await self._result_ready.wait()
            ready, self._ready = self._ready, []
            self._remaining -= len(ready)
            yield b"".join(result.to_line() for result in ready), not self._remaining

    def _begin(self) -> None:
        acknowledged: list[tuple[int, BatchElement]] = []
        for index, element in enumerate(self._elements):
            if isinstance(element, EfritError):
                self._put(index, element)
            elif element.op is BatchOperation.ACKNOWLEDGE:
                acknowledged.append((index, element))
            else:
                self._start(self._answer(index, self._carry_out(element)))
        if acknowledged:
            self._start(self._acknowledge(acknowledged))

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, index: int, work: Awaitable[RequestView]) -> None:
        try:
            self._put(index, await work)
        except Exception as error:  # noqa: BLE001 - reported, and logged where it is a defect
            self._put(index, _reported(error, f"element {index} of a batch"))

    async def _carry_out(self, element: BatchElement) -> RequestView:
        if element.op is BatchOperation.SUBMIT and element.request is not None:
            view, _ = await self._queue.submit(element.request)  # gate: stored-before-reported
            return view
        try:
            if element.request is not None:
                return await self._queue.decline(element.request, running=element.running)
            return await self._queue.cancel(element.id, running=element.running)
        finally:
            self._wake()

    async def _acknowledge(self, elements: Sequence[tuple[int, BatchElement]]) -> None:
        try:
            refusals = await self._queue.acknowledge_all([element.id for _, element in elements])
        except Exception as error:  # noqa: BLE001 - reported, and logged where it is a defect
            refusals = dict.fromkeys(
                (element.id for _, element in elements), _reported(error, "the acknowledgements of a batch")
            )
        for index, element in elements:
            self._put(index, refusals.get(element.id))

    def _put(self, index: int, outcome: RequestView | EfritError | None) -> None:
        if isinstance(outcome, EfritError):
            error = ErrorDetail(code=outcome.code, message=outcome.message)
            self._ready.append(BatchResult(index=index, error=error))
        else:
            self._ready.append(BatchResult(index=index, request=None if outcome is None else inlined(outcome)))
        if len(self._ready) == self._remaining:
            self._result_ready.set()
        else:
            self._result_ready.set_within(LINGER_SECONDS)
