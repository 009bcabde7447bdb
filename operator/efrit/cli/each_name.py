"""Commands that change several objects: each that is named is changed and reported, and then what is missing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import TypeVar

from efrit.backend.errors import NotFound
from efrit.cli.exit_codes import Exit
from efrit.cli.output import write
from efrit.cli.place import notice
from efrit.cli.streams import printable

_State = TypeVar("_State")


async def change_each(
    args: Namespace, change: Callable[[str], Awaitable[_State]], text: Callable[[_State], str]
) -> Exit:
    """Change one object after another; print `text` of each at once, or all of them in the format of -o.

    Raises the first `NotFound` once the others are changed. Another error ends the loop; what was changed
    before is printed.
    """
    states: list[_State] = []
    missing: list[NotFound] = []
    try:
        for name in args.name:
            try:
                states.append(await change(name))
            except NotFound as error:
                missing.append(error)
                continue
            if not args.output:
                print(printable(text(states[-1])), flush=True)
    finally:
        if args.output and states:
            write(args.output, states if len(args.name) > 1 else states[0])
        for other in missing[1:]:
            notice(other.message)
    if missing:
        raise missing[0]
    return Exit.DONE
