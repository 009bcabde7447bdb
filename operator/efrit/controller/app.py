"""The controller process: settings, lease, watchers, work queue, resync, probes. Crash-only.

Whatever dies takes the process with it; the Deployment starts it again, and everything it knew is in the cluster
and on the queues.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, NoReturn

from prometheus_client import REGISTRY

from efrit import __version__
from efrit.controller import metrics
from efrit.controller.act.actor import Actor
from efrit.controller.act.bridges import Bridges
from efrit.controller.act.identity import load_identity
from efrit.controller.act.kube import Kube
from efrit.controller.child_check import ChildCheck
from efrit.controller.definitions import Definitions
from efrit.controller.expiry import Expiry
from efrit.controller.health import Health, serve
from efrit.controller.lease import Lease
from efrit.controller.lease_thread import LeaseThread
from efrit.controller.metrics_access import MetricsAccess
from efrit.controller.metrics_server import serve_metrics
from efrit.controller.namespaces import Namespaces
from efrit.controller.pool_metrics import LABELS, PoolCollector
from efrit.controller.process_end import ProcessEnds, leave_identity, process_identity
from efrit.controller.reconcile import Reconciler
from efrit.controller.resync import LISTS_AT_A_TIME, Resync
from efrit.controller.retry import retry_while_unavailable
from efrit.controller.settings import Settings
from efrit.controller.standby import Standby
from efrit.controller.store.store import Store
from efrit.controller.warm_objects import WarmObjects
from efrit.controller.watch import kopf_watch
from efrit.controller.watch.object_watch import ObjectWatch, watched_kinds
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ConfigurationError, EfritError, first_leaf
from efrit.log_format import LAYOUT, OneLineFormatter

log = logging.getLogger("efrit.controller")

GAUGE_SECONDS = 5.0


def main() -> None:
    """Run the controller until it is asked to stop. Exit code 0 when asked to, 1 when something died."""
    try:
        settings = Settings.load()
    except ConfigurationError as error:
        print(f"efrit-operator: {error}", file=sys.stderr)
        sys.exit(2)
    _configure_logging(settings)
    # What is imported stays: a collection that looks through it as well keeps the loop from all else for 60 ms.
    gc.freeze()
    asyncio.run(_run_to_the_end(settings))


async def _run_to_the_end(settings: Settings) -> NoReturn:
    """Run, and end at once: a task that a dying watcher left behind could keep the process for ever."""
    status = await _run(settings)
    logging.shutdown()
    os._exit(status)


async def _run(settings: Settings) -> int:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    identity = process_identity(settings.pod_name)
    log.info("efrit-operator %s starts as %s", __version__, identity)
    # Before it asks for the lease: whoever holds that is to be known by it.
    leave_identity(settings.termination_log, identity)
    health = Health()
    kube = await Kube.connect()
    servers = [await serve(health, settings.http_host, settings.http_port, with_metrics=not settings.metrics_auth)]
    if settings.metrics_auth:
        servers.append(await serve_metrics(MetricsAccess(kube.review), settings.http_host, settings.metrics_port))
    lease = LeaseThread(lambda is_responsive: _lease(settings, identity, is_responsive), settings.lease_seconds)
    process = _Process(settings, kube, health, stop, lease)
    process.begin()
    holding = asyncio.create_task(lease.hold(process.lead), name="lease")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    health.ready = True
    try:
        await asyncio.wait({holding, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if process.failure is not None:
            _report(process.failure)
            return 1
        if holding.done():
            log.critical("the controller stops: %s", holding.exception() or "the lease is lost")
            return 1
        return 0
    finally:
        holding.cancel()
        stopping.cancel()
        await asyncio.gather(holding, stopping, return_exceptions=True)
        await process.stopped()
        await lease.release()
        for server in servers:
            await server.cleanup()
        await kube.close()
        log.info("efrit-operator stopped")


async def _lease(settings: Settings, identity: str, is_responsive: Callable[[], bool]) -> tuple[Lease, Kube]:
    """Return the lease with a connection of its own, in the thread that keeps it."""
    kube, namespace = await Kube.connect(), settings.operator_namespace
    ends = ProcessEnds(kube, namespace)
    return Lease(kube, namespace, settings.lease_name, identity, settings.lease_seconds, is_responsive, ends), kube


class _Process:
    """What runs while another holds the lease, and what runs while this process does."""

    def __init__(
        self, settings: Settings, kube: Kube, health: Health, stop: asyncio.Event, lease: LeaseThread
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._health = health
        self._stop = stop
        self._lease = lease
        self._bridges: Bridges | None = None
        self._warm = WarmObjects(settings.standby_bytes)
        self._standing_by: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None

    def begin(self) -> None:
        """Be ready for the lease, as long as another has it."""
        if self._settings.standby_bytes:
            self._standing_by = asyncio.create_task(self._kept(self._stand_by()), name="standby")

    async def lead(self) -> None:
        """Watch, decide and act until cancelled; a failure is kept and stops the process."""
        metrics.LEADER.set(1)
        try:
            # What it would take in from here on, the lists find.
            await self._end_standby()
            await self._kept(self._lead())
        finally:
            metrics.LEADER.set(0)

    async def _kept(self, work: Coroutine[Any, Any, None]) -> None:
        """Await what never ends but by cancellation; a failure is kept and stops the process."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failure = error
            self._stop.set()
            raise
        else:
            self._stop.set()

    async def _stand_by(self) -> None:
        await self._lease.stands_by.wait()
        await Standby(self._kube, self._warm, self._scopes).run()

    async def _end_standby(self) -> None:
        if self._standing_by is not None:
            self._standing_by.cancel()
            await asyncio.gather(self._standing_by, return_exceptions=True)

    async def stopped(self) -> None:
        """Close what is still open."""
        await self._end_standby()
        if self._bridges is not None:
            await self._bridges.close()

    async def _lead(self) -> None:
        settings = self._settings
        log.info("leading; serving %s", ", ".join(settings.watch_namespaces) or "the whole cluster")
        identity = await retry_while_unavailable(
            lambda: load_identity(self._kube, settings.operator_namespace, settings.identity_secret)
        )
        queue, clock = WorkQueue(), self._kube.clock
        store = Store(queue, settings.controller_config(), clock)
        bridges = self._bridges = Bridges(identity, store, clock, lambda: self._lease.held)
        actor = Actor(self._kube, bridges, store, clock, settings.pod_name, lambda: self._lease.held)
        namespaces = self._namespaces(store)
        reconciler = Reconciler(store, actor, identity, clock, namespaces.is_served)
        # A process leads once: nobody takes it out of the registry again.
        REGISTRY.register(PoolCollector(store.pools, clock))
        async with asyncio.TaskGroup() as group:
            group.create_task(namespaces.run(), name="namespaces")
            group.create_task(queue.run(reconciler.reconcile, settings.workers), name="work-queue")
            expiry = Expiry(store.expirations, actor.carry_out, namespaces.is_served, clock)
            group.create_task(expiry.run(), name="expiry")
            group.create_task(_measure(queue, store, bridges), name="gauges")
            await namespaces.tried.wait()
            self._health.stalled_seconds = queue.stalled_seconds

    @property
    def _scopes(self) -> tuple[str | None, ...]:
        return self._settings.watch_namespaces or (None,)

    def _namespaces(self, store: Store) -> Namespaces:
        settings, scopes = self._settings, self._scopes

        turns, definitions = asyncio.Semaphore(LISTS_AT_A_TIME), Definitions()
        lists = {
            scope: Resync(
                self._kube,
                store,
                scope,
                settings.sweep_seconds,
                settings.resync_seconds,
                turns,
                settings.request_ttl_seconds or None,
                settings.head_start_instances,
                definitions,
                self._warm,
            )
            for scope in scopes
        }

        async def watch(scope: str | None) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(kopf_watch.watch(store, scope, lambda: _stop_on_signals(self._stop)))
                for watched in watched_kinds(store):
                    list_objects = functools.partial(lists[scope].list_watched, watched.resource)
                    group.create_task(ObjectWatch(self._kube, watched, scope, list_objects).run())

        async def check(scope: str | None) -> None:
            await ChildCheck(self._kube, store, scope, len(scopes), settings.secret_check_seconds).run()

        return Namespaces(scopes, lists.__getitem__, watch, check, store.requeue_namespace)


def _report(failure: BaseException) -> None:
    """Log why the process ends: a line for what this package names, a traceback for a bug."""
    cause = first_leaf(failure)
    log.critical("the controller stops: %r", cause, exc_info=None if isinstance(cause, EfritError) else failure)


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _measure(queue: WorkQueue, store: Store, bridges: Bridges) -> None:
    while True:
        instances, requests = store.counts()
        metrics.INSTANCES.set(instances)
        metrics.OPEN_REQUESTS.set(requests)
        metrics.OPEN_PLANS.set(store.plans.count_open())
        metrics.BRIDGES.set(len(bridges))
        for content, size in store.held_bytes().items():
            metrics.HELD_BYTES.labels(content).set(size)
        for kind, count in store.records().items():
            metrics.RECORDS.labels(kind).set(count)
        LABELS.forget_all_but(store.pools.open_uids())
        metrics.WORK_QUEUE_DEPTH.labels("ready").set(queue.ready)
        metrics.WORK_QUEUE_DEPTH.labels("background").set(queue.background)
        metrics.WORK_QUEUE_DEPTH.labels("parked").set(bridges.parked)
        metrics.BRIDGES_UNRESPONSIVE.set(bridges.unresponsive)
        metrics.WORK_QUEUE_ACTIVE.set(queue.active)
        metrics.WORK_QUEUE_OLDEST_ACTIVE_SECONDS.set(queue.oldest_active_seconds())
        metrics.WORK_QUEUE_NAMESPACES.set(queue.lanes)
        await asyncio.sleep(GAUGE_SECONDS)


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _configure_logging(settings: Settings) -> None:
    handler = logging.StreamHandler()
    plain = OneLineFormatter(LAYOUT)
    handler.setFormatter(_JsonFormatter() if settings.log_format == "json" else plain)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("efrit").setLevel(settings.log_level.upper())
    kopf_watch.ReportedOnce.install()
