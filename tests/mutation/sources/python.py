"""Operations on Python: the marked statement or part is found in the syntax tree, and what was changed written out.

That is the function, method or other statement of a module or class that it is in: the rest stays as it is.

A marker on the first or the last line of a statement (of the header of a compound one) marks it; one on a line
between marks the part that is on that line: an argument, an element, an operand, the value of a key.
"""

from __future__ import annotations

import ast
import builtins
import functools
from typing import TypeAlias

from tests.mutation.operation import ORIGINAL, Always, Drop, Instead, Misplaced, Never, Operation, Value, Without

Statement: TypeAlias = ast.stmt | ast.ExceptHandler

INDENTATION = 4

# The field of a statement that its condition or value is in.
SUBJECTS = ("test", "value", "iter", "items", "type", "exc")


def mutate(text: str, line: int, operation: Operation) -> str:
    """Return the text after `operation` on what is marked on `line`. Raises Misplaced."""
    # Not by splitlines: that takes more for the end of a line than Python does.
    lines = text.split("\n")
    whole, classes = _own_copy(*_enclosing(_original(text), line), lines)
    tree = ast.Module([whole], [])
    statement = _statement(tree, line)
    part = _part(statement, line)
    if part is None and not operation.at and isinstance(operation, Drop | Instead):
        new: ast.stmt | list[ast.stmt] = (
            ast.Pass() if isinstance(operation, Drop) else _block(operation.text, statement)
        )
        replace = _Replace(statement, new)
    else:
        part = _navigate(part if part is not None else _subject(statement), operation.at)
        if isinstance(operation, Without):
            replace = _Replace(part, _without(part, operation.part))
        else:
            replace = _Replace(part, _value(operation, part))
    first, last = _lines(whole)
    replace.visit(tree)
    return "\n".join([*lines[: first - 1], _written(tree.body, classes), *lines[last:]])


def is_the_same(text: str, changed: str, line: int) -> bool:
    """Return whether an operation on what is marked on `line` has changed nothing but the layout."""
    whole, classes = _enclosing(_original(text), line)
    before = _written([whole], classes)
    return f"\n{before}\n" in f"\n{changed}\n"


def unknown_names(text: str, operation: Operation) -> set[str]:
    """Return names in the operation's own text that the file does not have: it would fail for being nonsense."""
    if not isinstance(operation, Value | Instead):
        return set()
    return set(_names(operation.text) - _names(text) - set(dir(builtins)) - {ORIGINAL})


def _own_copy(statement: ast.stmt, classes: int, lines: list[str]) -> tuple[ast.stmt, int]:
    """Return a statement parsed alone, its lines numbered as before: a tenth of the time that a file takes."""
    first, last = _lines(statement)
    around = [f"{' ' * INDENTATION * depth}class _:" for depth in range(classes)]
    before = [""] * (first - 1 - classes)
    module = ast.parse("\n".join([*before, *around, *lines[first - 1 : last]]))
    return _enclosing(module, first)


@functools.lru_cache(maxsize=8)
def _original(text: str) -> ast.Module:
    """Return the syntax tree of a file as it is, for several of its mutants; nobody changes it."""
    return ast.parse(text)


@functools.cache
def _names(text: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(_original(text)) if isinstance(node, ast.Name))


class _Replace(ast.NodeTransformer):
    """Puts one node, several or none in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST | list[ast.stmt] | None) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt] | None:
        if node is self._old:
            return self._new
        if self._new is None and isinstance(node, ast.Dict) and self._old in node.values:
            raise Misplaced("an entry of a dict is dropped by Without")
        return self.generic_visit(node)


def _enclosing(scope: ast.Module | ast.ClassDef, line: int) -> tuple[ast.stmt, int]:
    """Return the statement, decorators included, that the line is in, and how many classes that is in."""
    for statement in scope.body:
        first, last = _lines(statement)
        if first <= line <= last:
            if isinstance(statement, ast.ClassDef) and line >= _lines(statement.body[0])[0]:
                inner, classes = _enclosing(statement, line)
                return inner, classes + 1
            return statement, 0
    raise Misplaced("it marks no statement")


def _written(statements: list[ast.stmt], classes: int) -> str:
    """Return their text, indented as in so many classes."""
    for _ in range(classes):
        statements = [ast.ClassDef("_", [], [], statements, [])]
    text = ast.unparse(ast.fix_missing_locations(ast.Module(statements, [])))
    for _ in range(classes):
        text = text.partition("\n")[2].lstrip("\n")
    return text


def _lines(statement: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first, statement.end_lineno or statement.lineno


def _statement(tree: ast.Module, line: int) -> Statement:
    """Return the statement, or the compound one's header, that the line is in."""
    statements = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno <= line <= _header_end(node)
    ]
    if not statements:
        raise Misplaced("it marks no statement")
    return max(statements, key=lambda node: (node.lineno, node.col_offset))


def _header_end(node: Statement) -> int:
    body: list[ast.stmt] = getattr(node, "body", [])
    if not body:
        return node.end_lineno or node.lineno
    return max(node.lineno, body[0].lineno - 1)


def _part(statement: Statement, line: int) -> ast.expr | None:
    """Return the part of a statement of several lines that is on the line, None for the statement itself."""
    if line == statement.lineno:
        return None
    ending = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.expr) and node.end_lineno == line and node.lineno >= statement.lineno
    ]
    if not ending:
        return None
    whole = [node for node in ending if node.lineno == line]
    # Breadth first: the outermost comes first; of those beside each other the last counts.
    end = max(node.end_col_offset or 0 for node in whole or ending)
    part = next(node for node in whole or ending if node.end_col_offset == end)
    return None if part is _subject(statement) else part


def _subject(statement: Statement) -> ast.expr:
    for field in SUBJECTS:
        value = getattr(statement, field, None)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], ast.withitem):
            value = value[0].context_expr
        if isinstance(value, ast.expr):
            return _unwrapped(value)
    raise Misplaced("the statement has no condition and no value")


def _unwrapped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Await | ast.Yield | ast.YieldFrom) and node.value is not None:
        node = node.value
    return node


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case (
            ast.BoolOp(values=operands) | ast.Call(args=operands) | ast.List(elts=operands) | ast.Tuple(elts=operands)
        ):
            return operands
        case ast.Set(elts=operands):
            return operands
    raise Misplaced(f"`{ast.unparse(node)}` has no operands")


def _named(node: ast.expr, name: str) -> tuple[list[ast.keyword] | ast.Dict, int]:
    """Return where the one keyword or key of that name is: its list, and its place there."""
    places: list[tuple[list[ast.keyword] | ast.Dict, int]] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            places += [(inner.keywords, number) for number, word in enumerate(inner.keywords) if word.arg == name]
        elif isinstance(inner, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in inner.keys]
            places += [(inner, number) for number, key in enumerate(keys) if key == name]
    if len(places) != 1:
        raise Misplaced(f"`{ast.unparse(node)}` has {len(places)} arguments or keys {name}, not one")
    return places[0]


def _navigate(node: ast.expr, at: tuple[int | str, ...]) -> ast.expr:
    for step in at:
        if isinstance(step, int):
            node = _picked(_operands(node), step)
        else:
            holder, number = _named(node, step)
            node = holder.values[number] if isinstance(holder, ast.Dict) else holder[number].value
        node = _unwrapped(node)
    return node


def _picked(operands: list[ast.expr], number: int) -> ast.expr:
    try:
        return operands[number]
    except IndexError:
        raise Misplaced(f"there is no operand {number} of {len(operands)}") from None


def _without(node: ast.expr, part: int | str) -> ast.expr:
    if isinstance(part, int):
        operands = _operands(node)
        operands.remove(_picked(operands, part))
        return operands[0] if isinstance(node, ast.BoolOp) and len(operands) == 1 else node
    holder, number = _named(node, part)
    if isinstance(holder, ast.Dict):
        del holder.keys[number], holder.values[number]
    else:
        del holder[number]
    return node


def _value(operation: Operation, old: ast.expr) -> ast.expr | None:
    match operation:
        case Drop():
            return None
        case Never():
            return ast.Constant(False)
        case Always():
            return ast.Constant(True)
        case Value(text=text) | Instead(text=text):
            return _with_original(ast.parse(text, mode="eval").body, old)
    raise Misplaced(f"{operation} is nothing that can be done to a part")


def _block(text: str, original: Statement) -> list[ast.stmt]:
    """Return statements; the word for the original among them is the original."""
    if isinstance(original, ast.ExceptHandler):
        raise Misplaced("a handler is changed by Value")
    new = ast.parse(text).body
    return [original if isinstance(node, ast.Expr) and _is_original(node.value) else node for node in new]


def _with_original(new: ast.expr, old: ast.expr) -> ast.expr:
    whole = ast.Expression(new)
    for node in [inner for inner in ast.walk(new) if _is_original(inner)]:
        _Replace(node, old).visit(whole)
    return whole.body


def _is_original(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == ORIGINAL
