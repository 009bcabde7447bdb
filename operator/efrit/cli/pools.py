"""Pools: `pools`, `scale`. Only a cluster has them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from efrit.backend.errors import Forbidden
from efrit.backend.interface import Backend, Instance
from efrit.backend.pools import Pool
from efrit.cli.color import color_enabled
from efrit.cli.exit_codes import Exit
from efrit.cli.instances import instances_table
from efrit.cli.output import age_text, print_outcome, table, write
from efrit.cli.terminal_text import sanitized_line


async def run_pools(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit pools`: a table of all, or all about those that are named."""
    pools = [await backend.pool(name) for name in args.name] if args.name else list(await backend.pools())
    if args.output:
        write(args.output, pools[0] if len(args.name) == 1 else pools)
    elif args.name:
        instances = await _instances(backend)
        now = datetime.now(UTC)
        texts = [pool_text(pool, instances, now, colored=color_enabled(sys.stdout)) for pool in pools]
        print(args.invocation.in_text("\n\n".join(texts)))
    elif pools:
        print(pools_table(pools, datetime.now(UTC), colored=color_enabled(sys.stdout)))
    else:
        print(f"no pools in {backend.place}", file=sys.stderr)
    return Exit.DONE


async def _instances(backend: Backend) -> Sequence[Instance] | None:
    try:
        return await backend.instances()
    except Forbidden:
        # Who may see pools need not see instances.
        return None


async def run_scale(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit scale`."""
    return print_outcome(args, await backend.scale_pool(args.name, args.replicas))


def pools_table(pools: Iterable[Pool], now: datetime, *, colored: bool = False) -> str:
    """Return the pools as a table for people."""
    head = ("NAME", "WANTED", "MEMBERS", "READY", "BUSY", "IDLE", "DRAINING", "ASLEEP", "PENDING", "AGE")
    return table(
        head,
        [
            (
                pool.name,
                pool.desired,
                pool.members,
                pool.ready,
                pool.busy,
                pool.idle,
                pool.draining,
                pool.suspended,
                pool.pending,
                age_text((now - pool.created).total_seconds() if pool.created else None),
            )
            for pool in pools
        ],
        colored=colored,
    )


def flows_table(pools: Iterable[Pool]) -> str:
    """Return the busiest flows of the pools as a table for people; empty where there is none."""
    rows = [(pool.name, flow.name, flow.running, flow.pending) for pool in pools for flow in pool.flows]
    return table(("POOL", "FLOW", "RUNNING", "PENDING"), rows) if rows else ""


def pool_text(pool: Pool, instances: Sequence[Instance] | None, now: datetime, *, colored: bool = False) -> str:
    """Return all about one pool: counts, conditions, flows and members, which None leaves out."""
    parts = [pools_table([pool], now, colored=colored)]
    if (scale := pool.last_scale) is not None:
        ago = f", {age_text((now - scale.time).total_seconds())} ago" if scale.time else ""
        parts.append(sanitized_line(f"last scaled from {scale.before} to {scale.after}{ago}: {scale.reason}"))
    if pool.conditions:
        rows = [(entry.type, entry.status, entry.reason, entry.message) for entry in pool.conditions]
        parts.append(table(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows))
    if flows := flows_table([pool]):
        parts.append(flows)
    if instances is not None:
        members = [instance for instance in instances if instance.pool == pool.name]
        parts.append(instances_table(members, colored=colored) if members else "no members")
    return "\n\n".join(parts)
