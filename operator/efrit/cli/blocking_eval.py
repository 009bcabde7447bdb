"""`eval` on this machine without an event loop, for as long as a quick eval takes; then `run` goes on."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace

from efrit.backend.interface import RequestType
from efrit.backend.local.queues import LocalQueues, WaitInterrupted
from efrit.backend.place import Place
from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.place import notice, print_resume_hint
from efrit.cli.results import is_partial, print_result
from efrit.cli.work import work_of

_BLOCKING_SECONDS = 0.6


def run_eval(place: Place, args: Namespace) -> Exit | None:
    """Run `efrit eval`; return None where `args.submitted` is to be waited for, or its long result to be read."""
    queues = LocalQueues.configured(place.config, lambda text: notice(args.invocation.in_text(text)))
    try:
        args.submitted, state = queues.run(work_of(RequestType.EVAL, args, args.form), _BLOCKING_SECONDS)
    except WaitInterrupted as interrupted:
        if isinstance(interrupted.__cause__, Terminated):
            print_resume_hint(interrupted.handle, args.invocation)
            return Exit.TERMINATED
        _remember_ctrl_c(args)
        args.submitted, args.signal_exit = interrupted.handle, Exit.DETACHED
        return None
    if state is None or is_partial(state):
        _remember_ctrl_c(args)
        return None
    exit_code = print_result(state, None, args)
    sys.stdout.flush()
    queues.close()
    return exit_code


def _remember_ctrl_c(args: Namespace) -> None:
    """Have Ctrl-C set `args.signal_exit` until `wait` takes signals itself, and asks about it.

    Where this process ignores Ctrl-C, it still does.
    """

    def remember(*_: object) -> None:
        args.signal_exit = Exit.DETACHED

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, remember)
