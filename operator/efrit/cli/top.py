"""`top`: instances, pools, queues and running work, drawn again and again until `q`, Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from efrit.backend.errors import Forbidden, NoCluster, NotReady
from efrit.backend.interface import Backend, Instance, InstanceStatus, Phase, RequestState
from efrit.backend.pools import Pool
from efrit.cli.color import color_enabled, painted_line
from efrit.cli.exit_codes import Exit
from efrit.cli.instances import instances_table
from efrit.cli.keys import pressed_keys
from efrit.cli.output import age_text, duration_text, shortened, table
from efrit.cli.pools import flows_table, pools_table
from efrit.cli.streams import is_terminal
from efrit.cli.terminal_text import cut

_ENTER, _LEAVE, _HOME, _CLEAR = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H", "\x1b[J"
_SHORTEST_DELAY, _LONGEST_DELAY = 0.1, 3600.0
MAX_PRINTED = 50
"""Requests that are printed where there is no screen."""
_KEYS = "q quit  space update  p pause  f finished work  up/down scroll  +/- delay"


@dataclass(frozen=True)
class View:
    """What the person has chosen to see. `delay` in seconds; `first` is the first row of requests shown."""

    delay: float
    paused: bool = False
    finished: bool = True
    first: int = 0
    over: bool = False


def after_key(view: View, key: str) -> View:
    """Return the view after a key was pressed; an unknown key changes nothing."""
    match key:
        case "q" | "Q" | "\x03" | "\x04":
            return replace(view, over=True)
        case "p":
            return replace(view, paused=not view.paused)
        case "f":
            return replace(view, finished=not view.finished, first=0)
        case "j" | "down":
            return replace(view, first=view.first + 1)
        case "k" | "up":
            return replace(view, first=max(0, view.first - 1))
        case "g":
            return replace(view, first=0)
        case "+":
            return replace(view, delay=min(_LONGEST_DELAY, view.delay * 2))
        case "-":
            return replace(view, delay=max(_SHORTEST_DELAY, view.delay / 2))
    return view


async def run_top(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit top`."""
    if args.once or not is_terminal(sys.stdout):
        instances, requests, pools = await _state(backend)
        most = len(requests) if args.all else MAX_PRINTED
        print(screen(backend.kind, backend.place, instances, requests, datetime.now(UTC), pools=pools, most=most))
        if len(requests) > most:
            print(
                f"efrit: only {most} of {len(requests)} requests are printed; "
                "--all prints all, efrit requests lists them",
                file=sys.stderr,
            )
        return Exit.DONE
    sys.stdout.write(_ENTER)
    try:
        async with pressed_keys(sys.stdin) as keys:
            await _draw(backend, View(args.delay), keys)
    except asyncio.CancelledError:
        return Exit.DONE
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
    return Exit.DONE


async def _state(backend: Backend) -> tuple[Sequence[Instance], Sequence[RequestState], Sequence[Pool]]:
    return await asyncio.gather(backend.instances(), backend.requests(), _pools(backend))


async def _pools(backend: Backend) -> Sequence[Pool]:
    if backend.kind != "cluster":
        return ()
    try:
        return await backend.pools()
    except Forbidden:
        # Who may see instances need not see pools.
        return ()


async def _draw(backend: Backend, view: View, keys: asyncio.Queue[str]) -> None:
    (instances, requests, pools), problem = await _state(backend), ""
    while not view.over:
        size = shutil.get_terminal_size()
        note = problem or ("paused" if view.paused else _KEYS)
        text = screen(
            backend.kind,
            backend.place,
            instances,
            requests,
            datetime.now(UTC),
            size,
            pools=pools,
            view=view,
            note=note,
            colored=color_enabled(sys.stdout),
        )
        sys.stdout.write(_HOME + text.replace("\n", "\x1b[K\n") + "\x1b[K" + _CLEAR)
        sys.stdout.flush()
        try:
            async with asyncio.timeout(view.delay):
                key = await keys.get()
        except TimeoutError:
            key = ""
        view = after_key(view, key)
        if key in ("", " ", "r") and not (view.paused and not key):
            try:
                (instances, requests, pools), problem = await _state(backend), ""
            except (NoCluster, NotReady) as error:
                # It may be back with the next update; what was seen last stays.
                problem = f"cannot update: {error.message}"


def screen(
    kind: str,
    place: str,
    instances: Sequence[Instance],
    requests: Sequence[RequestState],
    now: datetime,
    size: tuple[int, int] | None = None,
    *,
    pools: Sequence[Pool] = (),
    view: View | None = None,
    most: int | None = None,
    note: str = "",
    colored: bool = False,
) -> str:
    """Return one state as text, cut to `size` (columns, lines): pools and their flows between instances and requests.

    Of requests the running ones, then pending ones, then the latest; `most` of them.

    `note` is the last line of a screen.
    """
    active = sum(instance.status is InstanceStatus.ACTIVE for instance in instances)
    waiting = [state for state in requests if not state.final and state.phase is not Phase.RUNNING]
    running = [state for state in requests if state.phase is Phase.RUNNING]
    done = [state for state in requests if state.final] if view is None or view.finished else []
    title = (
        f"efrit top  {now.astimezone():%H:%M:%S}  {kind}: {place}\n"
        f"{active} of {len(instances)} instances active, {len(running)} running, {len(waiting)} waiting"
    )
    shown = [*running, *waiting, *reversed(done)]
    first = 0 if view is None else min(view.first, max(0, len(shown) - 1))
    rows = [_row(state, now) for state in shown[first:][:most]]
    head = ("NAME", "INSTANCE", "TYPE", "REASON", "TIME", "WHAT")
    tables = (
        instances_table(instances) if instances else "no instances",
        pools_table(pools, now) if pools else "",
        flows_table(pools),
        table(head, rows),
    )
    lines = [*title.split("\n"), *(line for text in tables if text for line in ("", *text.split("\n")))]
    if size is None:
        return "\n".join(lines)
    width, height = size
    body = lines[: max(0, height - (2 if note else 1))]
    whole = [cut(line, width, "") for line in [*body, *([note] if note else [])]]
    # Cut first: colours take no columns.
    return "\n".join(map(painted_line, whole) if colored else whole)


def _row(state: RequestState, now: datetime) -> tuple[object, ...]:
    if state.final:
        time = duration_text(state.execution_seconds)
    else:
        since = state.started or state.queued or state.created
        time = age_text((now - since).total_seconds()) if since else None
    message = state.progress.message if state.progress is not None and not state.final else None
    return state.handle.id, state.handle.instance, state.type, state.reason, time, shortened(message or state.content)
