"""`top`: instances, queues and running work, drawn again and again until Ctrl-C."""

from __future__ import annotations

import asyncio
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from efrit.cli.exits import Exit
from efrit.cli.instances import instances_table
from efrit.cli.output import ago, lasted, short, table
from efrit.client.interface import Backend, Instance, InstanceStatus, Phase, RequestState

_ENTER, _LEAVE, _HOME, _CLEAR = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[J"


async def run_top(backend: Backend, given: Namespace) -> Exit:
    """`efrit top`."""
    if given.once or not sys.stdout.isatty():
        print(await _look(backend, None))
        return Exit.DONE
    sys.stdout.write(_ENTER)
    try:
        while True:
            text = await _look(backend, shutil.get_terminal_size())
            sys.stdout.write(_HOME + text.replace("\n", "\x1b[K\n") + "\x1b[K" + _CLEAR)
            sys.stdout.flush()
            await asyncio.sleep(given.delay)
    except asyncio.CancelledError:
        return Exit.DONE
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


async def _look(backend: Backend, size: tuple[int, int] | None) -> str:
    instances, requests = await asyncio.gather(backend.instances(), backend.requests())
    return screen(backend.kind, backend.place, instances, requests, datetime.now(UTC), size)


def screen(
    kind: str,
    place: str,
    instances: Sequence[Instance],
    requests: Sequence[RequestState],
    now: datetime,
    size: tuple[int, int] | None = None,
) -> str:
    """One look as text, cut to `size` (columns, lines): what runs, then what waits, then the latest."""
    active = sum(each.status is InstanceStatus.ACTIVE for each in instances)
    waiting = [each for each in requests if not each.final and each.phase is not Phase.RUNNING]
    running = [each for each in requests if each.phase is Phase.RUNNING]
    done = [each for each in requests if each.final]
    title = (
        f"efrit top  {now.astimezone():%H:%M:%S}  {kind}: {place}\n"
        f"{active} of {len(instances)} instances active, {len(running)} running, {len(waiting)} waiting"
    )
    rows = [_row(each, now) for each in (*running, *waiting, *reversed(done))]
    head = ("NAME", "INSTANCE", "TYPE", "REASON", "TIME", "WHAT")
    lines = [*title.split("\n"), "", *instances_table(instances).split("\n"), "", *table(head, rows).split("\n")]
    if size is None:
        return "\n".join(lines)
    return "\n".join(line[: size[0]] for line in lines[: size[1] - 1])


def _row(state: RequestState, now: datetime) -> tuple[object, ...]:
    if state.final:
        time = lasted(state.execution_seconds)
    else:
        since = state.started or state.queued or state.created
        time = ago((now - since).total_seconds()) if since else None
    told = state.progress.message if state.progress is not None and not state.final else None
    return state.handle.id, state.handle.instance, state.type, state.reason, time, short(told or state.content)
