"""One run of the program: reads the command line, opens the backend, runs one command, says what went wrong.

Whatever happens ends in an exit code and at most a line or two on standard error, never in a traceback.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import NoReturn

from efrit.backend.errors import ClientError
from efrit.backend.place import backend_of
from efrit.cli import blocking_eval, streams
from efrit.cli.color import error_prefix
from efrit.cli.commands import build
from efrit.cli.exit_codes import Exit, Terminated, exit_of_error
from efrit.cli.place import Invocation, place_of, print_resume_hint
from efrit.cli.terminal_text import sanitized_line
from efrit.entry_point import load_entry_point
from efrit.errors import EfritError

DEBUG_VARIABLE = "EFRIT_DEBUG"
"""Set to anything, it shows the traceback of an internal error."""
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Of a file without a name: of standard output, which a print or a flush could not write."""


def run(program: str, arguments: list[str], *, heeds_ctrl_c: bool = True) -> int:
    """Run the command that `arguments` name; return the exit code. Raises SystemExit for a wrong command line."""
    streams.prepare()
    if heeds_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        try:
            code = _guarded(program, arguments)
        finally:
            # Help and the version raise SystemExit.
            streams.flush()
    except BrokenPipeError:
        streams.discard_output()
        return Exit.DONE
    except OSError as error:
        streams.discard_output()
        print(f"efrit: cannot write: {error.strerror}", file=sys.stderr)
        print("       write it elsewhere: work that was done is in `efrit requests`", file=sys.stderr)
        return Exit.TRUNCATED
    finally:
        # What is left to do is Python's own, which would print a traceback.
        if heeds_ctrl_c:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def _guarded(program: str, arguments: list[str]) -> int:
    invocation, args = Invocation(program), Namespace()
    try:
        streams.check_arguments(arguments)
        if arguments[:1] == ["__complete"]:
            complete: Callable[[str, list[str]], int] = load_entry_point("efrit.cli.completion:run_complete")
            return complete(program, arguments[1:])
        args = build(program, arguments).parse_args(arguments)
        invocation = args.invocation = Invocation.of(program, args)
        return _command(args)
    except BrokenPipeError:
        raise
    except ClientError as error:
        return _print_error(error, invocation)
    except EfritError as error:
        return _failed(f"efrit: {error.message}")
    except KeyboardInterrupt as signalled:
        if submitted := getattr(args, "submitted", None):
            # Between two ways of waiting, neither of which could say it.
            print_resume_hint(submitted, invocation)
        return Exit.TERMINATED if isinstance(signalled, Terminated) else Exit.DETACHED
    except OSError as error:
        if error.filename is None and error.errno in _WRITE_ERRORS:
            raise
        location = f"{error.filename}: " if error.filename is not None else ""
        return _failed(f"efrit: {location}{error.strerror or error}")
    except Exception as error:  # noqa: BLE001 - a person is to see one line, and how to see more
        return _internal(error)


def _command(args: Namespace) -> int:
    code = _try_blocking_eval(args)
    if code is not None:
        return code
    run_in_loop: Callable[..., int] = load_entry_point("efrit.cli.event_loop:run_in_loop")
    run = load_entry_point(f"efrit.cli.{args.run}")
    # This may go on for hours; `app` has switched it off for the start.
    gc.enable()
    return run_in_loop(run, args, debug=bool(os.environ.get(DEBUG_VARIABLE)))


def _try_blocking_eval(args: Namespace) -> Exit | None:
    """Run an eval on this machine without importing an event loop: most evals finish before one is needed."""
    if args.run == "run:run_eval" and backend_of(place_of(args), os.environ) == "local":
        return blocking_eval.run_eval(place_of(args), args)
    return None


def _print_error(error: ClientError, invocation: Invocation) -> Exit:
    print(f"{error_prefix()} {streams.printable(error.message, sys.stderr)}", file=sys.stderr)
    if error.advice:
        print(f"       {streams.printable(invocation.in_text(error.advice), sys.stderr)}", file=sys.stderr)
    return exit_of_error(error)


def _failed(text: str) -> Exit:
    print(text, file=sys.stderr)
    return Exit.FAILED


def _internal(error: Exception) -> Exit:
    if os.environ.get(DEBUG_VARIABLE):
        # `traceback` prints the same, and every eval would import it.
        sys.__excepthook__(type(error), error, error.__traceback__)
    text = sanitized_line(str(error))[:300]
    print(f"efrit: internal error: {type(error).__name__}: {text}", file=sys.stderr)
    print(f"       this is a bug; {DEBUG_VARIABLE}=1 shows where", file=sys.stderr)
    return Exit.INTERNAL


def _terminated(*_: object) -> NoReturn:
    # A way out like Ctrl-C: terminals are put right, connections closed.
    raise Terminated
