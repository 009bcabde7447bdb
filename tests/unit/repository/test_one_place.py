"""What one file alone may do: parse answers, make requests visible to Emacs, change the slots of a session."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.contracts import elisp
from tests.unit.contracts.elisp import REPOSITORY, Form, Symbol

PRODUCT = REPOSITORY / "operator/efrit"

# Answer files and request files, in Python


def calls(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each call of a function or method of something: what it is called on, its name, its arguments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            on, _, name = ast.unparse(node.func).rpartition(".")
            yield (
                on,
                name,
                [ast.unparse(argument) for argument in (*node.args, *(key.value for key in node.keywords))],
            )


def parses_answer(text: str) -> bool:
    return any(
        (on.endswith("Response") and name in ("parse", "from_dict"))
        or (name == "read" and arguments[:1] == ["Response"])
        or (name in ("decode", "convert") and "Response" in arguments)
        for on, name, arguments in calls(text)
    )


DESTINATION = {"publish": 1, "create": 0, "link": 2, "rename": 2}
"""Which argument of what writes a file into a queue is the folder that has it then."""


def puts_into_requests(text: str, *ways: str) -> bool:
    return any(
        name in ways and arguments[DESTINATION[name] : DESTINATION[name] + 1] == ["Area.REQUESTS"]
        for _, name, arguments in calls(text)
    )


def files_that_name(word: str) -> Iterator[tuple[str, str]]:
    for path in sorted(PRODUCT.rglob("*.py")):
        text = path.read_text()
        if word in text:
            yield path.relative_to(PRODUCT).as_posix(), text


def test_one_file_parses_answers() -> None:
    assert [name for name, text in files_that_name("Response") if parses_answer(text)] == ["queue/answers.py"]


def test_one_file_makes_requests_visible_to_emacs() -> None:
    files = list(files_that_name("Area.REQUESTS"))
    assert [name for name, text in files if puts_into_requests(text, "publish", "create", "link")] == [
        "queue/submit.py"
    ]
    # One that was withdrawn is put back as it is.
    assert [name for name, text in files if puts_into_requests(text, "rename")] == ["queue/cancel.py"]


@pytest.mark.parametrize(
    "text",
    [
        "response = protocol.Response.parse(data)",
        "answer = read(Response, loaded)",
        "answer = msgspec.json.decode(data, type=Response)",
    ],
)
def test_another_parser_of_answers_is_noticed(text: str) -> None:
    assert parses_answer(text)
    assert not parses_answer(text.replace("Response", "Request"))


@pytest.mark.parametrize(
    "text",
    [
        "disk.link(Area.TMP, temporary, Area.REQUESTS, name)",
        "self.disk.create(Area.REQUESTS, name, data)",
        "publish(disk, Area.REQUESTS, name, data)",
    ],
)
def test_another_writer_of_requests_is_noticed(text: str) -> None:
    assert puts_into_requests(text, *DESTINATION)
    assert not puts_into_requests(text.replace("REQUESTS", "ARCHIVE"), *DESTINATION)
    assert not puts_into_requests("disk.link(Area.REQUESTS, name, Area.TMP, temporary)", *DESTINATION)


# The slots of a session, in Lisp

SESSION = "efrit-session-state.el"
LAST_PLACE = {"push", "cl-pushnew"}
FIRST_PLACE = {
    *("pop", "cl-incf", "cl-decf", "incf", "decf", "cl-callf", "setcar", "setcdr", "nconc", "nreverse"),
    *("add-to-list", "cl-remf", "cl-rotatef", "cl-shiftf", "plist-put", "delq", "delete"),
}
PARTS = {
    "plist-get",
    "alist-get",
    "assoc",
    "assq",
    "car",
    "cdr",
    "cadr",
    "cddr",
    "nth",
    "nthcdr",
    "last",
    "gethash",
    "aref",
}


def slots() -> set[Symbol]:
    """Return the accessors of the structure of a session."""
    (structure,) = (
        form[2:]
        for form in elisp.sources()[SESSION]
        if isinstance(form, tuple)
        and form[0] == Symbol("cl-defstruct")
        and isinstance(form[1], tuple)
        and form[1][0] == Symbol("efrit-session")
    )
    names = [slot[0] if isinstance(slot, tuple) else slot for slot in structure]
    return {Symbol(f"efrit-session-{name.name}") for name in names if isinstance(name, Symbol)}


def changed_places(form: Form) -> Iterator[Form]:
    """Yield what a form changes, for each form in it that changes something."""
    for part in elisp.inside(form):
        if isinstance(part, tuple) and part and isinstance(part[0], Symbol):
            name, arguments = part[0].name, part[1:]
            if name in ("setf", "cl-psetf"):
                yield from arguments[::2]
            elif name in FIRST_PLACE:
                yield from arguments[:1]
            elif name in LAST_PLACE:
                yield from arguments[1:2]


def within(place: Form) -> Iterator[Form]:
    """Yield a place and those that it is a part of: a member of a slot's list is one of the slot."""
    yield place
    if isinstance(place, tuple) and place and isinstance(place[0], Symbol) and place[0].name in PARTS:
        for argument in place[1:]:
            yield from within(argument)


def changed_slots(forms: list[Form]) -> set[str]:
    accessors = slots()
    return {
        part[0].name
        for form in forms
        for place in changed_places(form)
        for part in within(place)
        if isinstance(part, tuple) and part and isinstance(part[0], Symbol) and part[0] in accessors
    }


def test_the_slots_of_a_session_are_changed_in_one_file() -> None:
    changed = {name: changed_slots(forms) for name, forms in elisp.sources().items()}
    assert len(changed.pop(SESSION)) > 10
    assert {name: found for name, found in changed.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "(setf other 1 (efrit-session-state session) 'over)",
        "(when done (cl-incf (efrit-session-model-calls session)))",
        "(push call (efrit-session-calls session))",
        "(setf (plist-get (efrit-session-usage session) :input) 1)",
        "(setcar (efrit-session-said session) nil)",
    ],
)
def test_a_slot_that_is_changed_elsewhere_is_noticed(text: str) -> None:
    assert changed_slots(elisp.read(text))
    reads = "(setf other (efrit-session-state session)) (push (efrit-session-call s) x)"
    # A slot of what the session has is not one of the session.
    of_another = "(setf (efrit-tool-context-deadline (efrit-session-context session)) 1)"
    assert not changed_slots(elisp.read(reads + of_another))
