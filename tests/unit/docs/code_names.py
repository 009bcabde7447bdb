"""What the repository has under which name: files, definitions in Python and Lisp files, targets of make."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from tests.cluster.paths import REPOSITORY

PACKAGE = "operator/efrit"
LISP = ("images/emacs/lisp/", "images/emacs/test/")
_SKIPPED = {"__pycache__", "node_modules", "build", "dist"}
_LISP_NAME = re.compile(r"^\((?:cl-|ert-)?def[a-z-]+\*? [('#]*(efrit[\w-]*)", re.MULTILINE)
_LISP_FORM = re.compile(
    r"^\((?P<kind>(?:cl-)?def[a-z-]+\*?) [('#]*(?P<name>efrit[\w-]*)(?P<body>.*?)(?=^\(|\Z)", re.MULTILINE | re.DOTALL
)
_LISP_VALUES = {"defconst", "defvar", "defcustom"}
_PYTHON_NAME = re.compile(r"^ *(?:(?:async )?def |class |(?=\w+(?::| =)))(\w+)", re.MULTILINE)
_SYMBOL = re.compile(r"efrit[\w-]*")


@dataclass(frozen=True)
class Definition:
    """A definition in a file. `is_value`: of a variable or a constant, whose value stands for its name."""

    source: ast.AST | str
    is_value: bool

    def names(self) -> set[str]:
        """Return every name in it."""
        if isinstance(self.source, str):
            return set(_SYMBOL.findall(self.source))
        nodes = list(ast.walk(self.source))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


# Files.


@cache
def files() -> frozenset[str]:
    """Return every file and folder below the repository, folders with a slash at the end."""
    paths: set[str] = set()
    for folder, folders, names in os.walk(REPOSITORY):
        folders[:] = [name for name in folders if name not in _SKIPPED and (name[0] != "." or name == ".github")]
        at = Path(folder).relative_to(REPOSITORY).as_posix()
        prefix = "" if at == "." else f"{at}/"
        paths |= {f"{prefix}{name}/" for name in folders} | {prefix + name for name in names}
    return frozenset(paths)


@cache
def files_named(name: str) -> tuple[str, ...]:
    """Return the files whose path is `name` or ends with it; * and words in capitals stand for anything."""
    pattern = name if name in files() else re.sub(r"(?<![A-Z])[A-Z]{3,}(?![A-Z])", "*", name)
    if "*" in pattern:
        return tuple(path for path in files() if fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}"))
    return tuple(path for path in files() if path == name or path.endswith(f"/{name}"))


def module_exists(dotted: str) -> bool:
    """Return whether `efrit.a.b`, `tests.a` or a name in such a module exists."""
    parts = dotted.split(".")
    root = PACKAGE if parts[0] == "efrit" else "tests"
    for count in (len(parts), len(parts) - 1):
        base = "/".join([root, *parts[1:count]])
        module = next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in files()), None)
        if count == len(parts) and (module is not None or f"{base}/" in files()):
            return True
        if module is not None and re.search(rf"\b{parts[-1]}\b", (REPOSITORY / module).read_text()):
            return True
    return False


@cache
def make_targets() -> frozenset[str]:
    """Return the targets of the Makefile."""
    return frozenset(re.findall(r"^([\w./-]+):(?!=)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


# What one file defines.


@cache
def defined_in(path: str) -> dict[str, Definition]:
    """Return what a Python or Lisp file defines: `Class.method` and `function.inner` for what is inside another."""
    text = (REPOSITORY / path).read_text()
    if path.endswith(".el"):
        forms = _LISP_FORM.finditer(text)
        return {form["name"]: Definition(form["body"], form["kind"] in _LISP_VALUES) for form in forms}
    return dict(_definitions(ast.parse(text), ""))


def _definitions(node: ast.AST, outer: str) -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield outer + child.name, Definition(child, is_value=False)
            yield from _definitions(child, f"{outer}{child.name}.")
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                if isinstance(target, ast.Name):
                    yield outer + target.id, Definition(child, is_value=True)


@cache
def names_in(path: str, name: str) -> frozenset[str] | None:
    """Return the names in a definition, and in the tables of its file that it uses; None where it is not there."""
    defined = defined_in(path)
    inner = [defined[key] for key in defined if key == name or key.endswith(f".{name}")]
    if not inner:
        return None
    own = frozenset[str]().union(*(definition.names() for definition in inner))
    return own.union(*(defined[word].names() for word in own if word in defined and defined[word].is_value))


# What the whole repository defines.


@cache
def lisp_names() -> frozenset[str]:
    """Return every name that our Lisp and its tests define, and the names of the files."""
    paths = [path for path in files() if path.startswith(LISP) and path.endswith(".el")]
    texts = ((REPOSITORY / path).read_text() for path in paths)
    return frozenset(Path(path).stem for path in paths) | {
        name for text in texts for name in _LISP_NAME.findall(text)
    }


@cache
def python_files() -> dict[str, str]:
    """Return the text of each file of the Python package by its path."""
    paths = sorted(path for path in files() if path.startswith(f"{PACKAGE}/") and path.endswith(".py"))
    return {path: (REPOSITORY / path).read_text() for path in paths}


@cache
def python_words() -> frozenset[str]:
    """Return every word of the Python package."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(python_files().values())))


@cache
def python_names() -> frozenset[str]:
    """Return what the Python package defines anywhere: functions, classes, variables and fields."""
    return frozenset(_PYTHON_NAME.findall("\n".join(python_files().values())))


def has_member(name: str, member: str) -> bool:
    """Return whether a class of the Python package defines this member itself."""
    paths = [path for path, text in python_files().items() if re.search(rf"^class {name}\b", text, re.MULTILINE)]
    return any(f"{name}.{member}" in defined_in(path) for path in paths)
