"""Which names a page for developers has, and which of them the repository does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from tests.unit.docs import code_names

_FENCE = re.compile(r"^ *```")
_NAME = re.compile(r"`([^`]+)`")
_MAKE = re.compile(r"`make ([a-z][a-z-]*)(?![\w=])")
_MAKE_RUN = re.compile(r"(?:^|\$|&&|;) *make ([a-z][a-z-]*)(?![\w=])")
_MODULE = re.compile(r"(?:efrit(?!\.dev)|tests)(?:\.\w+)+")
_ROOTS = ("operator/", "images/", "tests/", "docs/", "charts/", "samples/", "requirements/")
_SOURCE = re.compile(r"[\w./*-]+\.(?:py|el)")
_FOLDER_OR_SOURCE = re.compile(r"(?<![\w/.-])[\w-]+(?:/[\w-]+)*(?:/|\.(?:py|el|sh))(?![\w/])")
_ROOM = re.compile(r"efrit-(?:claim|command|do|eval|history|model|plan|queue|server|session|tools?)-[\w-]+")
_FIELD = re.compile(r"(?:spec|status)\.[\w.]*?(\w+)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")
_IN_FILE = re.compile(r"`([\w.-]+)`\s(?:in\s|\()`?([\w/-]+\.(?:py|el))\b")
_COUNTS = re.compile(r"(\d+) functions?, (\d+) hand-overs?")
_WALK = re.compile(r"^\| *file *\| *functions *\|")
_STOP = re.compile(r"([⇒↪]?) *`([^`]+)`")


@dataclass(frozen=True)
class Problem:
    """A name of a page that is none of the repository's."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Stop:
    """A function on a walk, after an arrow or none.

    ⇒: it runs later, or in another task, thread or process. ↪: it is called under another name.
    """

    line: int
    files: tuple[str, ...]
    name: str
    arrow: str


def problems(page: str, text: str, *, every_name: bool = False) -> list[Problem]:
    """Return what is wrong with the names of a page.

    Paths, modules, Lisp functions and targets of make are looked for, with `every_name` all that is in backticks.
    """
    problems = [
        *_in_prose(page, text, every_name=every_name),
        *_in_sentences(page, text),
        *_in_trees(page, text),
        *_in_walks(page, text),
    ]
    return sorted(problems, key=lambda problem: problem.line)


def walks(text: str) -> list[list[Stop]]:
    """Return the stops of each walk of a page: a table whose columns are file, functions and what they add."""
    rows = [(number, line) for number, line in _lines(text) if line.startswith("|")]
    tables = groupby(rows, key=lambda row: row[0] - rows.index(row))
    parts = [list(table) for _, table in tables]
    return [list(_stops(table[2:])) for table in parts if _WALK.match(table[0][1])]


# One name.


def is_known(name: str, *, every_name: bool) -> bool:
    """Return whether the repository has what a name in backticks says; true for what is not a name of ours."""
    word = name.rstrip("()")
    if word.startswith(_ROOTS) or _SOURCE.fullmatch(word):
        return bool(code_names.files_named(word) or code_names.files_named(word.rstrip("/") + "/"))
    if _MODULE.fullmatch(word):
        return code_names.module_exists(word)
    if word.startswith("python -m "):
        return not word[10:].startswith(("efrit", "tests")) or code_names.module_exists(word[10:].split()[0])
    if _ROOM.fullmatch(word):
        return _is_lisp(word)
    return not every_name or _is_ours(word)


def _is_ours(word: str) -> bool:
    if word.startswith("efrit-"):
        return _is_lisp(word) or any(word in text for text in code_names.python_files().values())
    if word.endswith("/"):
        return bool(code_names.files_named(word))
    if field := _FIELD.fullmatch(word):
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", field[1]).lower() in code_names.python_names()
    if not _IDENTIFIER.fullmatch(word):
        return True
    name, _, member = word.partition(".")
    if member:
        return code_names.has_member(name, member)
    return word in (code_names.python_names() if "_" in word else code_names.python_words())


def _is_lisp(word: str) -> bool:
    name = word.rstrip("-…*")
    lisp_names = code_names.lisp_names()
    return (
        name in lisp_names
        or (name != word and any(lisp_name.startswith(name) for lisp_name in lisp_names))
        or name == "efrit-tools"
    )


# The page.


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.split("\n"), 1)


def _prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of each line, and whether it is inside a fenced block."""
    inside = False
    for number, line in _lines(text):
        if _FENCE.match(line):
            inside = not inside
        yield number, line, inside


def _in_prose(page: str, text: str, *, every_name: bool) -> Iterator[Problem]:
    in_walk = False
    for number, line, inside in _prose(text):
        in_walk = line.startswith("|") and (in_walk or _WALK.match(line) is not None)
        for target in (_MAKE_RUN if inside else _MAKE).findall(line):
            if target not in code_names.make_targets():
                yield Problem(page, number, f"`make {target}`: the Makefile has no such target")
        # The names of a walk are looked for in its files.
        prose = line.split("|")[-2] if in_walk else "" if inside else line
        for name in _NAME.findall(prose):
            if not is_known(name, every_name=every_name):
                yield Problem(page, number, f"`{name}`: nothing in the repository has this name")


def _in_sentences(page: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with "`name` in folder/file.py", which may be broken into two lines."""
    for match in _IN_FILE.finditer(text):
        try:
            _names_in([match[2]], match[1])
        except LookupError as error:
            yield Problem(page, text.count("\n", 0, match.start()) + 1, str(error))


def _in_trees(page: str, text: str) -> Iterator[Problem]:
    """Yield what is wrong with a fenced block whose first line is a folder of the repository."""
    above: list[tuple[int, str]] = []
    first = drawn = False
    for number, line, inside in _prose(text):
        if not inside or _FENCE.match(line):
            first, above = inside, []
            continue
        if first:
            first, drawn = False, line.split(" ")[0] in code_names.files()
        if drawn:
            yield from _in_tree_line(page, number, line, above)


def _in_tree_line(page: str, number: int, line: str, above: list[tuple[int, str]]) -> Iterator[Problem]:
    indent = len(line) - len(line.lstrip())
    column = re.split(r" {2,}", line.strip(), maxsplit=1)[0]
    entries = column.split(" ") if _FOLDER_OR_SOURCE.sub("", column).strip() == "" else []
    while above and above[-1][0] >= indent and entries:
        above.pop()
    folder = above[-1][1] if above else ""
    for entry in entries:
        if folder + entry not in code_names.files():
            yield Problem(page, number, f"{entry}: there is no {folder}{entry}")
    for name in _FOLDER_OR_SOURCE.findall(line.strip()[len(" ".join(entries)) :]):
        if not code_names.files_named(name):
            yield Problem(page, number, f"{name}: nothing in the repository has this name")
    if entries and entries[-1].endswith("/"):
        above.append((indent, folder + entries[-1]))


# Walks.


def _stops(rows: Iterable[tuple[int, str]]) -> Iterator[Stop]:
    for number, row in rows:
        _, file, functions, *_ = row.split("|")
        for arrow, name in _STOP.findall(functions):
            yield Stop(number, tuple(_NAME.findall(file)), name, arrow)


def _in_walks(page: str, text: str) -> Iterator[Problem]:
    for walk in walks(text):
        referred: set[str] = set()
        for at, stop in enumerate(walk):
            try:
                names = _names_in(stop.files, stop.name)
            except LookupError as error:
                yield Problem(page, stop.line, str(error))
                continue
            if at and not stop.arrow and stop.name.rpartition(".")[2] not in referred:
                yield Problem(page, stop.line, f"`{stop.name}`: nothing that the table names before it refers to it")
            referred |= names
        yield from _miscounted(page, text, walk)


def _names_in(files: Iterable[str], name: str) -> frozenset[str]:
    """Return the names in the definition of `name`, which one of the files has. Raises LookupError."""
    paths = [_only_file(file) for file in files]
    exact = [path for path in paths if name in code_names.defined_in(path)]
    candidates = [names for path in exact or paths if (names := code_names.names_in(path, name)) is not None]
    if len(candidates) != 1:
        raise LookupError(f"`{name}`: {len(candidates)} definitions in {', '.join(paths)}")
    return candidates[0]


def _only_file(name: str) -> str:
    paths = [
        path for path in code_names.files_named(name) if name.startswith("tests/") or not path.startswith("tests/")
    ]
    if len(paths) != 1:
        raise LookupError(f"`{name}`: {len(paths)} files have this name")
    return paths[0]


def _miscounted(page: str, text: str, walk: list[Stop]) -> Iterator[Problem]:
    """Yield a problem where the paragraph above a walk says how long it is, and is wrong."""
    lines = list(_lines(text))[: walk[0].line - 3] if walk else []
    for number, line in reversed(lines):
        if line.startswith(("#", "|")):
            return
        if match := _COUNTS.search(line):
            counted = len(walk), sum(stop.arrow == "⇒" for stop in walk)
            if (int(match[1]), int(match[2])) != counted:
                yield Problem(page, number, f"{match[0]}: the table has {counted[0]} and {counted[1]}")
            return
