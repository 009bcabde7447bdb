"""`help`, and commands that were given no second word: the help of what was named, on standard output."""

from __future__ import annotations

from argparse import Namespace

from efrit.cli.commands import build
from efrit.cli.exit_codes import Exit


def run_help(args: Namespace) -> Exit:
    """Run `efrit` or `efrit plan` without a command: print what `--help` prints."""
    # The parser that was used may know a single command.
    return _print(args.parser.program, args.parser.command.split())


def run_words(args: Namespace) -> Exit:
    """Run `efrit help`."""
    return _print(args.parser.program, args.words)


def _print(program: str, words: list[str]) -> Exit:
    # Ends the program, with 2 and a suggestion where there is no such command.
    build(program, words).parse_args([*words, "--help"])
    return Exit.DONE
