"""The result of a request as it is printed: the whole, or its beginning with a warning and an exit code of its own.

Asks the backend for what a state leaves out; prints only the warning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec.structs import replace

from efrit.cli.exit_codes import Exit, exit_of
from efrit.cli.streams import shown
from efrit.client.errors import ClientError
from efrit.client.interface import RequestState
from efrit.client.whole_result import completed, is_partial, with_beginning

__all__ = ["completed", "completed_blocking", "exit_of_printed", "is_partial", "warn"]


def completed_blocking(state: RequestState, fetch: Callable[[], str]) -> tuple[RequestState, ClientError | None]:
    """Do what `completed` does, without an event loop: `fetch` returns the whole result."""
    if not is_partial(state):
        return state, None
    try:
        result = fetch()
    except ClientError as error:
        return with_beginning(state, error), error
    return replace(state, result=result, truncated=False), None


def warn(error: ClientError) -> None:
    """Say on standard error that only the beginning of a result was printed."""
    print(f"efrit: only the beginning of the result is printed: {shown(error.message, sys.stderr)}", file=sys.stderr)
    if error.advice:
        print(f"       {shown(error.advice, sys.stderr)}", file=sys.stderr)


def exit_of_printed(state: RequestState, error: ClientError | None) -> Exit:
    """Return the exit code of a request whose result was printed; `error` is what kept it from being whole."""
    code = exit_of(state)
    return Exit.TRUNCATED if code is Exit.DONE and error is not None else code
