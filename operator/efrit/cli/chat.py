"""`chat`: a conversation in the terminal. Words appear as they are said; the session goes on from turn to turn."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace

from msgspec.structs import replace

from efrit.backend.interface import Backend, RequestReason, RequestState, RequestType, Work
from efrit.backend.local.settings import state_directory
from efrit.cli.exit_codes import Exit, Terminated
from efrit.cli.results import completed
from efrit.cli.run import print_final_state
from efrit.cli.streams import interruptible, is_terminal, printable
from efrit.cli.wait import Detached, display_for, hand_over, wait
from efrit.cli.work import work_of

_HELP = "/command TEXT has the model work with tools, /session prints the session, /quit (or Ctrl-D) ends the chat"


async def run_chat(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit chat`: one turn with a text or in a pipe, else until the user leaves."""
    if args.text or args.file or not is_terminal(sys.stdin):
        turn = await _turn(backend, args, work_of(RequestType.CHAT, args, args.text))
        return Exit.DETACHED if turn is None else turn[1]
    return await _converse(backend, args)


async def _converse(backend: Backend, args: Namespace) -> Exit:
    with _line_history():
        print(_HELP, file=sys.stderr)
        kind, code = RequestType.CHAT, Exit.DONE
        session, instance = args.session, args.instance
        while (line := _line("efrit> " if kind is RequestType.CHAT else "answer> ")) is not None:
            if line in ("/quit", "/exit"):
                break
            if line == "/session":
                print(session or "none yet", file=sys.stderr)
                continue
            if line.startswith("/command "):
                kind, line = RequestType.COMMAND, line.removeprefix("/command ")
            elif line.startswith("/"):
                print(_HELP, file=sys.stderr)
                continue
            if not line:
                continue
            work = replace(_work_options(args), type=kind, content=line, session=session, instance=instance)
            turn = await _turn(backend, args, work)
            if turn is None:
                # It was left running, and has asked nothing.
                kind = RequestType.CHAT
                continue
            state, code = turn
            if state.session is not None and state.session.id:
                session, instance = state.session.id, state.handle.instance
            # What is typed next answers the question; otherwise it is talk again.
            kind = kind if state.reason is RequestReason.INPUT_REQUIRED else RequestType.CHAT
        return code


def _work_options(args: Namespace) -> Work:
    return work_of(RequestType.CHAT, args, ["-shape-"])


async def _turn(backend: Backend, args: Namespace, work: Work) -> tuple[RequestState, Exit] | None:
    """Submit one turn and show the response; return its state and exit code, None if the user left it running."""
    handle, exit_code = await hand_over(backend, work)
    texts: list[str] = []

    def say(text: str) -> None:
        texts.append(text)
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    try:
        display = display_for(args, None if args.output else say)
        state = await wait(backend, handle, display, earlier_signal=lambda: exit_code)
    except Detached as reason:
        if reason.code is Exit.TERMINATED:
            raise Terminated from reason
        return None
    if state is None:
        return None
    if texts:
        state, missing = await completed(backend, state)
        print("" if texts[-1].endswith("\n") else "\n", end="")
        # It was shown as it came, and is not printed twice, unless some of it never came.
        complete = state.result is not None and state.result.strip() in "".join(texts)
        state = (
            replace(state, result=None) if work.type is RequestType.CHAT and complete and missing is None else state
        )
    return state, await print_final_state(backend, state, args)


def _line(prompt: str) -> str | None:
    """Return the line that the user typed; None at the end of the input. Ctrl-C empties the line."""
    while True:
        try:
            # In this thread: in another, Ctrl-C would not end the call.
            with interruptible():
                return input(prompt).strip()
        except EOFError:
            print()
            return None
        except Terminated:
            raise
        except KeyboardInterrupt:
            print()


@contextlib.contextmanager
def _line_history():  # type: ignore[no-untyped-def]
    """Load line editing and the history of what was typed; save the history afterwards."""
    import readline

    path = state_directory() / "history"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
    readline.set_history_length(1000)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(path)
