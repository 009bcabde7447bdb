"""`eval` and `command`: hand work over, wait, print the result. What the model asks is answered in place."""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit.backend.interface import Backend, RequestReason, RequestState, RequestType, Work
from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.results import completed, print_result
from efrit.cli.streams import is_terminal, typed_line
from efrit.cli.terminal_text import sanitized_lines
from efrit.cli.wait import Detached, display_for, hand_over, wait
from efrit.cli.work import work_of


async def run_eval(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit eval`."""
    submitted = getattr(args, "submitted", None)
    if submitted is None:
        return await run_work(backend, args, work_of(RequestType.EVAL, args, args.form))
    try:
        state = await wait(
            backend, submitted, display_for(args), earlier_signal=lambda: getattr(args, "signal_exit", None)
        )
    except Detached as reason:
        return reason.code
    if state is None:
        return Exit.FAILED
    return await print_final_state(backend, state, args)


async def run_command(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit command`."""
    return await run_work(backend, args, work_of(RequestType.COMMAND, args, args.text))


async def run_work(backend: Backend, args: Namespace, work: Work) -> Exit:
    """Run one piece of work to its end, and ask the user the questions it has."""
    while True:
        try:
            state = await _final_state(backend, work, args)
        except Detached as reason:
            return reason.code
        if state is None:
            return Exit.FAILED
        answer = _answer(state, args)
        if answer is None:
            return await print_final_state(backend, state, args)
        session = state.session.id if state.session is not None else None
        work = Work(work.type, answer, instance=state.handle.instance, session=session, timeout=work.timeout)


async def _final_state(backend: Backend, work: Work, args: Namespace) -> RequestState | None:
    """Hand work over, and return its state at its end or question; None once it is gone. Raises `Detached`."""
    handle, exit_code = await hand_over(backend, work)
    return await wait(backend, handle, display_for(args), earlier_signal=lambda: exit_code)


def _answer(state: RequestState, args: Namespace) -> str | None:
    """Return the user's answer to the question; None without a question, a terminal or an answer, or at Ctrl-C."""
    if state.reason is not RequestReason.INPUT_REQUIRED or state.session is None or args.no_input or args.output:
        return None
    if not is_terminal(sys.stdin, sys.stderr):
        return None
    print(sanitized_lines(state.session.question or ""), end="\n> ", file=sys.stderr, flush=True)
    try:
        return typed_line() or None
    except Terminated:
        raise
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return None


async def print_final_state(backend: Backend, state: RequestState, args: Namespace) -> Exit:
    """Print the end of a request, with its whole result; return the exit code."""
    state, missing = (state, None) if args.output == "name" else await completed(backend, state)
    return print_result(state, missing, args)
