"""The result of a request as it is printed: the whole, or its beginning with a warning and an exit code of its own.

The result goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit.backend.errors import ClientError
from efrit.backend.interface import RequestReason, RequestState
from efrit.backend.whole_result import completed, is_partial
from efrit.cli.exit_codes import Exit, exit_of
from efrit.cli.output import unquoted, write
from efrit.cli.place import Invocation
from efrit.cli.streams import printable
from efrit.cli.terminal_text import sanitized_lines

__all__ = ["completed", "exit_of_printed", "is_partial", "print_result", "warn"]


def warn(error: ClientError, invocation: Invocation) -> None:
    """Say on standard error that only the beginning of a result was printed."""
    print(
        f"efrit: only the beginning of the result is printed: {printable(error.message, sys.stderr)}", file=sys.stderr
    )
    if error.advice:
        print(f"       {printable(invocation.in_text(error.advice), sys.stderr)}", file=sys.stderr)


def exit_of_printed(state: RequestState, error: ClientError | None) -> Exit:
    """Return the exit code of a request whose result was printed; `error` is what kept it from being whole."""
    code = exit_of(state)
    return Exit.TRUNCATED if code is Exit.DONE and error is not None else code


def print_result(state: RequestState, missing: ClientError | None, args: Namespace) -> Exit:
    """Print the result to standard output, everything else to standard error; return the exit code.

    `missing` is why `state` has only the beginning of its result, None where it has all.
    """
    if args.output:
        write(args.output, state)
        if args.output == "name":
            # JSON and YAML hold the error; a name alone does not.
            _print_failure(state)
    else:
        _print_for_people(state, args)
    if missing is not None:
        warn(missing, args.invocation)
    return exit_of_printed(state, missing)


def _print_for_people(state: RequestState, args: Namespace) -> None:
    result = state.result
    if state.output:
        sys.stderr.write(printable(state.output.removesuffix("\n"), sys.stderr) + "\n")
    # What failed before it had a result has an empty one, which is no line of anything.
    if result or (result is not None and state.reason is RequestReason.SUCCEEDED):
        print(printable(unquoted(result) if args.raw else result))
    if state.session is not None and state.session.question:
        print(sanitized_lines(state.session.question), file=sys.stderr)
        command = args.invocation.command(str(state.type or "command"), "-s", state.session.id or "")
        print(f"efrit: answer with `{command} …`", file=sys.stderr)
    _print_failure(state)


def _print_failure(state: RequestState) -> None:
    if state.reason is not RequestReason.SUCCEEDED:
        print(f"efrit: {state.handle.id} ended {state.reason}: {sanitized_lines(state.message)}", file=sys.stderr)
