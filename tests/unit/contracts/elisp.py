"""Emacs Lisp source read as forms: lists, symbols and literals. Enough for constants, calls and alists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
LISP = REPOSITORY / "images/emacs/lisp"

_TOKEN = re.compile(
    r"""\s+|;[^\n]*
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<char>\?(?:\\.[^\s()"]*|.))
    |(?P<open>[(\[])|(?P<close>[)\]])
    |(?P<prefix>\#'|,@|['`,])
    |(?P<atom>(?:[^\s()\[\]"';`,\\]|\\.)+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "\n": ""}


@dataclass(frozen=True)
class Symbol:
    name: str


Form = Symbol | str | int | float | tuple["Form", ...]
DOT = Symbol(".")


def read(text: str) -> list[Form]:
    """Return the forms of `text`. Quotes are left out: 'x, `x, ,x and x are the same form."""
    levels: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, f"cannot read {text[at : at + 40]!r}"
        at = match.end()
        kind, token = match.lastgroup, match.group()
        if kind == "open":
            levels.append([])
        elif kind == "close":
            done = tuple(levels.pop())
            levels[-1].append(done)
        elif kind in {"string", "char", "atom"}:
            levels[-1].append(_atom(kind, token))
    (forms,) = levels
    return forms


def _atom(kind: str | None, token: str) -> Form:
    if kind == "string":
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1], flags=re.DOTALL)
    for number in (int, float):
        try:
            return number(token)
        except ValueError:
            continue
    return Symbol(token)


@lru_cache(maxsize=1)
def sources() -> dict[str, list[Form]]:
    """Return the forms of every file by its name."""
    return {path.name: read(path.read_text()) for path in sorted(LISP.rglob("*.el"))}


def all_forms() -> Iterator[Form]:
    """Yield every form of every file, the inner ones too."""
    for forms in sources().values():
        for form in forms:
            yield from inside(form)


def inside(form: Form) -> Iterator[Form]:
    """Yield `form` and every form in it."""
    yield form
    if isinstance(form, tuple):
        for part in form:
            yield from inside(part)


def calls(function: str, form: Form | None = None) -> list[tuple[Form, ...]]:
    """Return the arguments of every call of `function`, in all files or in `form`."""
    forms = all_forms() if form is None else inside(form)
    return [form[1:] for form in forms if isinstance(form, tuple) and form and form[0] == Symbol(function)]


def definition(name: str) -> tuple[Form, ...]:
    """Return the form that defines `name`."""
    definitions = _definitions().get(name, [])
    assert len(definitions) == 1, f"{name} is defined {len(definitions)} times in {LISP}"
    return definitions[0]


@lru_cache(maxsize=1)
def _definitions() -> dict[str, list[tuple[Form, ...]]]:
    definitions: dict[str, list[tuple[Form, ...]]] = {}
    for forms in sources().values():
        for form in forms:
            if isinstance(form, tuple) and len(form) > 2 and _is_definition(form[0]) and isinstance(form[1], Symbol):
                definitions.setdefault(form[1].name, []).append(form)
    return definitions


def constants() -> Iterator[tuple[Form, ...]]:
    """Yield every defcustom and defconst."""
    for forms in _definitions().values():
        yield from (form for form in forms if form[0] in {Symbol("defcustom"), Symbol("defconst")})


def defined_functions() -> set[str]:
    """Return the names of all functions and macros."""
    kinds = {Symbol(kind) for kind in ("defun", "defmacro", "defsubst", "cl-defun", "defalias")}
    return {
        form[1].name
        for form in all_forms()
        if isinstance(form, tuple) and len(form) > 1 and form[0] in kinds and isinstance(form[1], Symbol)
    }


def _is_definition(head: Form) -> bool:
    return isinstance(head, Symbol) and head.name in {"defconst", "defcustom", "defvar", "defun", "cl-defun"}


def value(form: Form) -> Form:
    """Return what `form` is worth in an empty environment: literals, constants and the readers of variables."""
    if isinstance(form, Symbol):
        return value(definition(form.name)[2])
    if not isinstance(form, tuple):
        return form
    head, *arguments = form
    match head:
        case Symbol("truncate"):
            return value(arguments[0])
        case Symbol("efrit-settings-env-number"):
            return value(arguments[1])
        case Symbol("or"):
            return value(arguments[-1])
    raise AssertionError(f"cannot tell what {form!r} is worth")


@lru_cache(maxsize=1)
def strings() -> frozenset[str]:
    """Return every string of the source, docstrings included."""
    return frozenset(form for form in all_forms() if isinstance(form, str))


def alist_keys(form: Form) -> list[str]:
    """Return the keys of the alists in `form`, in their order, those of inner alists too."""
    pairs = [pair for pair in inside(form) if isinstance(pair, tuple) and len(pair) > 2 and pair[1] == DOT]
    return [pair[0].name for pair in pairs if isinstance(pair[0], Symbol)]


def template(form: Form) -> str | None:
    """Return a file name with * for what is known at run time only; None where all of it is."""
    if isinstance(form, str):
        return re.sub(r"%[ds]", "*", form)
    if isinstance(form, tuple) and form and form[0] == Symbol("concat"):
        return "".join(part if isinstance(part, str) else "*" for part in form[1:])
    if isinstance(form, tuple) and form and form[0] == Symbol("format") and isinstance(form[1], str):
        return template(form[1])
    return None
