"""What the operations of the mutation gate make of marked sources, language by language."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.mutation.operation import Always, Drop, Instead, Misplaced, Never, Operation, Value, Without
from tests.mutation.sources.markers import markers_of

PYTHON: list[tuple[str, Operation, str]] = [
    ("save()  # gate: g", Drop(), "pass"),
    ("if a:  # gate: g\n    b()", Drop(), "pass"),
    ("if (\n    a\n    and b\n):  # gate: g\n    c()", Never(), "if False:\n    c()"),
    ("if a:\n    b()\nelif c and d:  # gate: g\n    e()", Without(1), "if a:\n    b()\nelif c:\n    e()"),
    ("if a or b or c:  # gate: g\n    d()", Without(1), "if a or c:\n    d()"),
    ("while a:  # gate: g\n    b()", Always(), "while True:\n    b()"),
    ("if (\n    a\n    and b  # gate: g\n    and c\n):\n    d()", Drop(), "if a and c:\n    d()"),
    ("# gate: g\nreturned = a if b else c", Value("a"), "# gate: g\nreturned = a"),
    ("def f():\n    return a + b  # gate: g", Value("ORIGINAL * 2"), "def f():\n    return (a + b) * 2"),
    ("call(\n    a,\n    b,  # gate: g\n)", Drop(), "call(a)"),
    ("call(\n    a,\n    b,\n)  # gate: g", Without(0), "call(b)"),
    ("f(g(a, uid=b))  # gate: g", Without("uid"), "f(g(a))"),
    ("f(a, deep=b)  # gate: g", Value("c", at=("deep",)), "f(a, deep=c)"),
    ("f(a, b)  # gate: g", Value("c", at=(1,)), "f(a, c)"),
    ('x = {\n    "a": {"b": 1, "c": 2},  # gate: g\n}', Without("b"), "x = {'a': {'c': 2}}"),
    ("x = [\n    a,  # gate: g\n    b,\n]", Value("c"), "x = [c, b]"),
    ("rule(\n    'a '\n    'b',  # gate: g\n    c,\n)", Value('"true"'), "rule('true', c)"),
    ("for a in b:  # gate: g\n    c()", Value("()"), "for a in ():\n    c()"),
    ("try:\n    a()\nexcept B:  # gate: g\n    c()", Value("D"), "try:\n    a()\nexcept D:\n    c()"),
    ("with a(b=True):  # gate: g\n    c()", Value("False", at=("b",)), "with a(b=False):\n    c()"),
    ("a.append(b)  # gate: g", Instead("ORIGINAL; a.reverse()"), "a.append(b)\na.reverse()"),
    ("async def f():\n    await g(a)  # gate: g", Without(0), "async def f():\n    await g()"),
]

LISP: list[tuple[str, Operation, str]] = [
    ("(when a  ; gate: g\n  b)", Never(), "(when nil  ; gate: g\n  b)"),
    (";; gate: g\n(if (and a b) c)", Without(0), ";; gate: g\n(if (and  b) c)"),
    ("(cond\n ((a) b)  ; gate: g\n (t c))", Always(), "(cond\n (t b)  ; gate: g\n (t c))"),
    ("(cond ((a) b)  ; gate: g\n      (t c))", Never(at=(0,)), "(cond (nil b)  ; gate: g\n      (t c))"),
    ('(f)\n(g "a ; (" ?\\( ?\\))  ; gate: g', Drop(), "(f)\n  ; gate: g"),
    ("(let ((a (or b c)))  ; gate: g\n  d)", Without(1, at=(0, 0, 0)), "(let ((a (or b )))  ; gate: g\n  d)"),
    ('(defconst a 1  ; gate: g\n  "It.")', Value("2"), '(defconst a 2  ; gate: g\n  "It.")'),
    ("(f 'a)  ; gate: g", Instead("(h ORIGINAL)", at=(0,)), "(f (h 'a))  ; gate: g"),
    ('(setq a "\n[ b ] && c || d  # gate: g\n")', Always(), '(setq a "\ntrue && c || d\n")'),
]

SHELL: list[tuple[str, Operation, str]] = [
    ("  rm a  # gate: g", Drop(), "  :"),
    ("a=$b/c  # gate: g", Value("$b"), "a=$b"),
    ("if [ a ] && [ b ]; then  # gate: g", Without(1), "if [ a ]; then"),
    ("while [ a ]; do  # gate: g", Never(), "while false; do"),
]

YAML: list[tuple[str, Operation, str]] = [
    ("- a: 1  # gate: g\n  b: 2\n- c: 3", Drop(), "- c: 3"),
    ("a: >-  # gate: g\n  b\n  c\nd: 1", Always(), 'a: "true"\nd: 1'),
    ("- expression: a == b  # gate: g", Value("c"), "- expression: c"),
]

CASES = [
    pytest.param(file, *case, id=f"{file}-{number}")
    for file, cases in (("a.py", PYTHON), ("a.el", LISP), ("a.sh", SHELL), ("a.yaml", YAML))
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize(("file", "before", "operation", "after"), CASES)
def test_an_operation_is_done_where_the_marker_is(file: str, before: str, operation: Operation, after: str) -> None:
    (marker,) = markers_of(file, before)
    assert marker.mutate(before + "\n", operation).rstrip("\n") == after


@pytest.mark.parametrize(
    ("file", "text", "operation", "message"),
    [
        ("a.py", "# gate: g\n", Drop(), "a.py:2: gate g: it marks no statement"),
        ("a.py", "a()  # gate: g\n", Without(0), "no operand 0 of 0"),
        ("a.py", "a(b)  # gate: g\n", Without("c"), "has 0 arguments or keys c"),
        ("a.py", "pass  # gate: g\n", Never(), "no condition and no value"),
        ("a.el", ";; gate: g\n\n(a)\n", Drop(), "no form begins on its line"),
        ("a.el", "(a)  ; gate: g\n", Without(0), "has no argument 0"),
        ("a.sh", "a b  # gate: g\n", Never(), "`a b` has no condition and no value"),
        ("a.yaml", "a\n# gate: g\nb\n", Value("c"), "`b` is no entry"),
    ],
)
def test_what_cannot_be_done_is_named_with_its_place(
    file: str, text: str, operation: Operation, message: str
) -> None:
    (marker,) = markers_of(file, dedent(text))
    with pytest.raises(Misplaced, match=message):
        marker.mutate(text, operation)
