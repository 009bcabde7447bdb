from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.plan.model_output import (
    AnsweredObservation,
    Malformed,
    Observations,
    parse_answer,
    parse_observations,
    schema_text,
)
from efrit.plan.operations import Answer, Refine, Verdict
from efrit.protocol.plan_enums import Perspective
from tests.unit.plan.answers import answers
from tests.unit.plan.trees import parent

SEEN = {"observations": [{"perspective": "build", "statement": "It compiles.", "evidence": "exit code 0"}]}
DONE: dict[str, Any] = {"verdict": "done", "reason": "all tests pass", "operations": []}


def test_observations_are_read() -> None:
    fact = AnsweredObservation(perspective=Perspective.BUILD, statement="It compiles.", evidence="exit code 0")
    assert parse_observations(json.dumps(SEEN)) == Observations(observations=(fact,))


@pytest.mark.parametrize(
    "around",
    ["{}", "  {}\n", "```json\n{}\n```", "```\n{}\n```", "Here it is:\n\n```json\n{}\n```\nThat is all.", "{}\r\n"],
)
def test_a_code_fence_and_words_around_it_do_no_harm(around: str) -> None:
    assert isinstance(parse_answer(around.replace("{}", json.dumps(DONE))), Answer)


def test_a_fence_inside_a_text_is_part_of_the_text() -> None:
    output = {
        **DONE,
        "operations": [{"operation": "refine", "task": "a", "description": "write\n```sh\nmake\n```\n"}],
    }
    answer = parse_answer("```json\n" + json.dumps(output, indent=2) + "\n```")
    assert isinstance(answer, Answer)
    assert isinstance(answer.operations[0], Refine)
    assert answer.operations[0].description == "write\n```sh\nmake\n```\n"


@pytest.mark.parametrize("key", ["decision", "recommendation", "verdict", "next"])
@pytest.mark.parametrize("inside", [True, False])
def test_observations_have_no_place_for_a_decision(key: str, inside: bool) -> None:
    output = json.loads(json.dumps(SEEN))
    (output["observations"][0] if inside else output)[key] = "go on"
    refused = parse_observations(json.dumps(output))
    assert isinstance(refused, Malformed)
    assert key in refused.sentences[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "maybe"}, "verdict"),
        ({"reason": ""}, "reason"),
        ({"reason": None}, "reason"),
        ({"operations": [{"operation": "rename", "task": "a"}]}, "operations.0"),
        ({"operations": [{"operation": "retry"}]}, "task"),
        ({"operations": [{"operation": "decompose", "task": "a", "tasks": []}]}, "tasks"),
        ({"operations": [{"operation": "refine", "task": "a", "description": "x" * 4_001}]}, "description"),
        (
            {
                "operations": [
                    {
                        "operation": "insert",
                        "parent": "a",
                        "tasks": [{"id": "mine", "type": "atomic", "description": "x"}],
                    }
                ]
            },
            "id",
        ),
        ({"intent": "something easier"}, "intent"),
    ],
)
def test_an_answer_of_another_shape_is_malformed_and_the_place_is_named(change: dict[str, Any], message: str) -> None:
    malformed = parse_answer(json.dumps({**DONE, **change}))
    assert isinstance(malformed, Malformed)
    assert message in malformed.sentences[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("I think it is done.", "no JSON object"),
        ("```\n{}\n```\n```\n{}\n```", "2 code blocks"),
        ('{"verdict": "done"', "JSON"),
        ("[]", "no JSON object"),
        ("{" + "[" * 100_000, "parts"),
    ],
)
def test_a_text_that_holds_no_answer_is_malformed(text: str, message: str) -> None:
    malformed = parse_answer(text)
    assert isinstance(malformed, Malformed)
    assert message in malformed.sentences[0]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=10,
)
KEYS = st.sampled_from(["verdict", "reason", "operations", "observations", "tasks", "task", "operation", "type"])
CLOSE = st.one_of(
    st.text(st.characters()),  # lone surrogates, too
    JSON.map(json.dumps),
    st.dictionaries(KEYS, JSON).map(json.dumps),
    st.builds(lambda text, at: json.dumps(DONE)[:at] + text, st.text(st.characters()), st.integers(0, 60)),
    st.text('{}[]",:`\n\\ud8', max_size=40).map(lambda text: "```json\n" + text + "\n```"),
)


@given(CLOSE)
def test_any_text_gives_a_value_or_a_sentence(text: str) -> None:
    for parse in (parse_answer, parse_observations):
        result = parse(text)
        assert isinstance(result, Answer | Observations | Malformed)
        if isinstance(result, Malformed):
            assert all(sentence.strip() for sentence in result.sentences)


@given(answers(parent("root", parent("a"))))
def test_every_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert parse_answer(answer.model_dump_json()) == answer


def test_the_schemas_say_what_is_allowed() -> None:
    answer, observations = json.loads(schema_text(Answer)), json.loads(schema_text(Observations))
    assert answer["$defs"]["Verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert answer["additionalProperties"] is False
    fact = observations["$defs"]["Observation"]
    assert set(fact["properties"]) == {"perspective", "statement", "evidence"}
    assert fact["additionalProperties"] is False
