"""Waiting for an answer on this machine: what changes, what is said meanwhile, and what to do when nothing comes.

Whoever waits is the supervisor: it starts an Emacs that died, interrupts one past its time, and ends one that does
not listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from efrit.backend.errors import NotReady, RequestNotFound
from efrit.backend.interface import Handle, Progress, RequestState, Update
from efrit.backend.local import answers
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.emacs_process import start
from efrit.backend.local.health import Health
from efrit.backend.local.heartbeat import check_heartbeat
from efrit.backend.local.poll_interval import PollInterval
from efrit.backend.local.start_thread import start_in_thread
from efrit.backend.local.work_log import lines_from
from efrit.backend.work_log import entry, model_text
from efrit.protocol.enums import RequestPhase as Phase
from efrit.protocol.enums import RequestReason, RequestType
from efrit.queue.layout import Area
from efrit.queue.work_log import progress_in

T = TypeVar("T")

_LOG_PAUSE = 0.05
_BLIND_PAUSE = 0.2
_SUPERVISE_SECONDS = 1.0
_FIRST_SUPERVISION_SECONDS = 0.25
"""Most evals are answered by then, and cost no check of Emacs."""
_MAX_STARTS = 5

OVERRUN_SECONDS = 5.0
"""How long after its time an eval may go on: Emacs' own watchdog comes first."""

ELSEWHERE_SECONDS = 15.0
"""How long a cancel waits for an Emacs of another host, which is not ended from here."""

GRACE_SECONDS = 5.0
"""From the first interrupt until Emacs is ended."""


async def follow(daemon: Daemon, handle: Handle, interval: PollInterval) -> AsyncIterator[Update]:
    """Yield the state, each change of it, and the model's text as it comes; end after the final state."""
    files, began = daemon.files, time.monotonic()
    supervisor = _Supervisor(daemon, handle)
    log = _LogReader(daemon, handle)
    state = await visible_state(daemon, handle)
    yield Update(state)
    while not state.final:
        waited = time.monotonic() - began
        pause = interval.pause(waited)
        await asyncio.sleep(min(pause, _LOG_PAUSE) if log.any else pause)
        if not files.is_answered(handle.id):
            await supervisor.check()
            moved = files.area_of(handle.id) is Area.PROCESSING
            if (
                moved is (state.phase is Phase.RUNNING)
                and not log.has_new_log(state)
                and supervisor.explained(state) == state
            ):
                continue
        new_state = supervisor.explained(await visible_state(daemon, handle))
        for text in log.read(new_state):
            yield Update(text=text)
        new_state = log.with_progress(new_state)
        if new_state != state:
            state = new_state
            yield Update(state)


async def poll_until_visible(read: Callable[[], T | None], blind_seconds: Callable[[], float]) -> T | None:
    """Return what `read` returns, None where it finds nothing for so long.

    On a remote file system a request may be nowhere for a while: where it was it is no longer, and that there was
    nothing where it is now is still remembered.
    """
    limit: float | None = None
    while (value := read()) is None:
        if limit is None:
            limit = time.monotonic() + blind_seconds()
        if time.monotonic() >= limit:
            return None
        await asyncio.sleep(_BLIND_PAUSE)
    return value


async def visible_state(daemon: Daemon, handle: Handle) -> RequestState:
    """Return the state of a request that is known to be there. Raises `RequestNotFound`."""
    state = await poll_until_visible(lambda: daemon.files.state(handle), lambda: daemon.mount().blind_seconds)
    if state is None:
        raise RequestNotFound(f"the request {handle.id} is no longer there", "somebody has removed its files")
    return state


class _LogReader:
    """The work log of a chat or command, as far as it was read."""

    def __init__(self, daemon: Daemon, handle: Handle) -> None:
        self._files = daemon.files
        self._id = handle.id
        self._offset = 0
        self._progress: Progress | None = None
        #: Whether anything was ever read: then somebody wants to see the words come.
        self.any = False

    def has_new_log(self, state: RequestState) -> bool:
        return state.type in (RequestType.CHAT, RequestType.COMMAND) and state.phase is Phase.RUNNING

    def read(self, state: RequestState) -> list[str]:
        """Return what the model has said since the last call."""
        if state.type not in (RequestType.CHAT, RequestType.COMMAND):
            return []
        texts = []
        lines, self._offset = lines_from(self._files, self._id, self._offset)
        for line in lines:
            self.any = True
            if text := model_text(entry(line)):
                texts.append(text)
            else:
                self._progress = progress_in(line.encode()) or self._progress
        return texts

    def with_progress(self, state: RequestState) -> RequestState:
        return state if state.progress is not None else replace(state, progress=self._progress)


class _Supervisor:
    """What a bridge's supervision would do, as long as somebody waits."""

    def __init__(self, daemon: Daemon, handle: Handle) -> None:
        self._daemon = daemon
        self._handle = handle
        self._looked = time.monotonic() - _SUPERVISE_SECONDS + _FIRST_SUPERVISION_SECONDS
        #: When each eval was first seen to run, of whoever sent it: it occupies Emacs.
        self._running: dict[str, float] = {}
        self._health = Health(daemon)
        self._starts = 0

    async def check(self) -> None:
        now = time.monotonic()
        if now - self._looked < _SUPERVISE_SECONDS:
            return
        self._looked = now
        if not self._daemon.is_served():
            await self._restart_emacs()
            return
        await asyncio.to_thread(self._health.check, now)
        if not self._daemon.is_served():
            # It was ended: the next one starts without another pause.
            await self._restart_emacs()
            return
        for handle in await asyncio.to_thread(self._overdue, now):
            await stop_request(self._daemon, handle, RequestReason.TIMED_OUT)

    def explained(self, state: RequestState) -> RequestState:
        """Return the state of a request that waits with what keeps Emacs from it, as Emacs said last."""
        trouble = self._health.trouble
        if state.phase is not Phase.QUEUED:
            return state
        if trouble is not None:
            message = f"Emacs cannot take it: {trouble}"
            return replace(state, reason=RequestReason.INSTANCE_NOT_READY, message=message)
        return answers.queued_again(state) if state.reason is RequestReason.INSTANCE_NOT_READY else state

    def _overdue(self, now: float) -> list[Handle]:
        """Return the evals that are past their time; one of another client keeps this one waiting as well."""
        files = self._daemon.files
        running = {rid: self._running.get(rid, now) for rid in files.running()}
        self._running = running
        overdue = []
        for rid, since in running.items():
            limit = files.timeout_of(rid) or self._daemon.instance.timeout
            handle = Handle(rid, self._handle.instance)
            if now - since > limit + OVERRUN_SECONDS and not _is_session(self._daemon, handle):
                overdue.append(handle)
        return overdue

    async def _restart_emacs(self) -> None:
        name = self._daemon.instance.id
        if not self._daemon.instance.auto_start:
            check_heartbeat(self._daemon)
            raise NotReady(f"{name} no longer runs, {self._handle.id} waits", f"efrit start {name}")
        self._starts += 1
        if self._starts > _MAX_STARTS:
            problem = self._health.problem
            cause = "" if problem is None else f", the last time because its self-check failed ({problem})"
            raise NotReady(
                f"the Emacs of {name} has died {_MAX_STARTS} times{cause}; {self._handle.id} waits",
                "run `efrit doctor`",
            )
        # The request waits for this Emacs, whoever leaves.
        await start_in_thread(partial(start, self._daemon, keep=True))


async def stop_request(daemon: Daemon, handle: Handle, reason: RequestReason = RequestReason.CANCELLED) -> None:
    """Have Emacs stop the request; kill an Emacs that does not respond, and the next one answers the request."""
    files = daemon.files
    files.order_stop(handle.id, reason)
    # Of an Emacs of another host the watchdog there looks at the order, which that host may see late.
    is_remote = not daemon.running() and daemon.is_served()
    limit = time.monotonic() + (ELSEWHERE_SECONDS if is_remote else GRACE_SECONDS)
    signalled_at = 0.0
    while not files.is_answered(handle.id) and files.area_of(handle.id) is not None:
        now = time.monotonic()
        if now > limit:
            if not is_remote and files.area_of(handle.id) is Area.PROCESSING and not _is_session(daemon, handle):
                await asyncio.to_thread(daemon.kill)
                with contextlib.suppress(NotReady):
                    await start_in_thread(partial(start, daemon, keep=True))
            return
        if now - signalled_at >= 1.0:
            signalled_at = now
            daemon.signal_cancel_check()
        await asyncio.sleep(0.02)


def _is_session(daemon: Daemon, handle: Handle) -> bool:
    state = daemon.files.state(handle)
    return state is not None and state.type in (RequestType.CHAT, RequestType.COMMAND)
