"""The argument parser: one line for each mistake, with what was probably meant; help with examples.

argparse, with its messages put as kubectl and gh put theirs. Says nothing of any single command.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NoReturn

from efrit import __version__
from efrit.cli.examples import epilog
from efrit.cli.exit_codes import Exit
from efrit.entry_point import load_entry_point

_NAMES = ("name", "pool")
"""The arguments without an option that name an object."""


class Formatter(argparse.HelpFormatter):
    """As wide as the terminal; examples are left as they are.

    Left to find the width out, argparse imports more than an eval does, for each argument.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_terminal_width() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


@cache
def _terminal_width() -> int:
    try:
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size().columns))
    except (OSError, ValueError):
        return 80


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line on standard error, exit code 2."""

    def __init__(self, prog: str | None = None, **more: Any) -> None:
        super().__init__(prog, formatter_class=Formatter, allow_abbrev=False, **more)
        #: The name of the program, and of the command below it this parser is for ("plan run").
        self.program = self.prog
        self.command = ""

    def format_help(self) -> str:
        """Return the help, with the examples of the command at its end."""
        if self.command:
            self.epilog = epilog(self.program, self.command)
        return super().format_help()

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse passes over what cannot be written.
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Print `message` with where to find help, and exit."""
        print(f"efrit: {argparse_message(message)}; see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(int(Exit.USAGE))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but suggest the option that an unknown one was probably meant to be."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            reported = next((word for word in unknown if word.startswith("-")), unknown[0])
            parser = getattr(parsed, "parser", self)
            parser.error(_unexpected_word_error(reported, parser))
        return parsed

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # Of a variable that is not set, say: the default would be somewhere else than was meant.
        if action.option_strings and not arg_string:
            self.error(f"{'/'.join(action.option_strings)}: the value is empty: give one, or leave the option out")
        if action.dest in _NAMES and not arg_string:
            self.error(f"{action.dest.upper()}: the value is empty: give the name")
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command '{value}'{_suggestion(str(value), choices)}")
        option = "/".join(action.option_strings) or action.metavar or action.dest.upper()
        self.error(
            f"invalid value '{value}' for {option}: use {', '.join(choices)}{_suggestion(str(value), choices)}"
        )


def _unexpected_word_error(word: str, parser: argparse.ArgumentParser) -> str:
    if not word.startswith("-"):
        return f"unexpected argument '{word}'"
    name = word.partition("=")[0]
    spellings = [text for action in parser._actions for text in action.option_strings if text.startswith("--")]
    return f"unknown option '{name}'{_suggestion(name, spellings)}"


def _suggestion(word: str, spellings: Iterable[str]) -> str:
    closest_word: Callable[..., str | None] = load_entry_point("efrit.closest_word:closest_word")
    close = closest_word(word, spellings)
    return f" (did you mean '{close}'?)" if close else ""


def argparse_message(message: str) -> str:
    """Return a message of argparse as other programs would put it."""
    required = "the following arguments are required: "
    if message.startswith(required):
        return f"missing argument {message.removeprefix(required).upper()}"
    return message.removeprefix("argument ")


def argument_type(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return `read` for use as the type of an argument: its ValueErrors become what the user reads."""

    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


class Version(argparse.Action):
    """Print the version and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str = argparse.SUPPRESS, **more: Any) -> None:
        super().__init__(option_strings, dest=dest, default=argparse.SUPPRESS, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        print(f"{parser.prog} {__version__}")
        parser.exit()
