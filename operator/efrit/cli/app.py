"""Where the program begins: reads the command line, opens the backend, runs one command, says what went wrong."""

from __future__ import annotations

import importlib
import os
import sys
from argparse import Namespace
from typing import Any, cast

from efrit.cli.arguments import build
from efrit.cli.exits import Exit, exit_of_error
from efrit.cli.place import notice, place_of
from efrit.client.backends import BACKEND_VARIABLE, backend_of, open_backend
from efrit.client.errors import ClientError


def main() -> None:
    """`efrit`: this machine, unless a cluster is named."""
    sys.exit(_main("efrit", sys.argv[1:]))


def plugin() -> None:
    """`kubectl efrit`: the cluster, unless this machine is named."""
    os.environ.setdefault(BACKEND_VARIABLE, "cluster")
    sys.exit(_main("kubectl efrit", sys.argv[1:]))


def _main(program: str, arguments: list[str]) -> int:
    given = build(program, arguments).parse_args(arguments)
    module, _, function = given.run.partition(":")
    run = getattr(importlib.import_module(f"efrit.cli.{module}"), function)
    try:
        found = _at_once(given)
        if found is None:
            found = _run(run, given)
    except ClientError as error:
        return _say(error)
    except KeyboardInterrupt:
        return Exit.LEFT
    except BrokenPipeError:
        # Whoever read has read enough; Python would complain when it flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    return int(found)


def _at_once(given: Namespace) -> Exit | None:
    """An eval on this machine is mostly over before an event loop is imported: it is tried without one."""
    if given.run == "asking:run_eval" and backend_of(place_of(given), os.environ) == "local":
        from efrit.cli.at_once import run_eval

        return run_eval(place_of(given), given)
    return None


def _run(run: Any, given: Namespace) -> Exit:
    import asyncio

    if not asyncio.iscoroutinefunction(run):
        # What needs no backend is an ordinary function.
        return cast("Exit", run(given))
    return asyncio.run(_with_backend(run, given))


async def _with_backend(run: Any, given: Namespace) -> Exit:
    backend = await open_backend(place_of(given), notice)
    try:
        found: Exit = await run(backend, given)
        # Only what was really handed over may be archived.
        sys.stdout.flush()
    except BaseException:
        await backend.close(handed_over=False)
        raise
    await backend.close()
    return found


def _say(error: ClientError) -> Exit:
    print(f"efrit: {error.message}", file=sys.stderr)
    if error.advice:
        print(f"       {error.advice}", file=sys.stderr)
    return exit_of_error(error)
