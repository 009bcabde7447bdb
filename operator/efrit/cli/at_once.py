"""`eval` on this machine, for as long as an answer may come at once; what takes longer goes the usual way."""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.place import notice, say_it_goes_on
from efrit.cli.results import completed_now
from efrit.cli.run import print_result, work_of
from efrit.client.backends import Place
from efrit.client.interface import RequestType
from efrit.client.local.backend import AskedToStop, LocalBackend

_AT_ONCE_SECONDS = 0.6


def run_eval(place: Place, args: Namespace) -> Exit | None:
    """Run `efrit eval`; return None if it is not finished yet, and `args.begun` is to be waited for."""
    backend = LocalBackend.configured(place.config, lambda text: notice(args.invocation.in_text(text)))
    try:
        args.begun, state = backend.ask_now(work_of(RequestType.EVAL, args, args.form), _AT_ONCE_SECONDS)
    except AskedToStop as asked:
        if isinstance(asked.__cause__, Terminated):
            say_it_goes_on(asked.handle, args.invocation)
            return Exit.TERMINATED
        args.begun, args.left = asked.handle, Exit.LEFT
        return None
    if state is None:
        return None
    code = print_result(*completed_now(state, lambda: backend.result_now(state.handle)), args)
    sys.stdout.flush()
    backend.close_now()
    return code
