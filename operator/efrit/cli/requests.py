"""Requests one by one: `submit`, `wait`, `cancel`, `logs`, `result`, `requests`."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime

from efrit.backend.errors import ResultTruncated
from efrit.backend.interface import MAX_LISTED, Backend, Handle, RequestState, RequestType
from efrit.cli.color import color_enabled
from efrit.cli.each_name import change_each
from efrit.cli.exit_codes import Exit, combined_exit
from efrit.cli.output import age_text, duration_text, shortened, table, unquoted, write
from efrit.cli.results import completed, exit_of_printed, warn
from efrit.cli.run import print_final_state
from efrit.cli.streams import printable
from efrit.cli.wait import Detached, display_for, wait
from efrit.cli.work import work_of


async def run_submit(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit submit`."""
    handle = await backend.submit(work_of(RequestType(args.type), args, args.text))
    if args.output in ("json", "yaml"):
        write(args.output, await backend.get(handle))
    else:
        print(handle.id)
    return Exit.DONE


async def run_wait(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit wait`: wait for one request after another until all of them are finished."""
    limit = None if args.at_most is None else time.monotonic() + args.at_most
    states: list[RequestState] = []
    exits: list[Exit] = []
    for name in args.name:
        remaining = None if limit is None else max(0.0, limit - time.monotonic())
        try:
            state = await wait(backend, Handle(name), display_for(args), remaining)
        except Detached as reason:
            return reason.code
        if state is None:
            open_names = args.name[args.name.index(name) :]
            command = args.invocation.command("wait", *open_names)
            print(
                f"efrit: {name} has not finished after {duration_text(args.at_most)}; go on with `{command}`",
                file=sys.stderr,
            )
            return Exit.NOT_READY
        if args.output:
            state, code = await _completed(backend, state, args)
            states.append(state)
            exits.append(code)
        else:
            exits.append(await print_final_state(backend, state, args))
    if args.output:
        write(args.output, states if len(states) > 1 else states[0])
    return combined_exit(exits)


async def _completed(backend: Backend, state: RequestState, args: Namespace) -> tuple[RequestState, Exit]:
    state, missing = await completed(backend, state)
    if missing is not None:
        warn(missing, args.invocation)
    return state, exit_of_printed(state, missing)


async def run_cancel(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit cancel`."""
    return await change_each(args, lambda name: backend.cancel(Handle(name)), _cancelled_text)


def _cancelled_text(state: RequestState) -> str:
    return f"{state.handle.id}: {state.reason if state.final else 'cancel requested'}"


async def run_logs(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit logs`."""
    printed = False
    async for line in backend.log(Handle(args.name), follow=args.follow):
        print(printable(line), flush=args.follow)
        printed = True
    if not printed:
        state = await backend.get(Handle(args.name))
        command = args.invocation.command("logs", "--follow", args.name)
        hint = "" if state.final else f"; wait for it with `{command}`"
        print(f"efrit: {args.name} is {state.reason} and has no log{' yet' if hint else ''}{hint}", file=sys.stderr)
    return Exit.DONE


async def run_result(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit result`."""
    try:
        result, missing = await backend.result(Handle(args.name)), None
    except ResultTruncated as error:
        result, missing = error.kept, error
    print(printable(unquoted(result) if args.raw else result))
    if missing is not None:
        warn(missing, args.invocation)
        return Exit.TRUNCATED
    return Exit.DONE


TABLE_ROWS = 30
"""Requests a table lists where no limit is given."""


async def _newest_requests(backend: Backend, args: Namespace) -> tuple[list[RequestState], int]:
    """Return the newest requests, newest first, and how many older ones the limit leaves out."""
    limit = (0 if args.output else TABLE_ROWS) if args.limit is None else args.limit
    limit = limit or MAX_LISTED
    states = list(reversed(await backend.requests(args.instance, limit=limit + 1)))
    return states[:limit], max(0, len(states) - limit)


async def run_requests(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit requests`: print a table, or all details of the named requests."""
    older = 0
    if args.name:
        states = list(await asyncio.gather(*(backend.get(Handle(name, args.instance)) for name in args.name)))
    else:
        states, older = await _newest_requests(backend, args)
    incomplete = False
    if args.output in ("json", "yaml") and args.name:
        printed = [await _completed(backend, state, args) for state in states]
        states = [state for state, _ in printed]
        incomplete = any(state.truncated for state in states)
    if args.output:
        write(args.output, states[0] if len(args.name) == 1 else states)
    elif states:
        print(requests_table(states, colored=color_enabled(sys.stdout)))
    else:
        print(f"no requests in {backend.place}", file=sys.stderr)
    if older and not args.limit:
        hint = "--limit N lists more" if len(states) >= MAX_LISTED else "--limit 0 lists all"
        print(f"efrit: only the newest {len(states)} requests are listed; {hint}", file=sys.stderr)
    return Exit.TRUNCATED if incomplete else Exit.DONE


def requests_table(states: list[RequestState], *, colored: bool = False) -> str:
    """Return the requests as a table for people."""
    now = datetime.now(UTC)
    head = ("NAME", "INSTANCE", "TYPE", "PHASE", "REASON", "DURATION", "AGE", "CONTENT")
    return table(
        head,
        [
            (
                state.handle.id,
                state.handle.instance,
                state.type,
                state.phase,
                state.reason,
                duration_text(state.execution_seconds),
                age_text((now - state.created).total_seconds() if state.created else None),
                shortened(state.content, 40),
            )
            for state in states
        ],
        colored=colored,
    )
