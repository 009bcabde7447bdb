from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.api import EfritPlan
from efrit.errors import InvalidPlanRecord, InvalidTree
from efrit.plan.cursor import parse_cursor
from efrit.plan.initial_tree import initial_tree
from efrit.plan.lisp_calls import LONGEST_PLAIN, arguments_of, form, packed, unpacked, value_of
from efrit.plan.tree import ids_of
from tests.unit.plan.trees import atomic, parent
from tests.unit.plan.world import plan_json

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_any_arguments_pass_a_form(arguments: dict[str, Any]) -> None:
    assert arguments_of(form("look", arguments)) == arguments


@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans())
def test_any_answer_is_read_as_lisp_prints_it(answer: dict[str, Any], plain_ascii: bool) -> None:
    text = json.dumps(answer, ensure_ascii=plain_ascii)
    assert value_of('"' + re.sub(r'["\\]', r"\\\g<0>", text) + '"') == answer


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfff\0"])
def test_what_emacs_cannot_read_is_replaced(text: str) -> None:
    content = form("look", {"text": [text]})
    assert "\\u0000" not in content
    assert set(arguments_of(content)["text"][0]) <= {"a", "b", "\ufffd"}


@given(st.one_of(st.text(), st.text('"\\{}:,a1[]n', max_size=30).map(lambda text: f'"{text}"')))
def test_any_text_is_a_value_or_an_error_in_words(text: str) -> None:
    with contextlib.suppress(InvalidPlanRecord):
        assert isinstance(value_of(text), dict)


def test_long_values_travel_packed_and_always_alike() -> None:
    tree = parent("root", *(atomic(f"t{n}") for n in range(1_999)))
    text = tree.model_dump_json()
    assert len(text) > LONGEST_PLAIN
    assert packed(text) == packed(text)
    assert len(packed(text)["packed"]) < 60_000
    assert unpacked(packed(text)) == json.loads(text)
    assert packed("[1]") == {"value": [1]}


@pytest.mark.parametrize("payload", [None, {}, {"packed": "!"}, {"packed": "eA=="}, {"packed": 1}])
def test_a_payload_of_another_shape_is_an_error_in_words(payload: object) -> None:
    with pytest.raises(InvalidPlanRecord):
        unpacked(payload)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'"' + b"x" * (8 << 20) + b'"', "larger than 8 MiB"),
        (b"[" + b"[]," * 200_000 + b"1]", "more parts than a plan"),
    ],
    ids=["long", "many parts"],
)
def test_a_small_packed_value_that_becomes_a_large_one_is_refused_before_it_is_parsed(
    text: bytes, reason: str
) -> None:
    small = base64.b64encode(gzip.compress(text)).decode()
    assert len(small) < 30_000

    with pytest.raises(InvalidPlanRecord, match=reason):
        unpacked({"packed": small})


@given(st.dictionaries(st.sampled_from(["step", "kind", "tree", "amendments", "commits", "totals"]), VALUES))
def test_any_position_is_read_or_an_error_in_words(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidPlanRecord):
        parse_cursor(value)


def test_the_tasks_of_a_spec_become_the_first_tree() -> None:
    tasks = [
        {"name": "api", "type": "parent", "description": "x"},
        {"name": "docs", "description": "x"},
        {"name": "read", "parent": "api", "description": "x"},
    ]
    tree = initial_tree(EfritPlan.model_validate(plan_json(tasks=tasks)).spec)
    assert ids_of(tree) == ["root", "api", "read", "docs"]
    assert tree.description == "A program that counts words."


@pytest.mark.parametrize(
    "tasks",
    [
        [{"name": "a", "parent": "gone", "description": "x"}],
        [{"name": "a", "description": "x"}, {"name": "a", "description": "x"}],
        [{"name": "a", "description": "x"}, {"name": "b", "parent": "a", "description": "x"}],
        [{"name": "a", "type": "parent", "description": "x"}, {"name": "a", "parent": "a", "description": "x"}],
    ],
)
def test_tasks_that_are_no_tree_are_refused(tasks: list[dict[str, str]]) -> None:
    with pytest.raises(InvalidTree, match=r"spec\.tasks"):
        initial_tree(EfritPlan.model_validate(plan_json(tasks=tasks)).spec)
