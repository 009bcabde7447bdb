"""Instances: `instances`, `start`, `stop`, `attach`, `stats`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from efrit.backend.errors import NotReady, Refused
from efrit.backend.interface import Backend, Instance, Setup
from efrit.cli.color import color_enabled
from efrit.cli.exit_codes import Exit
from efrit.cli.output import age_text, duration_text, print_outcome, table, write
from efrit.cli.streams import is_terminal


async def run_instances(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit instances`."""
    instances = [await backend.instance(name) for name in args.name] if args.name else await backend.instances()
    if args.output:
        write(args.output, instances[0] if len(args.name) == 1 else list(instances))
    elif instances:
        print(instances_table(instances, colored=color_enabled(sys.stdout)))
    else:
        print(f"no instances in {backend.place}", file=sys.stderr)
    return Exit.DONE


def instances_table(instances: Iterable[Instance], *, colored: bool = False) -> str:
    """Return the instances as a table for people."""
    now = datetime.now(UTC)
    head = ("NAME", "STATUS", "REASON", "PENDING", "PROCESSING", "PROCESSED", "UPTIME", "LAST ACTIVITY", "EMACS")
    return table(
        head,
        [
            (
                instance.id,
                instance.status,
                instance.reason,
                instance.pending,
                instance.processing,
                instance.processed,
                age_text(instance.uptime_seconds),
                age_text((now - instance.last_activity).total_seconds()) + " ago" if instance.last_activity else None,
                instance.emacs_version,
            )
            for instance in instances
        ],
        colored=colored,
    )


async def run_start(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit start`."""
    setup = Setup(args.queue_dir, args.daemon_name, args.workspace_dir, args.image, args.init)
    return print_outcome(args, await backend.start(args.name, setup))


async def run_stop(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit stop`."""
    return print_outcome(args, await backend.stop(args.name, now=args.now))


async def run_restart(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit restart`."""
    await backend.stop(args.name)
    return print_outcome(args, await backend.start(args.name))


async def run_rm(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit rm`."""
    return print_outcome(args, await backend.remove(args.name, files=args.files))


async def run_attach(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit attach`: replace this process by the one that shows Emacs."""
    # emacsclient finds its terminal by standard output; `kubectl exec` reads from one, too.
    needed = (sys.stdout,) if backend.kind == "local" else (sys.stdin, sys.stdout)
    if not is_terminal(*needed):
        raise Refused(
            "attach needs a terminal: standard input or output is a file or a pipe",
            "run it at a terminal; for Lisp alone, efrit eval -i NAME needs none",
        )
    await backend.instance(args.name)
    command = list(backend.attach_command(args.name))
    await backend.close()
    try:
        os.execvp(command[0], command)  # noqa: S606 - it is to take this terminal over
    except OSError as error:
        raise NotReady(f"cannot run {command[0]}: {error.strerror}", f"install {command[0]}") from error


async def run_stats(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit stats`."""
    names = args.name or [instance.id for instance in await backend.instances()]
    figures = [await backend.stats(name) for name in names]
    if args.output:
        write(args.output, figures[0] if len(args.name) == 1 else figures)
        return Exit.DONE
    head = ("NAME", "PENDING", "PROCESSING", "PROCESSED", "SUCCEEDED", "FAILED", "INTERRUPTED", "AVERAGE", "UPTIME")
    print(
        table(
            head,
            [
                (
                    stats.instance,
                    stats.pending,
                    stats.processing,
                    stats.processed,
                    stats.succeeded,
                    stats.failed,
                    stats.interrupted,
                    duration_text(stats.average_processing_seconds),
                    age_text(stats.uptime_seconds),
                )
                for stats in figures
            ],
        )
    )
    return Exit.DONE
