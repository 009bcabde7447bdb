"""Instances: `instances`, `start`, `stop`, `attach`, `stats`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from efrit.cli.color import wanted
from efrit.cli.exit_codes import Exit
from efrit.cli.output import ago, lasted, table, write
from efrit.client.errors import NotReady
from efrit.client.interface import Backend, Instance, Removed, Setup, Started, Stopped


async def run_instances(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit instances`."""
    found = [await backend.instance(name) for name in given.name] if given.name else await backend.instances()
    if given.output:
        write(given.output, found[0] if len(given.name) == 1 else list(found))
    elif found:
        print(instances_table(found, colored=wanted(sys.stdout)))
    else:
        print(f"no instances in {backend.place}", file=sys.stderr)
    return Exit.DONE


def instances_table(found: Iterable[Instance], *, colored: bool = False) -> str:
    """Return the instances as a table for people."""
    now = datetime.now(UTC)
    head = ("NAME", "STATUS", "REASON", "PENDING", "PROCESSING", "PROCESSED", "UPTIME", "LAST ACTIVITY", "EMACS")
    return table(
        head,
        [
            (
                each.id,
                each.status,
                each.reason,
                each.pending,
                each.processing,
                each.processed,
                ago(each.uptime_seconds),
                ago((now - each.last_activity).total_seconds()) + " ago" if each.last_activity else None,
                each.emacs_version,
            )
            for each in found
        ],
        colored=colored,
    )


async def run_start(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit start`."""
    setup = Setup(given.queue_dir, given.daemon_name, given.workspace_dir, given.image, given.init)
    return _tell(given, await backend.start(given.name, setup))


async def run_stop(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit stop`."""
    return _tell(given, await backend.stop(given.name, now=given.now))


async def run_restart(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit restart`."""
    await backend.stop(given.name)
    return _tell(given, await backend.start(given.name))


async def run_rm(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit rm`."""
    return _tell(given, await backend.remove(given.name, files=given.files))


def _tell(given: Namespace, done: Started | Stopped | Removed) -> Exit:
    if given.output in ("json", "yaml"):
        write(given.output, done)
    else:
        print(given.name if given.output else done.message)
    return Exit.DONE


async def run_attach(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit attach`: replace this process by the one that shows Emacs."""
    await backend.instance(given.name)
    command = list(backend.attach_command(given.name))
    await backend.close()
    try:
        os.execvp(command[0], command)  # noqa: S606 - it is to take this terminal over
    except OSError as error:
        raise NotReady(f"cannot run {command[0]}: {error.strerror}", f"install {command[0]}") from error


async def run_stats(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit stats`."""
    names = given.name or [each.id for each in await backend.instances()]
    found = [await backend.stats(name) for name in names]
    if given.output:
        write(given.output, found[0] if len(given.name) == 1 else found)
        return Exit.DONE
    head = ("NAME", "PENDING", "PROCESSING", "PROCESSED", "SUCCEEDED", "FAILED", "INTERRUPTED", "AVERAGE", "UPTIME")
    print(
        table(
            head,
            [
                (
                    each.instance,
                    each.pending,
                    each.processing,
                    each.processed,
                    each.succeeded,
                    each.failed,
                    each.interrupted,
                    lasted(each.average_processing_seconds),
                    ago(each.uptime_seconds),
                )
                for each in found
            ],
        )
    )
    return Exit.DONE
