"""The Lisp decides nothing: what a model gets has no advice in it, and what is said is not looked into.

A new match on text in the code path of a conversation fails here, and is then looked at by a person: on what does it
match? On the shape of the protocol it may, on the meaning of content it may not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from efrit.plan import messages

LISP = Path(__file__).parents[3] / "images/emacs/lisp"

MATCHING = re.compile(
    r"\((?:string-match|string-match-p|re-search-\w+|search-forward|search-backward|looking-at(?:-p)?|string-search"
    r"|string-prefix-p|string-suffix-p|assoc-string|string-distance|replace-regexp-in-string|rx|pcase-exhaustive)\b"
)

# What a file of the conversation's code path matches, and on what.
KNOWN = {
    "efrit-session-history.el": (3, "whether the lines of its own file are whole"),
    "efrit-session-prompt.el": (1, "the names of Emacs' own buffers begin with a space"),
    "efrit-model-retry.el": (1, "retry-after: a number or a date"),
    "efrit-model.el": (4, "content-type, and of the URLs of the model and the proxy the scheme and the password"),
    "efrit-model-curl.el": (8, "the head of an HTTP response, and the line that curl prints of itself"),
    "efrit-model-sse.el": (4, "the fields of server-sent events"),
    "efrit-tools-buffers.el": (1, "the name of a major mode's command"),
    "efrit-tools-find.el": (17, "the syntax of glob patterns, and absolute paths"),
    "efrit-tools-shell.el": (1, "whether output ends its last line"),
    "efrit-tools-text.el": (1, "where the text to be replaced is, as given"),
    "efrit-session.el": (1, "the end of the line with the status, in a block it has recorded itself"),
    "efrit-text.el": (1, "whether a text ends its last line"),
}
PATH = sorted(
    [*LISP.glob("efrit-session*.el"), *LISP.glob("efrit-tool*.el"), *LISP.glob("efrit-model*.el")]
    + [LISP / f"efrit-{name}.el" for name in ("text", "do")]
)

ADVICE = re.compile(
    r"\b(should|shall|try|consider|recommend\w*|suggest\w*|prefer\w*|best|better|usually|typically|often|careful\w*"
    r"|make sure|remember|avoid|for example|e\.g|such as|hint|tip|step by step|think|lexical.binding|fix\w*"
    r"|correct\w*|solve|solution|improve)\b",
    re.IGNORECASE,
)


def code(path: Path) -> str:
    """Return a file without its comments and documentation."""
    text = re.sub(r"^\s*;.*$", "", path.read_text(), flags=re.MULTILINE)
    return re.sub(r";.*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", PATH, ids=lambda path: path.stem)
def test_what_is_said_is_not_looked_into(path: Path) -> None:
    matches = MATCHING.findall(code(path))
    expected, on_what = KNOWN.get(path.name, (0, "nothing"))
    assert len(matches) == expected, (
        f"{path.name} matches text {len(matches)} times; known are {expected}, on {on_what}: {matches}"
    )


def test_the_prompts_say_how_it_works_and_give_no_advice() -> None:
    text = (LISP / "efrit-session-prompt.el").read_text()
    prompts = re.findall(r'\(defconst efrit-prompt-\w+\s+"((?:[^"\\]|\\.)*)"', text)
    assert len(prompts) == 3
    for prompt in prompts:
        assert not ADVICE.findall(prompt)


def test_the_messages_of_a_plan_name_roles_and_protocol_and_give_no_advice() -> None:
    texts = [
        text for name, text in vars(messages).items() if re.fullmatch(r"_[A-Z]+", name) and isinstance(text, str)
    ]
    assert len(texts) == 5
    words = {word[0].lower() for text in texts for word in ADVICE.finditer(text)}
    # "a better way" is what the navigator looks for, "recommend nothing" what the assessor gets.
    assert words == {"better", "recommend"}, "CONTRIBUTING.md says what the messages of a plan may contain"


def test_contributing_states_the_rule() -> None:
    contributing = (LISP.parents[2] / "CONTRIBUTING.md").read_text()
    assert "**Pure executor**" in contributing
    assert "test_pure_executor.py" in contributing


def test_the_descriptions_of_tools_give_no_advice() -> None:
    offered = (LISP.parent / "test/tools-offered.jsonl").read_text()
    described = re.findall(r'"description":"((?:[^"\\]|\\.)*)"', offered)
    assert len(described) > 40
    for words in described:
        assert not ADVICE.findall(words), words
