"""Runs kopf over one namespace, or over the whole cluster, until it fails.

Each namespace has a kopf of its own: kopf ends all its watches when one of them fails, and the API server refuses the
watches of a namespace that is deleted or to which the rights were taken away. Says why it ended, and nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

import kopf

from efrit.controller.watch import handlers
from efrit.controller.watch.store import Store
from efrit.errors import ApiForbidden, ApiNotFound, EfritError, WatchEnded

FAILING_LOGGERS = (
    "kopf._cogs.clients.watching",
    "kopf._core.reactor.observation",
    "kopf._core.reactor.orchestration",
    "kopf._core.reactor.running",
)
"""Where kopf logs attempts that failed, and a traceback for each task that a failure passes through."""


WATCHER_PREFIX = "watcher for "
"""Of the names of the tasks in which kopf watches a kind; after an @ they end with the namespace."""


async def watch(
    store: Store,
    namespace: str | None,
    spawned: Callable[[], None],
    settings: Callable[[], kopf.OperatorSettings] = handlers.settings,
) -> NoReturn:
    """Hand every event of a namespace, of the whole cluster with None, to the store until cancelled.

    `spawned` is called once kopf has taken SIGTERM and SIGINT for itself. Raises ApiForbidden or ApiNotFound where
    the API server refuses a watch, WatchEnded where a watch ends for another reason.
    """
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
    causes = [cause for task in done if not task.cancelled() and (cause := task.exception()) is not None]
    raise failure(namespace, causes[0] if causes else None)


async def _end_watchers(namespace: str | None) -> None:
    """End the watches that kopf leaves behind when one of them fails, beside which the next kopf begins its own."""
    suffix = f"@{namespace}"
    left = [
        task
        for task in asyncio.all_tasks()
        if task.get_name().startswith(WATCHER_PREFIX) and task.get_name().endswith(suffix)
    ]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def failure(namespace: str | None, cause: BaseException | None) -> EfritError:
    """Return the error that the end of kopf stands for."""
    where = "the cluster" if namespace is None else f"namespace {namespace}"
    text = f"a watch of {where} ended: {cause!r}"
    status = getattr(cause, "status", None)
    if status == 403:
        return ApiForbidden(text)
    if status == 404:
        return ApiNotFound(text)
    return WatchEnded(text)


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
