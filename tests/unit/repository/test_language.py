"""Words of a former dialect do not come back: not in the product, the chart, the tests, nor in what users read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.paths import REPOSITORY

READ = ("operator", "images", "charts", "samples", "docs", "tests", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
KINDS = {".py", ".el", ".md", ".yaml", ".yml", ".tpl", ".txt", ".sh", ".toml", ".ipynb"}

INSTEAD = {
    r"signs? of life": "Emacs is responding; a heartbeat",
    r"look_?again": "RequeueAfter; requeue",
    r"(?:an?|each|every|two|such|next|last|first) looks?": "a check, scan, poll or read",
    r"c(?:omes?|ame) again": "is retried; is submitted again",
    r"janitors?": "resync",
    r"clemency": "recover",
    r"cramped": "reduced",
    r"leaves? no room": "leaves too little space",
    r"not now:": "temporarily unavailable:",
    r"--for`? was over": "--for elapsed",
    r"bridge failed at this": "internal error; see the bridge log",
    r"what is no http": "what is not HTTP; non-HTTP input",
    r"other news": "other changes",
    r"news of (?:an?|the|each)": "changes of",
    r"bridge_news": "bridge_events",
    r"ghosts?": "stale objects",
    r"hear(?:s|d)? of": "is reported to; has received",
    r"it was to get": "its recorded answer",
    r"efrit-world": "efrit-tool-context",
    r"plan-past": "efrit-plan-history",
    r"class (?:stage|ground|hand|fate)": "cluster, workload, nemesis",
    r"nemesis strikes": "the nemesis injects a fault",
}
"""What is not said here -> what is. Only what has no other meaning in the field."""

OLD = {re.compile(pattern): re.compile(rf"(?<![\w-]){pattern}(?!\w)") for pattern in INSTEAD}
"""What is searched for first, because it is fast, and as a word."""


def _files() -> Iterator[Path]:
    for name in READ:
        place = REPOSITORY / name
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (file for file in files if file.suffix in KINDS and file.is_file())


def _old_words(text: str) -> Iterator[str]:
    lower = text.lower()
    for anywhere, word in OLD.items():
        for match in word.finditer(lower) if anywhere.search(lower) else ():
            number = lower.count("\n", 0, match.start()) + 1
            yield f"{number}: {match[0]!r}; say: {INSTEAD[anywhere.pattern]}"


def test_old_words_are_not_used() -> None:
    found = [
        f"{file.relative_to(REPOSITORY)}:{word}"
        for file in _files()
        if file != Path(__file__)
        for word in _old_words(file.read_text(errors="replace"))
    ]
    assert not found, "old words:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Emacs gives signs of life.",
        "return LookAgain(delay)",
        "It is stopped at the next look.",
        "Looks that failed and come again.",
        "Its spec leaves no room for more in the status.",
        "class Hand:",
        "temporarily: news of an instance",
    ],
)
def test_an_old_word_is_noticed_with_the_one_to_use(text: str) -> None:
    (word,) = _old_words(f"Emacs is responding.\n{text}")
    assert re.match(r"2: '[^']+'; say: \w+", word)
    assert not list(_old_words("It is retried. In the news of Emacs 30, handy classes: Handler."))
