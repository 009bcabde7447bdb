"""Templates of pools: `rollout history`, `rollout undo`. Only a cluster has them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from efrit.backend.errors import NotFound
from efrit.backend.interface import Backend
from efrit.backend.pools import PoolRevision
from efrit.cli.exit_codes import Exit
from efrit.cli.output import age_text, print_outcome, table, write


async def run_history(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit rollout history`: a table of all, or the template of one."""
    revisions = list(await backend.pool_history(args.name))
    if args.revision is not None:
        revision = _numbered(args.name, revisions, args.revision)
        write(args.output if args.output == "json" else "yaml", revision)
    elif args.output == "name":
        for revision in revisions:
            print(revision.number)
    elif args.output:
        write(args.output, revisions)
    elif revisions:
        print(history_table(revisions, datetime.now(UTC)))
    else:
        print(f"no templates of {args.name} are kept", file=sys.stderr)
    return Exit.DONE


def _numbered(pool: str, revisions: Iterable[PoolRevision], number: int) -> PoolRevision:
    for revision in revisions:
        if revision.number == number:
            return revision
    raise NotFound(f"{pool} has no revision {number}", f"see `efrit rollout history {pool}`")


async def run_undo(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit rollout undo`."""
    return print_outcome(args, await backend.undo_pool(args.name, args.to_revision))


def history_table(revisions: Iterable[PoolRevision], now: datetime) -> str:
    """Return the templates as a table for people, the oldest first."""
    rows = [
        (
            revision.number,
            revision.digest,
            "yes" if revision.current else "no",
            revision.members,
            age_text((now - revision.created).total_seconds() if revision.created else None),
        )
        for revision in revisions
    ]
    return table(("REVISION", "TEMPLATE", "CURRENT", "MEMBERS", "AGE"), rows)
