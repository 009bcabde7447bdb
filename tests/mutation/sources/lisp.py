"""Operations on Emacs Lisp: the marked form is the first that begins on the marker's line; the rest stays as it is.

Arguments of a form are counted without its head. The condition of `when`, `if`, `unless`, `while` and of a clause of
`cond`, and the value of a `defconst`, are found by themselves. In a string that is a shell script, a line is marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tests.mutation.operation import ORIGINAL, Always, Drop, Instead, Misplaced, Never, Operation, Value, Without
from tests.mutation.sources.lines import mutate_shell

CONDITIONAL = frozenset({"when", "if", "unless", "while"})
DEFINITION = frozenset({"defconst", "defvar", "defcustom"})

_TOKEN = re.compile(
    r"""(?P<space>\s+|;[^\n]*)
      |(?P<prefix>\#'|,@|['`,])
      |(?P<open>[(\[])
      |(?P<close>[)\]])
      |(?P<atom>"(?:\\.|[^"\\])*"
        |\?(?:\\(?:[CMSHAs]-|\^)*.[^\s()\[\]"';]*|.)
        |(?:\\.|[^\s()\[\]"';`,\\])+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass
class Form:
    """What is read: where it begins, with its quotes, and ends; the forms in it, None for an atom."""

    start: int
    end: int = 0
    children: list[Form] | None = None


def read(text: str) -> list[Form]:
    """Return the forms of a file. Raises Misplaced where it cannot be read."""
    top: list[Form] = []
    stack: list[list[Form]] = [top]
    opened: list[Form] = []
    place, quoted = 0, -1
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise Misplaced(f"cannot be read at {text[place : place + 20]!r}")
        match token.lastgroup:
            case "prefix":
                quoted = place if quoted < 0 else quoted
            case "open" | "atom":
                form = Form(quoted if quoted >= 0 else place, token.end())
                quoted = -1
                stack[-1].append(form)
                if token.lastgroup == "open":
                    form.children = []
                    opened.append(form)
                    stack.append(form.children)
            case "close":
                stack.pop()
                opened.pop().end = token.end()
        place = token.end()
    return top


def mutate(text: str, line: int, operation: Operation) -> str:
    """Return the text after `operation` on the form that is marked on `line`. Raises Misplaced."""
    begin = sum(len(line) for line in text.splitlines(keepends=True)[: line - 1])
    end = text.find("\n", begin)
    forms = _forms(text)
    marked = min((form for form in forms if begin <= form.start < end), key=lambda form: form.start, default=None)
    if marked is None:
        if any(form.children is None and form.start < begin < form.end for form in forms):
            return mutate_shell(text, line, operation)
        raise Misplaced("no form begins on its line")
    form = marked
    for step in operation.at:
        form = _argument(text, form, step)
    return _Edit(text, form).apply(operation)


@dataclass(frozen=True)
class _Edit:
    text: str
    form: Form

    def apply(self, operation: Operation) -> str:
        subject = _subject(self.text, self.form)
        match operation:
            case Drop():
                return self._put(self.form, "")
            case Never():
                return self._put(subject, "nil")
            case Always():
                return self._put(subject, "t")
            case Value(text=new):
                return self._put(subject, new)
            case Without(part=part):
                return self._put(_argument(self.text, subject, part), "")
            case Instead(text=new):
                return self._put(self.form, new)
        raise Misplaced(f"{operation} is nothing that can be done to Lisp")

    def _put(self, form: Form, new: str) -> str:
        original = self.text[form.start : form.end]
        return self.text[: form.start] + new.replace(ORIGINAL, original) + self.text[form.end :]


# The markers of a file are asked for one after the other, and nothing changes a form.
@lru_cache(maxsize=8)
def _forms(text: str) -> tuple[Form, ...]:
    return tuple(_all(read(text)))


def _all(forms: list[Form]) -> list[Form]:
    return [inner for form in forms for inner in (form, *_all(form.children or []))]


def _head(text: str, form: Form) -> str | None:
    """Return the symbol that a list begins with."""
    if not form.children or form.children[0].children is not None:
        return None
    first = form.children[0]
    return text[first.start : first.end]


def _subject(text: str, form: Form) -> Form:
    head = _head(text, form)
    if form.children and head is None:
        return form.children[0]
    if head in CONDITIONAL:
        return _argument(text, form, 0)
    return _argument(text, form, 1) if head in DEFINITION else form


def _argument(text: str, form: Form, number: int | str) -> Form:
    arguments = (form.children or [])[_head(text, form) is not None :]
    if not isinstance(number, int) or not -len(arguments) <= number < len(arguments):
        raise Misplaced(f"`{text[form.start : form.end]}` has no argument {number}")
    return arguments[number]
