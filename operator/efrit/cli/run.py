"""`eval` and `command`: hand work over, wait, print the result. What the model asks is answered in place.

What waits is imported only when there is something to wait for: it brings an event loop along.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from efrit.cli.exit_codes import Exit
from efrit.cli.output import unquoted, write
from efrit.cli.place import place_of
from efrit.cli.results import completed, exit_of_printed, warn
from efrit.cli.streams import is_terminal, read_text
from efrit.client.backends import backend_of
from efrit.client.errors import ClientError, WrongSettings
from efrit.client.interface import Backend, Budget, Reason, RequestState, RequestType, Work


async def run_eval(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit eval`."""
    begun = getattr(given, "begun", None)
    if begun is None:
        return await ask(backend, given, work_of(RequestType.EVAL, given, given.form))
    from efrit.cli.wait import Left, show_for, wait

    try:
        state = await wait(backend, begun, show_for(given), left=getattr(given, "left", None))
    except Left as reason:
        return reason.code
    if state is None:
        return Exit.FAILED
    return await tell(backend, state, given)


async def run_command(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit command`."""
    return await ask(backend, given, work_of(RequestType.COMMAND, given, given.text))


async def ask(backend: Backend, given: Namespace, work: Work) -> Exit:
    """Run one piece of work to its end, and ask the user the questions it has."""
    from efrit.cli.wait import Left, hand_over, show_for, wait

    while True:
        handle, left = await hand_over(backend, work)
        try:
            state = await wait(backend, handle, show_for(given), left=left)
        except Left as reason:
            return reason.code
        if state is None:
            return Exit.FAILED
        answer = _answer(state, given)
        if answer is None:
            return await tell(backend, state, given)
        session = state.session.id if state.session is not None else None
        work = Work(work.type, answer, instance=state.handle.instance, session=session, timeout=work.timeout)


def _answer(state: RequestState, given: Namespace) -> str | None:
    """Return the user's answer to the question; None without a question, a terminal or an answer."""
    if state.reason is not Reason.INPUT_REQUIRED or state.session is None or given.no_input or given.output:
        return None
    if not is_terminal(sys.stdin, sys.stderr):
        return None
    print(f"{state.session.question}\n> ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() or None


async def tell(backend: Backend, state: RequestState, given: Namespace) -> Exit:
    """Print the end of a request, with its whole result; return the exit code."""
    state, missing = (state, None) if given.output == "name" else await completed(backend, state)
    return print_result(state, missing, given)


def print_result(state: RequestState, missing: ClientError | None, given: Namespace) -> Exit:
    """Print the result to standard output, everything else to standard error; return the exit code.

    `missing` is why `state` has only the beginning of its result, None where it has all.
    """
    if given.output:
        write(given.output, state)
        if given.output == "name":
            # JSON and YAML hold the error; a name alone does not.
            _print_failure(state)
    else:
        _print_for_people(state, given)
    if missing is not None:
        warn(missing)
    return exit_of_printed(state, missing)


def _print_for_people(state: RequestState, given: Namespace) -> None:
    result = state.result
    if state.output:
        sys.stderr.write(state.output if state.output.endswith("\n") else state.output + "\n")
    if result is not None:
        print(unquoted(result) if given.raw else result)
    if state.session is not None and state.session.question:
        print(state.session.question, file=sys.stderr)
        again = given.invocation.command(str(state.type or "command"), "-s", state.session.id or "")
        print(f"efrit: answer with `{again} …`", file=sys.stderr)
    _print_failure(state)


def _print_failure(state: RequestState) -> None:
    if state.reason is not Reason.SUCCEEDED:
        print(f"efrit: {state.handle.id} ended {state.reason}: {state.message}", file=sys.stderr)


def work_of(kind: RequestType, given: Namespace, words: list[str]) -> Work:
    """Return the work that the command line describes. Raises `WrongSettings`."""
    budget = None
    if any(getattr(given, name, None) for name in ("max_tool_calls", "max_iterations", "max_tokens")):
        budget = Budget(given.max_tool_calls, given.max_iterations, given.max_tokens)
    return Work(
        kind,
        _content(given, words),
        instance=given.instance,
        pool=given.pool,
        selector=_labels(given.selector),
        timeout=given.timeout,
        queue_timeout=given.queue_timeout,
        return_context=given.return_context,
        budget=budget,
        session=getattr(given, "session", None),
        priority=given.priority,
        retry=given.retry,
        key=given.key,
        directory=directory_of(given),
    )


def directory_of(given: Namespace) -> str | None:
    """Return the directory work begins in: the one named, or on this machine the one this program runs in."""
    if given.dir is None and backend_of(place_of(given), os.environ) == "cluster":
        return None
    try:
        return os.path.abspath(os.path.expanduser(given.dir or "."))  # noqa: PTH100, PTH111 - pathlib keeps `..`
    except FileNotFoundError as error:
        raise WrongSettings("the current directory no longer exists", "change to another one") from error


def _content(given: Namespace, words: list[str]) -> str:
    if given.file is not None and words:
        raise WrongSettings("both a file and a text are given", "leave one of them out")
    if given.file is not None:
        return read_text(given.file)
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
