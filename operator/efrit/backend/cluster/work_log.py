"""The work log of a chat or command, read where it is written: in the pod, which takes the right to exec there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from efrit.api_group import EMACS_CONTAINER, QUEUE_DIR, pod_name
from efrit.backend.cluster.api import Api
from efrit.backend.errors import ClientError
from efrit.backend.interface import Phase, RequestState
from efrit.protocol.ids import run_id

# Once it is over, the log has moved to the archive.
_ALL = 'for f in progress/"$1".ndjson archive/log_"$1".ndjson; do [ ! -f "$f" ] || exec tail -c +"$2" "$f"; done'
# Nobody ends what a client leaves behind in a pod: this ends by itself when its standard input is closed.
_ON_AND_ON = 'tail -c +"$2" -F progress/"$1".ndjson 2>/dev/null & cat >/dev/null; kill $!'


class WorkLog:
    """The log of the present run of the request with this uid, each line given once."""

    def __init__(self, api: Api, namespace: str, uid: str) -> None:
        self._api = api
        self._namespace = namespace
        self._uid = uid
        self._preemptions = 0
        self._read = 0
        self._torn = b""

    def begin(self, state: RequestState) -> bool:
        """Turn to the log of the run that a state is of; return whether that is another one than before."""
        if state.preemptions == self._preemptions:
            return False
        self._preemptions, self._read, self._torn = state.preemptions, 0, b""
        return True

    async def read_remaining(self, instance: str) -> list[str]:
        """Return the lines after those already returned. Raises `ClientError`."""
        return self._lines(
            await self._api.exec_output(self._namespace, pod_name(instance), EMACS_CONTAINER, self._command(_ALL))
        )

    async def stream(self, instance: str) -> AsyncIterator[str]:
        """Yield lines as they are written, until the pod or the caller ends it. Raises `ClientError`."""
        output = self._api.exec_stream(
            self._namespace, pod_name(instance), EMACS_CONTAINER, self._command(_ON_AND_ON)
        )
        async with contextlib.aclosing(output):
            async for data in output:
                for line in self._lines(data):
                    yield line

    def _command(self, script: str) -> list[str]:
        # What came of a line that was not whole is read again with the rest of it.
        self._torn = b""
        run = run_id(self._uid, self._preemptions)
        return ["sh", "-c", f"cd {QUEUE_DIR} && {script}", "sh", run, str(self._read + 1)]

    def _lines(self, data: bytes) -> list[str]:
        whole, end, self._torn = (self._torn + data).rpartition(b"\n")
        self._read += len(whole) + len(end)
        # Not `splitlines`: JSON leaves separators such as U+2028 as they are.
        return whole.decode(errors="replace").split("\n") if end else []


async def follow(changes: AsyncIterator[RequestState], log: WorkLog) -> AsyncIterator[RequestState | str]:
    """Yield the states of a request, and in between the lines of its log, all of them before the final state.

    Without permission to read the log, yields the states alone.
    """
    updates: asyncio.Queue[RequestState | str | Exception | None] = asyncio.Queue()
    states_task = asyncio.create_task(_queue_states(changes, log, updates))
    try:
        while (item := await updates.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        await _ended(states_task)


async def _queue_states(
    changes: AsyncIterator[RequestState], log: WorkLog, updates: asyncio.Queue[RequestState | str | Exception | None]
) -> None:
    listening: asyncio.Task[None] | None = None

    async def listen(instance: str) -> None:
        with contextlib.suppress(ClientError):
            async for line in log.stream(instance):
                updates.put_nowait(line)

    try:
        async for state in changes:
            instance = state.handle.instance
            if log.begin(state):
                await _ended(listening)
                listening = None
            if instance is not None and (state.final or state.phase is Phase.RUNNING):
                if state.final:
                    await _ended(listening)
                    with contextlib.suppress(ClientError):
                        for line in await log.read_remaining(instance):
                            updates.put_nowait(line)
                elif listening is None or listening.done():
                    # Where it goes on after its pod has ended, it is in the next one.
                    listening = asyncio.create_task(listen(instance))
            updates.put_nowait(state)
        updates.put_nowait(None)
    except Exception as error:  # noqa: BLE001 - raised again where it is waited for
        updates.put_nowait(error)
    finally:
        await _ended(listening)


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
