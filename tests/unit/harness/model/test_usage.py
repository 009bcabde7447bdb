"""What the model server says was used, and what of it came from the prompt cache."""

from __future__ import annotations

from typing import Any

from tests.model.usage import LEAST_CACHED
from tests.unit.harness.model.conftest import Client, tool

Json = dict[str, Any]
MARK = {"cache_control": {"type": "ephemeral"}}
LONG = "You act in Emacs. " * 400


def ask(client: Client, *turns: str, system: str = LONG, marked: bool = True) -> Json:
    """Ask as the product does: marks on the system, the last tool and the last block of the user."""
    mark = MARK if marked else {}
    messages: list[Json] = []
    for number, words in enumerate(turns):
        block = {"type": "text", "text": words} | (mark if number == len(turns) - 1 else {})
        messages.append({"role": ("user", "assistant")[number % 2], "content": [block]})
    client.model.play("plain", "[[turn]]\nturns = 0\n[[turn.reply]]\ntext = 'yes'")
    blocks = [{"type": "text", "text": system} | mark]
    return dict(client.message(messages, system=blocks, tools=[tool("a"), tool("b") | mark])["usage"])


def parts(usage: Json) -> tuple[int, int, int]:
    return usage["input_tokens"], usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]


def test_the_prompt_is_written_first_and_read_in_the_next_turn(client: Client) -> None:
    new, written, read = parts(ask(client, "scenario=plain"))
    assert (new, read) == (0, 0)
    assert written > LEAST_CACHED
    new, more, read = parts(ask(client, "scenario=plain", "yes", "go on"))
    assert (new, read) == (0, written)
    assert 0 < more < 50


def test_another_beginning_is_written_anew(client: Client) -> None:
    ask(client, "scenario=plain")
    _, written, read = parts(ask(client, "scenario=plain", system="Other. " + LONG))
    assert read == 0
    assert written > LEAST_CACHED


def test_without_marks_and_below_the_least_nothing_is_cached(client: Client) -> None:
    for _ in range(2):
        assert parts(ask(client, "scenario=plain", marked=False))[1:] == (0, 0)
        assert parts(ask(client, "scenario=plain", system="Short."))[1:] == (0, 0)
