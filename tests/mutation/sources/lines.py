"""Operations on what is marked line by line: a line of a shell script, an entry of YAML (also in a Helm template)."""

from __future__ import annotations

import re

from tests.mutation.operation import Always, Drop, Instead, Misplaced, Never, Operation, Value, Without

_COMMENT = re.compile(r"\s+# gate: \S+$")
_ASSIGNMENT = re.compile(r"(?P<before>\s*[A-Za-z_]\w*=)(?P<value>.*)")
_TEST = re.compile(r"(?P<before>\s*(?:(?:el)?if|while) )(?P<value>.*)(?P<after>; (?:then|do).*)")
_GUARD = re.compile(r"(?P<before>\s*)(?P<value>.*?)(?P<after> &&.*)")
_ENTRY = re.compile(r"(?P<before>\s*(?:- )?[^\s:]+:|\s*-)(?P<value>.*)")


def mutate_shell(text: str, line: int, operation: Operation) -> str:
    """Return the text after `operation` on one line: its condition, the value it assigns, or all of it."""
    lines = text.splitlines(keepends=True)
    marked = _COMMENT.sub("", lines[line - 1].removesuffix("\n"))
    indentation = marked[: len(marked) - len(marked.lstrip())]
    match operation:
        case Drop():
            new = f"{indentation}:"
        case Instead(text=other):
            new = indentation + other
        case _:
            parts = _TEST.fullmatch(marked) or _ASSIGNMENT.fullmatch(marked) or _GUARD.fullmatch(marked)
            if parts is None:
                raise Misplaced(f"`{marked.strip()}` has no condition and no value")
            new = parts["before"] + _condition(parts["value"], operation) + (parts.groupdict().get("after") or "")
    lines[line - 1] = new + "\n"
    return "".join(lines)


def _condition(old: str, operation: Operation) -> str:
    match operation:
        case Never():
            return "false"
        case Always():
            return "true"
        case Value(text=new):
            return new
        case Without(part=int(number)):
            operands = old.split(" && ")
            if not 0 <= number < len(operands):
                raise Misplaced(f"`{old}` has no operand {number}")
            return " && ".join(operands[:number] + operands[number + 1 :])
    raise Misplaced(f"{operation} is nothing that can be done to a line")


def mutate_yaml(text: str, line: int, operation: Operation) -> str:
    """Return the text after `operation` on the entry that begins on a line: dropped, or with another value."""
    lines = text.splitlines(keepends=True)
    marked = _COMMENT.sub("", lines[line - 1].removesuffix("\n"))
    indentation = len(marked) - len(marked.lstrip())
    end = line
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indentation):
        end += 1
    match operation:
        case Drop():
            new = ""
        case Value(text=value):
            entry = _ENTRY.fullmatch(marked)
            if entry is None:
                raise Misplaced(f"`{marked.strip()}` is no entry")
            new = f"{entry['before']} {value}\n"
        case Never() | Always():
            return mutate_yaml(text, line, Value('"true"' if isinstance(operation, Always) else '"false"'))
        case Instead(text=other):
            new = f"{marked[:indentation]}{other}\n"
        case _:
            raise Misplaced(f"{operation} is nothing that can be done to YAML")
    return "".join([*lines[: line - 1], new, *lines[end:]])
