"""`efrit-bridge`: wires queue, supervisor, events and HTTP together, and runs them until SIGTERM.

Crash-only: a part that fails for good ends the process, and the kubelet starts it again.
"""

import asyncio
import logging
import signal
import sys
import time

from msgspec import structs

from efrit.auto_reset_event import AutoResetEvent
from efrit.bridge import health
from efrit.bridge.auth import Tokens
from efrit.bridge.departure import depart
from efrit.bridge.events import EventLog
from efrit.bridge.install import install
from efrit.bridge.metrics import Metrics
from efrit.bridge.probes import ProbeServer
from efrit.bridge.process import give_memory_back, hide_from_emacs
from efrit.bridge.routes import make_app
from efrit.bridge.server import Server, listen
from efrit.bridge.settings import Settings
from efrit.bridge.supervise import Supervisor, SupervisorSettings
from efrit.bridge.tls import Certificate
from efrit.errors import ConfigurationError, EfritError, QueueNotReady, StorageError
from efrit.log_format import OneLineFormatter
from efrit.protocol import RequestState, from_epoch
from efrit.protocol.handover import MAX_BATCH_ELEMENTS
from efrit.protocol.view import DiskProblem, DiskStats, RequestView, Stats
from efrit.queue.durable import Disk
from efrit.queue.queue import DurableQueue
from efrit.queue.space import Space
from efrit.queue.upkeep import DiskFailure

log = logging.getLogger("efrit.bridge")

_REFRESH_SECONDS = 1.0
_IDLE_SECONDS = 10.0
"""The same while nothing goes on. Token and certificate are looked at as often."""
# The age of the oldest waiting request is reported in steps: a queue that stands still shows in it alone.
_AGE_STEP_SECONDS = 10.0
MAX_COUNT = 2**53
"""The largest count that travels: what JSON numbers are exact for."""


def without_clocks(stats: Stats) -> Stats:
    """Return `stats` without the ages: equal for two moments between which only time has passed."""
    return structs.replace(
        stats,
        uptime_seconds=0.0,
        oldest_pending_seconds=stats.oldest_pending_seconds // _AGE_STEP_SECONDS,
        emacs=structs.replace(stats.emacs, heartbeat_age_seconds=None),
        # Of a volume, whether it takes work is a change, and not how much each request has left of it.
        disk=None if stats.disk is None else structs.replace(stats.disk, free_bytes=0, free_inodes=0, message=""),
    )


def disk_stats(space: Space | None, failure: DiskFailure | None) -> DiskStats | None:
    """Return the figures of the volume; None before it was looked at."""
    if space is None and failure is None:
        return None
    figures = {} if space is None else {name: min(value, MAX_COUNT) for name, value in structs.asdict(space).items()}
    if failure is None:
        return DiskStats(**figures)
    problem = DiskProblem.FULL if failure.full else DiskProblem.FAILING
    return DiskStats(**figures, problem=problem, message=failure.message[:500], since=from_epoch(failure.since))


class _Listener:
    """A server and its socket, open from now on."""

    def __init__(self, server: Server | ProbeServer, host: str, port: int) -> None:
        self.server = server
        self._socket = listen(host, port)
        self.port = int(self._socket.getsockname()[1])

    async def serve(self) -> None:
        await self.server.serve([self._socket])


class Bridge:
    """One bridge. Raises `ConfigurationError` when its Secret or its Lisp files are missing."""

    def __init__(self, settings: Settings, *, disk: Disk | None = None) -> None:
        if settings.shared_dir is not None:
            install(settings.lisp_source, settings.shared_dir)
        self._tokens = Tokens(settings.bridge_secrets)
        self._certificate = Certificate(settings.bridge_secrets)
        self._metrics = Metrics()
        self.events = EventLog()
        self.queue = DurableQueue(
            settings.queue_dir,
            settings.limits(),
            disk=disk,
            on_change=self._request_changed,
            on_heartbeat=lambda: self.supervisor.heartbeat(),
        )
        self.supervisor = Supervisor(
            self.queue,
            SupervisorSettings(
                request_timeout=settings.request_timeout,
                command_timeout=settings.command_timeout,
                kill_grace=settings.kill_grace_seconds,
                stall=settings.stall_seconds,
            ),
            on_signal=self._metrics.signalled,
            on_restart=self._metrics.restarted,
            on_change=self._emacs_changed,
        )
        application = make_app(self.queue, self.events, self._tokens, self)
        self._listeners = [
            _Listener(Server(application, self._certificate), settings.bridge_host, settings.bridge_port)
        ]
        self.port = self._listeners[0].port
        """The port it listens on."""
        self.probe_port: int | None = None
        """The port of the probes, where there is one."""
        if settings.bridge_probe_port is not None:
            probes = ProbeServer({b"/healthz": self.unhealthy, b"/readyz": self.unready})
            self._listeners.append(_Listener(probes, settings.bridge_host, settings.bridge_probe_port))
            self.probe_port = self._listeners[-1].port
        self._is_ephemeral = settings.ephemeral_queue
        self._leaving: asyncio.Task[None] | None = None
        self._started = self._ticked = time.monotonic()
        self._published: Stats | None = None
        self._activity = AutoResetEvent()

    async def run(self) -> None:
        """Serve until `stop`. Raises what made it impossible to go on."""
        serving = [asyncio.create_task(listener.serve(), name="http") for listener in self._listeners]
        working = asyncio.create_task(self._work(), name="work")
        try:
            done, _ = await asyncio.wait({*serving, working}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.stop()
            working.cancel()
            if self._leaving is not None:
                self._leaving.cancel()
            await asyncio.gather(*serving, working, return_exceptions=True)
            await self.queue.close()

    def leave(self) -> None:
        """End as on SIGTERM: with an ephemeral queue, once all on it is delivered. A second one ends it at once.

        Where Emacs lives on, the bridge alone is started anew, and its queue with it.
        """
        ends_with_pod = self._is_ephemeral and self.queue.is_open
        # gate: bridge-restarts-alone
        ends_with_pod = ends_with_pod and not self.supervisor.sees_emacs
        if self._leaving is None and ends_with_pod:
            self._leaving = asyncio.create_task(self._depart(), name="departure")
        else:
            self.stop()

    async def _depart(self) -> None:
        try:
            await depart(self.queue, self.events)
        except EfritError as error:
            log.error("the queue ends with what is on it: %s", error)
        finally:
            self.stop()

    def stop(self) -> None:
        """End the event streams, then the servers, then everything."""
        self.events.close()
        self.queue.work_logs.notify_all()
        for listener in self._listeners:
            listener.server.stop()

    async def _work(self) -> None:
        await self._open_queue()
        log.info("queue %s is open, serving on port %d", self.queue.queue_id, self.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(), name="queue")
            group.create_task(self.supervisor.run(), name="supervisor")
            group.create_task(self._publish(), name="publisher")

    async def _open_queue(self) -> None:
        while True:
            try:
                return await self.queue.open()
            except (StorageError, QueueNotReady) as error:
                # A full volume, or the bridge before us not quite gone: served as 503 meanwhile.
                log.error("%s; trying again", error)
            self.queue.scanner.beat = self.supervisor.beat = self._ticked = time.monotonic()
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _publish(self) -> None:
        """Publish changed figures, rotated tokens and certificates: once a second, seldom while nothing goes on."""
        while True:
            self._ticked = time.monotonic()
            self._tokens.refresh()
            self._certificate.refresh()
            self._publish_stats()
            await self._pause()

    async def _pause(self) -> None:
        if not self._is_idle():
            await asyncio.sleep(_REFRESH_SECONDS)
            return
        if await self._activity.wait(_IDLE_SECONDS):
            # What has begun comes first.
            await asyncio.sleep(_REFRESH_SECONDS)

    def _is_idle(self) -> bool:
        return self.supervisor.emacs_is_idle and not self.queue.index.open_count and self.queue.upkeep.is_healthy

    def _emacs_changed(self) -> None:
        self._publish_stats()
        self._activity.set()

    def _publish_stats(self) -> None:
        stats = self.stats()
        current = without_clocks(stats)
        if current != self._published:
            self._published = current
            self.events.append(stats)

    def _request_changed(self, view: RequestView) -> None:
        self._metrics.changed(view)
        self.events.append(view)
        self._activity.set()
        self.supervisor.changed(view)

    # What the routes ask for

    def wake_supervisor(self) -> None:
        """Have the supervisor check at once."""
        self.supervisor.wake()

    def stats(self) -> Stats:
        """Return the figures as of now."""
        index, totals = self.queue.index, self.queue.totals
        oldest = index.oldest_queued()
        now = time.monotonic()
        return Stats(
            queue_id=self.queue.queue_id,
            pending=index.count(RequestState.QUEUED),
            processing=index.count(RequestState.RUNNING),
            unacknowledged=index.count(RequestState.ANSWERED),
            processed=totals.processed,
            succeeded=totals.succeeded,
            failed=totals.failed,
            interrupted=totals.interrupted,
            average_processing_seconds=totals.average_seconds,
            oldest_pending_seconds=0.0 if oldest is None else max(0.0, time.time() - oldest),
            uptime_seconds=now - self._started,
            emacs=self.supervisor.stats(now),
            disk=disk_stats(self.queue.upkeep.space, self.queue.upkeep.failure),
            batch_elements=MAX_BATCH_ELEMENTS,
        )

    def metrics(self) -> bytes:
        """Return the metrics as text for Prometheus."""
        return self._metrics.render(self.stats())

    def unhealthy(self) -> list[str]:
        """Return the loops that are stuck."""
        beats = {
            "the queue": self.queue.scanner.beat,
            "the supervisor": self.supervisor.beat,
            "the publisher": self._ticked,
        }
        return health.liveness(beats, time.monotonic())

    def unready(self) -> list[str]:
        """Return why the instance should get no work; empty if it may."""
        emacs = self.supervisor.stats(time.monotonic())
        return health.readiness(queue_open=self.queue.is_open, emacs=emacs)


async def serve(settings: Settings) -> None:
    """Run one bridge until SIGTERM or SIGINT."""
    bridge = Bridge(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, bridge.leave)
    await bridge.run()


def main() -> None:
    """Run the bridge. Exit status 0 after a signal, 1 on a failure, 2 for wrong settings."""
    hide_from_emacs()
    give_memory_back()
    try:
        settings = Settings.load()
    except ConfigurationError as error:
        print(f"efrit-bridge: {error}", file=sys.stderr)
        sys.exit(2)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.bridge_log_level.upper(), handlers=[handler])
    try:
        asyncio.run(serve(settings))
    except ConfigurationError as error:
        log.error("%s", error)
        sys.exit(2)
    except (EfritError, OSError, ExceptionGroup) as error:
        log.error("stopping: %s", error, exc_info=isinstance(error, ExceptionGroup))
        sys.exit(1)


if __name__ == "__main__":
    main()
