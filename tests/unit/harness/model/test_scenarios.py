"""The scenarios themselves: each can be played by a client that keeps the rules of the workflow."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.model.__main__ import SCENARIOS
from tests.model.scenario import Block, Scenario, ScenarioError, Turn, parse, read_folder
from tests.unit.repository.tool_definitions import definitions

# What `efrit doctor` asks comes from outside Emacs: no request begins it.
ALL = {name: scenario for name, scenario in read_folder(SCENARIOS).items() if name != "probe"}


def kinds() -> dict[str, str]:
    """Return the kind of each tool."""
    return {tool.name: tool.kind for tool in definitions()}


def calls(turn: Turn) -> Iterator[Block]:
    return (block for block in turn.reply if block.tool and not block.loose)


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL.keys())
def test_what_succeeds_says_how(scenario: Scenario) -> None:
    for request in scenario.request:
        assert request.type in ("chat", "command")
        assert (request.reason == "Succeeded") <= (request.result is not None)
        assert (request.reason == "InputRequired") == (request.question is not None)
        for pattern in (request.result, request.question, request.error, *scenario.files_after.values()):
            re.compile(pattern or "")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("", "has no \\[\\[turn\\]\\]"),
        ("turn = 1", "turn is a list of tables"),
        ("[[turn]]\nwhen = 1", "turn 1: unknown when; there is expect, reply"),
        ("[[turn]]", "turn 1: has no \\[\\[turn.reply\\]\\]"),
        ("[[turn]]\n[[turn.reply]]\nstatus = 'continue'", "a reply is one of text, tool, elisp, thinking"),
        ("[[turn]]\n[[turn.reply]]\ntext = 'a'\ntool = 'b'", "a reply is one of"),
        ("[[turn]]\n[[turn.reply]]\nelisp = '1'\nstatus = 'done'", "status is one of"),
        ("[[turn]]\nstop_reason = 'tired'\n[[turn.reply]]\ntext = 'a'", "stop_reason is one of"),
        (
            "[[turn]]\nturns = 0\n[[turn.reply]]\ntext = 'a'\n[[turn]]\n[[turn.reply]]\ntext = 'b'",
            "only the last turn",
        ),
        ("[[turn]]\nexpect.user = ['(']\n[[turn.reply]]\ntext = 'a'", "is no regular expression"),
        ("[[turn]]\nexpect.offer = ['x']\n[[turn.reply]]\ntext = 'a'", "unknown offer"),
        ("[[turn]]\nexpect.cached = ['x']\n[[turn.reply]]\ntext = 'a'", "cached names"),
        ("[[turn]]\n[[turn.reply]]\ntext = 'a'\n[[turn.fault]]\nhow = 'x'", "how a stream is cut"),
        ("protocol = 'mail'\n[[turn]]\n[[turn.reply]]\ntext = 'a'", "protocol is"),
        ("[[turn]\n", "bad: "),
    ],
)
def test_a_scenario_that_is_not_well_formed_is_refused(toml: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse("bad", toml)


def test_turns_that_are_alike_are_counted() -> None:
    turns = parse(
        "many",
        "[[turn]]\nturns = 2\n[[turn.reply]]\ntext = 'a'\n[[turn]]\n[[turn.reply]]\ntext = 'b'",
    )
    texts = [turn.reply[0].text if turn else None for turn in map(turns.turn_of, range(4))]
    assert texts == ["a", "a", "b", None]


def test_every_tool_is_called_in_some_scenario() -> None:
    called = {call.tool for scenario in ALL.values() for turn in scenario.turn for call in calls(turn)}
    assert sorted(kinds().keys() - called) == [], "next is a turn in tests/model/scenarios"
