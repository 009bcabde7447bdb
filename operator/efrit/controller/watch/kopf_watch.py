"""Runs kopf over one namespace, or over the whole cluster, until it fails.

Each namespace has a kopf of its own: kopf ends all its watches when one of them fails, and the API server refuses the
watches of a namespace that is deleted or to which the rights were taken away. Says why it ended, and begins a new one
only where kopf cannot read the pause that a busy API server asks for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import kopf

from efrit.controller.retry import LONGEST_RETRY_AFTER_SECONDS
from efrit.controller.store.store import Store
from efrit.controller.watch import handlers
from efrit.errors import ApiForbidden, ApiNotFound, EfritError, WatchEnded
from efrit.kube.retry_after import retry_after_seconds

log = logging.getLogger(__name__)

FAILING_LOGGERS = (
    "kopf._cogs.clients.watching",
    "kopf._core.reactor.observation",
    "kopf._core.reactor.orchestration",
    "kopf._core.reactor.running",
)
"""Where kopf logs attempts that failed, and a traceback for each task that a failure passes through."""


FIRST_PAUSE_SECONDS = 1.0
"""Where the API server is busy and asks for no pause that makes sense."""
WATCHER_PREFIX = "watcher for "
"""Of the names of the tasks in which kopf watches a kind; after an @ they end with the namespace."""


async def watch(
    store: Store,
    namespace: str | None,
    spawned: Callable[[], None],
    settings: Callable[[], kopf.OperatorSettings] = handlers.settings,
) -> NoReturn:
    """Hand every event of a namespace, of the whole cluster with None, to the store until cancelled.

    `spawned` is called whenever kopf has taken SIGTERM and SIGINT for itself. Raises ApiForbidden or ApiNotFound if
    the API server refuses a watch, WatchEnded if a watch ends for another reason.
    """
    while True:
        cause = await _run_kopf(store, namespace, spawned, settings)
        pause = requested_pause(cause)
        if pause is None:  # gate: busy-api-server
            raise failure(namespace, cause)
        log.warning("the API server is busy: %s is watched again in %.1f s", _scope(namespace), pause)
        await asyncio.sleep(pause)


async def _run_kopf(
    store: Store,
    namespace: str | None,
    spawned: Callable[[], None],
    settings: Callable[[], kopf.OperatorSettings],
) -> BaseException | None:
    """Run kopf until one of its tasks ends, and return what ended it."""
    tasks = await kopf.spawn_tasks(
        registry=handlers.registry(store),
        settings=settings(),
        clusterwide=namespace is None,
        namespaces=() if namespace is None else (namespace,),
        standalone=True,
    )
    spawned()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Not kopf.run_tasks: it also ends every task it does not know, and those are ours.
        for task in tasks:
            task.cancel()
        # Also reads what each of them failed with: asyncio would log that with a traceback of its own.
        await asyncio.gather(*tasks, return_exceptions=True)
        await _end_watchers(namespace)
    return first_cause(cause for task in done if not task.cancelled() and (cause := task.exception()) is not None)


def first_cause(causes: Iterable[BaseException]) -> BaseException | None:
    """Return the cause to report where several tasks failed at once: ours before others, then by text."""
    return min(causes, key=lambda cause: (not isinstance(cause, EfritError), repr(cause)), default=None)


def requested_pause(cause: BaseException | None) -> float | None:
    """Return the seconds to wait where the API server is busy and kopf could not read for how long; None elsewhere.

    kopf takes Retry-After for a number, and fails at a date, which HTTP also allows, while it handles the refusal.
    """
    refusal = cause.__context__ if isinstance(cause, ValueError | OverflowError) else None
    if getattr(refusal, "status", None) != 429:
        return None
    headers: Mapping[str, str] = getattr(refusal, "headers", None) or {}
    seconds = retry_after_seconds(headers.get("Retry-After"), headers.get("Date"))
    return min(seconds or FIRST_PAUSE_SECONDS, LONGEST_RETRY_AFTER_SECONDS)


async def _end_watchers(namespace: str | None) -> None:
    """End the watches that kopf leaves behind when one of them fails, beside which the next kopf begins its own."""
    suffix = f"@{namespace}"
    remaining = [
        task
        for task in asyncio.all_tasks()
        if task.get_name().startswith(WATCHER_PREFIX) and task.get_name().endswith(suffix)
    ]
    for task in remaining:
        task.cancel()
    await asyncio.gather(*remaining, return_exceptions=True)


def failure(namespace: str | None, cause: BaseException | None) -> EfritError:
    """Return the error that the end of kopf stands for."""
    text = f"a watch of {_scope(namespace)} ended: {cause!r}"
    status = getattr(cause, "status", None)
    if status == 403:
        return ApiForbidden(text)
    if status == 404:
        return ApiNotFound(text)
    return WatchEnded(text)


def _scope(namespace: str | None) -> str:
    return "the cluster" if namespace is None else f"namespace {namespace}"


class ReportedOnce(logging.Filter):
    """Drops what kopf logs of a failure that is reported where `watch` ends: tracebacks, and refused attempts."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be logged."""
        message = record.getMessage()
        refused = "APIForbiddenError(" in message or "APINotFoundError(" in message
        return not record.exc_info and not refused

    @classmethod
    def install(cls) -> None:
        """Put the filter before kopf's loggers."""
        for name in FAILING_LOGGERS:
            logging.getLogger(name).addFilter(cls())
