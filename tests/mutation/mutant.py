"""What a mutant is: one safety step taken out of the product, and the tests that must notice. Pure."""

from __future__ import annotations

from dataclasses import dataclass


class Misplaced(Exception):  # noqa: N818 - reads as what is wrong with the mutant
    """The text a mutant replaces is not in its file exactly once; the message says which."""


@dataclass(frozen=True)
class Mutant:
    """One step less.

    step: what is taken out, as a person would say it.
    file: the file it is taken out of, from the root of the repository.
    old, new: the text that is replaced, which must be there exactly once, and what it becomes.
    tests: node ids for pytest, and `ert:SELECTOR` for the Emacs Lisp; at least one of them must fail.
    generates: whether the CRDs are to be written anew from the changed models.
    """

    step: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    generates: bool = False

    def apply(self, text: str) -> str:
        """Return the file's text without the step. Raises Misplaced."""
        times = text.count(self.old)
        if times != 1:
            raise Misplaced(f"{self.step}: found {times} times in {self.file}, not once:\n{self.old}")
        return text.replace(self.old, self.new)
