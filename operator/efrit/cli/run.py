"""`eval` and `command`: hand work over, wait, print the result. What the model asks is answered in place.

What waits is imported only when there is something to wait for: it brings an event loop along.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.output import unquoted, write
from efrit.cli.place import place_of
from efrit.cli.results import completed, exit_of_printed, warn
from efrit.cli.streams import is_terminal, read_text, shown, typed_line
from efrit.cli.terminal_text import harmless_lines
from efrit.client.backends import backend_of
from efrit.client.errors import ClientError, WrongSettings
from efrit.client.interface import Backend, Budget, Reason, RequestState, RequestType, Work


async def run_eval(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit eval`."""
    submitted = getattr(args, "submitted", None)
    if submitted is None:
        return await ask(backend, args, work_of(RequestType.EVAL, args, args.form))
    from efrit.cli.wait import Left, show_for, wait

    try:
        state = await wait(backend, submitted, show_for(args), left=getattr(args, "left", None))
    except Left as reason:
        return reason.code
    if state is None:
        return Exit.FAILED
    return await tell(backend, state, args)


async def run_command(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit command`."""
    return await ask(backend, args, work_of(RequestType.COMMAND, args, args.text))


async def ask(backend: Backend, args: Namespace, work: Work) -> Exit:
    """Run one piece of work to its end, and ask the user the questions it has."""
    from efrit.cli.wait import Left, hand_over, show_for, wait

    while True:
        handle, left = await hand_over(backend, work)
        try:
            state = await wait(backend, handle, show_for(args), left=left)
        except Left as reason:
            return reason.code
        if state is None:
            return Exit.FAILED
        answer = _answer(state, args)
        if answer is None:
            return await tell(backend, state, args)
        session = state.session.id if state.session is not None else None
        work = Work(work.type, answer, instance=state.handle.instance, session=session, timeout=work.timeout)


def _answer(state: RequestState, args: Namespace) -> str | None:
    """Return the user's answer to the question; None without a question, a terminal or an answer, or at Ctrl-C."""
    if state.reason is not Reason.INPUT_REQUIRED or state.session is None or args.no_input or args.output:
        return None
    if not is_terminal(sys.stdin, sys.stderr):
        return None
    print(harmless_lines(state.session.question or ""), end="\n> ", file=sys.stderr, flush=True)
    try:
        return typed_line() or None
    except Terminated:
        raise
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return None


async def tell(backend: Backend, state: RequestState, args: Namespace) -> Exit:
    """Print the end of a request, with its whole result; return the exit code."""
    state, missing = (state, None) if args.output == "name" else await completed(backend, state)
    return print_result(state, missing, args)


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
        warn(missing)
    return exit_of_printed(state, missing)


def _print_for_people(state: RequestState, args: Namespace) -> None:
    result = state.result
    if state.output:
        sys.stderr.write(shown(state.output.removesuffix("\n"), sys.stderr) + "\n")
    if result is not None:
        print(shown(unquoted(result) if args.raw else result))
    if state.session is not None and state.session.question:
        print(harmless_lines(state.session.question), file=sys.stderr)
        again = args.invocation.command(str(state.type or "command"), "-s", state.session.id or "")
        print(f"efrit: answer with `{again} …`", file=sys.stderr)
    _print_failure(state)


def _print_failure(state: RequestState) -> None:
    if state.reason is not Reason.SUCCEEDED:
        print(f"efrit: {state.handle.id} ended {state.reason}: {harmless_lines(state.message)}", file=sys.stderr)


def work_of(kind: RequestType, args: Namespace, words: list[str]) -> Work:
    """Return the work that the command line describes. Raises `WrongSettings`."""
    budget = None
    if any(getattr(args, name, None) for name in ("max_tool_calls", "max_iterations", "max_tokens")):
        budget = Budget(args.max_tool_calls, args.max_iterations, args.max_tokens)
    return Work(
        kind,
        _content(args, words),
        instance=args.instance,
        pool=args.pool,
        selector=_labels(args.selector),
        timeout=args.timeout,
        queue_timeout=args.queue_timeout,
        return_context=args.return_context,
        budget=budget,
        session=getattr(args, "session", None),
        priority=args.priority,
        retry=args.retry,
        key=args.key,
        directory=directory_of(args),
    )


def directory_of(args: Namespace) -> str | None:
    """Return the directory work begins in: the one named, or on this machine the one this program runs in."""
    if args.dir is None and backend_of(place_of(args), os.environ) == "cluster":
        return None
    try:
        return os.path.abspath(os.path.expanduser(args.dir or "."))  # noqa: PTH100, PTH111 - pathlib keeps `..`
    except FileNotFoundError as error:
        raise WrongSettings("the current directory no longer exists", "change to another one") from error


def _content(args: Namespace, words: list[str]) -> str:
    if args.file is not None and words:
        raise WrongSettings("both a file and a text are given", "leave one of them out")
    if args.file is not None:
        return read_text(args.file)
    if words == ["-"] or (not words and not is_terminal(sys.stdin)):
        return read_text()
    if not words:
        raise WrongSettings("there is nothing to do", "say what, or give - to read it from standard input")
    return " ".join(words)


def _labels(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",") if part]
    if not pairs or any(not key or sign != "=" for key, sign, _ in pairs):
        raise WrongSettings(f"{text!r} is not a selector", "write key=value,key=value")
    return {key: value for key, _, value in pairs}
