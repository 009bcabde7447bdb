"""What a mutant does to the place in the product that its marker names. Pure data: `sources` carries it out.

A place is a statement, a part of one on a line of its own, a form of Lisp, a line of a script, or an entry of YAML.
`at` leads from it to a part: numbers count arguments or operands from 0, names are those of a keyword or of a key.
"""

from __future__ import annotations

from dataclasses import dataclass

ORIGINAL = "ORIGINAL"
"""Stands for what was there in the text of `Value` and `Instead`."""


class Misplaced(Exception):  # noqa: N818 - reads as what is wrong with the mutant
    """A marker is missing, or marks what the operation cannot be done to; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One of those below."""

    at: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Drop(Operation):
    """The statement, the element or the form is not there."""


@dataclass(frozen=True)
class Never(Operation):
    """The condition is never true."""


@dataclass(frozen=True)
class Always(Operation):
    """The condition is always true."""


@dataclass(frozen=True)
class Value(Operation):
    """The condition, or the value that is returned, assigned or evaluated, is another one."""

    text: str


@dataclass(frozen=True)
class Without(Operation):
    """The condition lacks an operand, or the call an argument, or the structure the entry of that name."""

    part: int | str


@dataclass(frozen=True)
class Instead(Operation):
    """The whole statement or form is another one, or several."""

    text: str
