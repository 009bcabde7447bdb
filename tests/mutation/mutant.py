"""What a mutant is: one safety step taken out of the product, and the tests that must notice. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.operation import Operation


@dataclass(frozen=True)
class Mutant:
    """One step less.

    step: what is taken out, as a person would say it.
    gate: the name of the marker at its place in the product, `# gate: NAME`.
    operation: what is done there.
    tests: node ids for pytest, and `ert:SELECTOR` for the Emacs Lisp; at least one of them must fail.
    generates: whether the CRDs are to be written anew from the changed models.
    silent: whether the test fails by what does not come in its time; it takes long, and next to no processor.
    """

    step: str
    gate: str
    operation: Operation
    tests: tuple[str, ...]
    generates: bool = False
    silent: bool = False
