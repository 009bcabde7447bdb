"""docs/dev/contracts.toml against each place that spells one of its facts. A test is named for the place it reads."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from efrit.backend.local.mounts import REMOTE_TYPES
from efrit.backend.local.settings import new_instance
from efrit.bridge.reference import with_settings
from efrit.errors import InvalidRequest
from efrit.protocol import Request
from efrit.protocol.process_place import ProcessPlace
from tests.unit.contracts import elisp, sides
from tests.unit.contracts.elisp import REPOSITORY

TABLE: dict[str, Any] = tomllib.loads((REPOSITORY / "docs/dev/contracts.toml").read_text())
VARIABLES: dict[str, dict[str, list[str]]] = TABLE["variables"]
NAMES: dict[str, dict[str, Any]] = TABLE["queue"]["names"]
MEMBERS: dict[str, list[str]] = TABLE["members"]


def in_table(side: str, way: str) -> set[str]:
    return {name for name, row in VARIABLES.items() if side in row[way]}


@pytest.mark.parametrize("side", ["chart", "pod-bridge", "pod-emacs", "run-emacs", "lisp"])
def test_a_side_sets_the_variables_of_the_table(side: str) -> None:
    assert sides.set_by()[side] == in_table(side, "set"), (
        f"next is {side} in docs/dev/contracts.toml, or what sets it"
    )


@pytest.mark.parametrize("side", ["controller", "bridge", "run-emacs", "lisp", "git-helper"])
def test_a_side_reads_the_variables_of_the_table(side: str) -> None:
    reader = {"lisp": "efrit-settings.el", "run-emacs": "run-emacs.sh"}.get(
        side, f"operator/efrit/{side}/settings.py"
    )
    assert sides.read_by()[side] == in_table(side, "read"), f"next is {reader}, or docs/dev/contracts.toml"


def test_the_clients_name_the_variables_of_the_table() -> None:
    names = in_table("client", "set") | in_table("client", "read")
    # What only Emacs reads is explained to whoever sets it.
    explained = {name for name, row in VARIABLES.items() if "user" in row["set"] and row["read"] == ["lisp"]}
    assert names <= sides.mentioned_by_clients() <= names | explained


@pytest.mark.parametrize(
    ("setter", "readers"),
    [("pod-bridge", {"bridge"}), ("pod-emacs", {"lisp", "run-emacs"}), ("chart", {"controller"})],
)
def test_what_a_container_is_given_it_reads(setter: str, readers: set[str]) -> None:
    unread = {name for name in in_table(setter, "set") if not readers & set(VARIABLES[name]["read"])}
    assert unread == set()


def test_a_variable_is_set_by_somebody_and_read_by_somebody() -> None:
    assert [name for name, row in VARIABLES.items() if not row["set"] or not row["read"]] == []


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_page_names_no_variable_that_is_not_in_the_table(page: Path) -> None:
    # EFRIT_TOKEN is a variable of the reader's own shell.
    assert set(sides.VARIABLE.findall(page.read_text())) - {"EFRIT_TOKEN"} <= set(VARIABLES)


def test_the_settings_of_the_bridge_are_in_its_page() -> None:
    page = (REPOSITORY / "docs/bridge.md").read_text()
    assert with_settings(page) == page, "next is `make docs`"
    with pytest.raises(ValueError, match="the page has no lines"):
        with_settings("# The bridge\n")


def test_lisp_and_python_make_the_directories_of_the_table() -> None:
    areas = importlib.import_module("efrit.queue.layout").Area
    assert sides.directories_in_lisp() == TABLE["queue"]["directories"]
    assert {area.value for area in areas} - {"."} == set(TABLE["queue"]["directories"])


@pytest.mark.parametrize("side", ["lisp", "shell"])
def test_a_side_spells_the_names_of_the_table(side: str) -> None:
    names = sides.names_in_lisp() if side == "lisp" else sides.names_in_shell()
    table = {name for name, row in NAMES.items() if side in row.get("sides", ())}
    # A pattern for all of them, or a directory, is not a name.
    names = {name for name in names if not name.endswith(("/", "_*/")) and name not in TABLE["queue"]["directories"]}
    names = {re.sub(r"pause_\*+$", "pause_*", name) for name in names}
    assert names == table


@pytest.mark.parametrize("name", [name for name, row in NAMES.items() if "python" in row])
def test_python_spells_a_name_as_the_table_does(name: str) -> None:
    assert sides.python_value(NAMES[name]["python"]) == name.rpartition("/")[2]


@pytest.mark.parametrize("module", ["efrit.queue.layout", "efrit.protocol.ids"])
def test_every_name_of_python_is_in_the_table(module: str) -> None:
    assert sides.python_constants(module) <= {row.get("python") for row in NAMES.values()}


@pytest.mark.parametrize(
    ("members", "function"),
    [
        ("response", "efrit-answer--json"),
        ("heartbeat", "efrit-health--facts"),
        ("self_check", "efrit-self-check-facts"),
    ],
)
def test_emacs_writes_the_members_of_the_table(members: str, function: str) -> None:
    # A session adds its own at the end of the answer.
    own = [name for name in MEMBERS[members] if members != "response" or name not in {"session", "progress", "usage"}]
    assert elisp.alist_keys(elisp.definition(function)) == own


def test_emacs_writes_the_members_of_sessions_and_their_figures() -> None:
    keys = elisp.alist_keys(elisp.definition("efrit-session--extra"))
    assert set(keys) == {"session", "progress", "usage", *MEMBERS["session"], *MEMBERS["usage"]}
    (note,) = [call for call in elisp.calls("efrit-progress-note") if call[1] == "progress"]
    named = [part.name[1:] for part in note if isinstance(part, elisp.Symbol) and part.name.startswith(":")]
    assert named == MEMBERS["progress"]


def test_emacs_reads_the_members_of_a_request() -> None:
    forms = elisp.sources()["efrit-queue-request.el"]
    read = {call[0] for form in forms for call in elisp.calls("gethash", form)}
    read |= {call[0] for form in forms for call in elisp.calls("option", form)}
    bounds = elisp.definition("efrit-request--bounds")[2]
    assert isinstance(bounds, tuple)
    read |= {bound[2] for bound in bounds if isinstance(bound, tuple)}
    assert {name for name in read if isinstance(name, str)} == set(MEMBERS["request"])


@pytest.mark.parametrize(
    ("members", "models", "only_there"),
    [
        # Emacs has no use for the metadata of a request, which the bridge keeps.
        ("request", ["Request", "RequestOptions", "Budget", "SessionOption"], {"metadata"}),
        ("response", ["Response"], set()),
        ("session", ["Session"], set()),
        ("usage", ["Usage"], set()),
        ("progress", ["Progress"], set()),
        ("self_check", ["SelfCheckReport"], set()),
    ],
)
def test_the_models_have_the_members_of_the_table(members: str, models: list[str], only_there: set[str]) -> None:
    assert {name for model in models for name in fields_of(model)} == set(MEMBERS[members]) | only_there


def test_the_page_about_the_queue_describes_every_key_of_an_answer() -> None:
    page = (REPOSITORY / "docs/queue.md").read_text()
    table = page.partition("| key of an answer |")[2].partition("\n\n")[0]
    described = {
        key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert described == set(TABLE["members"]["response"])


def test_the_bridge_reads_nothing_of_a_heartbeat_that_emacs_does_not_write() -> None:
    # Of a user's init file, and of the host, only a laptop's client tells.
    assert set(fields_of("Heartbeat")) == set(MEMBERS["heartbeat"]) - {"init_problem"}


def test_emacs_writes_of_its_host_what_the_table_says_and_nothing_else_is_read() -> None:
    written = [elisp.alist_keys(elisp.definition(name)) for name in ("efrit-host-identity", "efrit-health--server")]
    assert [name for names in written for name in names] == MEMBERS["server"]
    assert {*ProcessPlace.__struct_fields__, "state"} <= set(MEMBERS["server"])


def test_a_file_system_is_remote_on_both_sides_or_on_neither() -> None:
    assert elisp.definition("efrit-host--remote-types")[2] == REMOTE_TYPES


def fields_of(model: str) -> list[str]:
    for module in ("request", "response", "session", "view"):
        model_class = getattr(importlib.import_module(f"efrit.protocol.{module}"), model, None)
        if model_class is not None:
            return list(model_class.__annotations__)
    raise AssertionError(f"efrit.protocol has no {model}")


@pytest.mark.parametrize("kind", TABLE["words"])
def test_python_has_the_words_of_the_table(kind: str) -> None:
    words = sides.python_value(TABLE["words"][kind]["python"])
    assert {str(word) for word in words} == set(TABLE["words"][kind]["lisp"])


@pytest.mark.parametrize("kind", TABLE["words"])
def test_emacs_spells_the_words_of_the_table(kind: str) -> None:
    assert set(TABLE["words"][kind]["lisp"]) - elisp.strings() == set()


def test_emacs_knows_the_types_of_the_table_in_their_order() -> None:
    assert elisp.definition("efrit-request-types")[2] == tuple(TABLE["words"]["type"]["lisp"])


@pytest.mark.parametrize(
    ("fact", "place"),
    [
        pytest.param(fact, place, id=f"{fact['name']}: {place}")
        for fact in TABLE["values"]
        for place in fact["places"]
    ],
)
def test_a_place_has_the_value_of_the_table(fact: dict[str, Any], place: str) -> None:
    values = sides.values_at(place)
    assert values, f"{place} is not there"
    for value in values:
        if place.startswith("text:"):
            assert value.casefold() == str(fact["value"]).casefold()
        else:
            assert value == fact["value"]


def test_every_default_that_both_sides_have_is_in_the_table() -> None:
    places = {place for fact in TABLE["values"] for place in fact["places"]}
    variables = in_table("pod-emacs", "set")
    symbols = {
        form[1].name
        for form in elisp.constants()
        for call in elisp.calls("efrit-settings-env-number", form)
        if call[0] in variables and isinstance(form[1], elisp.Symbol)
    }
    assert symbols
    missing = {symbol for symbol in symbols if f"lisp:{symbol}" not in places}
    assert missing == set(), "next is a row of [[values]] in docs/dev/contracts.toml"


def test_no_request_may_run_longer_than_emacs_allows() -> None:
    (most,) = [fact["value"] for fact in TABLE["values"] if fact["name"].startswith("longest time limit")]

    def request(timeout: int) -> str:
        return json.dumps({"id": "a", "type": "eval", "content": "1", "options": {"timeout": timeout}})

    assert Request.parse(request(most)).options.timeout == most
    with pytest.raises(InvalidRequest):
        Request.parse(request(most + 1))


def test_a_client_makes_the_default_queue_where_emacs_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (below,) = [fact["value"] for fact in TABLE["values"] if fact["name"].startswith("queue of the default")]
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert new_instance("default").queue_dir == Path("/state") / below


def test_every_function_that_python_calls_in_emacs_exists() -> None:
    called = {
        name
        for path in (REPOSITORY / "operator/efrit").rglob("*.py")
        for name in re.findall(r"\((efrit-[a-z-]+[a-z])[ )]", path.read_text())
    }
    assert called
    assert called <= elisp.defined_functions()
