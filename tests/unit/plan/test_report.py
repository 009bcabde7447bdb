from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.errors import InvalidPlanRecord
from efrit.plan import report
from efrit.plan.tree import MAX_TASKS, TaskTree
from tests.unit.plan.trees import atomic, done, failed, parent, trees

HOSTILE = "<script>alert('x')</script> & \"quotes\" \x1b[31m \ud800 \0"


def history(tree: TaskTree | None = None, text: str = "A program that counts words.") -> dict[str, Any]:
    def commit(step: int, kind: str, task: str | None, subject: str, sent: int, received: int) -> dict[str, Any]:
        return {
            "hash": f"{step:040x}",
            "subject": subject,
            "kind": kind,
            "task": task,
            "step": step,
            "time": f"2026-03-01T12:0{step}:00Z",
            "outcome": "Success" if kind == "act" else None,
            "inputTokens": sent,
            "outputTokens": received,
            "seconds": 1.5 * sent,
        }

    shown = tree if tree is not None else parent("root", done("a"), failed("b"), atomic("c", threshold=0.4))
    return {
        "plan": "words",
        "uid": "u-1",
        "intent": {"description": text, "acceptanceCriteria": ["make test passes"], "constraints": []},
        "amendments": [{"number": 1, "text": "Lines, too."}],
        "environment": None,
        "firstTree": json.loads(shown.model_dump_json()),
        "tree": json.loads(shown.model_dump_json()),
        "totals": {"steps": 2},
        "commits": [
            commit(0, "begin", None, f"[begin] PLAN: {text}"[:200], 0, 0),
            commit(1, "act", "a", "[a] ACT: do a", 100, 20),
            commit(2, "adapt", "a", "[a] ADAPT: it is there", 30, 10),
            dict.fromkeys(("kind", "task", "step", "time", "outcome", "inputTokens", "outputTokens", "seconds"))
            | {"hash": "x", "subject": "by hand"},
        ],
    }


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_shows_intent_tree_commits_costs_and_times() -> None:
    page = Page(report.html(history()))
    for phrase in (
        *("A program that counts words.", "make test passes", "Lines, too.", "[a] ADAPT: it is there"),
        *("130 in, 30 out", "195 s", "120 s", "2026-03-01 12:01:00", "by hand"),
    ):
        assert phrase in page.text
    assert page.tags.count("circle") == 3
    assert page.tags.count("rect") == 1


def test_the_same_history_gives_the_same_bytes() -> None:
    assert report.html(history()) == report.html(json.loads(json.dumps(history())))
    assert report.svg(history()) == report.svg(history())


def test_a_page_loads_and_runs_nothing() -> None:
    page = Page(report.html(history(text=HOSTILE)))
    assert not {"script", "img", "link", "iframe", "object", "base", "form"} & set(page.tags)
    assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "href", "srcset")]
    assert "alert('x')" in page.text


@given(trees(root_pending=False), st.text(st.characters(), max_size=200))
def test_whatever_is_reported_is_escaped(tree: TaskTree, text: str) -> None:
    plan_record = history(tree.copy_with(description=text.encode("utf-8", "replace").decode() or "x"), text)
    page = report.html(plan_record)
    page.encode()
    assert Page(page).tags.count("script") == 0
    ElementTree.fromstring(report.svg(plan_record))  # noqa: S314 - our own
    assert all(line.isprintable() or line == "" for line in report.lines(plan_record))


def test_the_terminal_gets_the_same_story() -> None:
    text = "\n".join(report.lines(history()))
    for phrase in ("Plan words", "- a (atomic, done): do a", "1 failed", "[a] ACT: do a (Success)", "a: 160 tokens"):
        assert phrase in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (12, "12 s"), (123456.789, "123456.789 s"), (1e6, "1000000 s"), (1e300, "1e+300 s")],
)
def test_work_of_any_length_is_given_in_seconds(seconds: float, text: str) -> None:
    long = history()
    long["commits"] = [{**long["commits"][1], "seconds": seconds}]
    assert f"a: 120 tokens, {text}, 1 acts" in "\n".join(report.lines(long))
    assert text.removesuffix(" s") in report.html(long)


def test_a_tree_of_two_thousand_tasks_becomes_a_picture() -> None:
    wide = parent("root", *(atomic(f"t{n}") for n in range(MAX_TASKS - 1)))
    assert report.svg(history(wide)).count("<circle") == MAX_TASKS - 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"missing": True}, "no repository"),
        ({"commits": "x"}, "commits"),
        ({"tree": {"id": "x"}}, "cannot be read"),
    ],
)
def test_what_is_no_history_is_an_error_in_words(fields: dict[str, Any], message: str) -> None:
    for make in (report.html, report.svg, report.lines):
        with pytest.raises(InvalidPlanRecord, match=message):
            make(fields)


def test_a_history_with_nothing_in_it_is_a_page_too() -> None:
    assert "Plan" in report.html({})
    assert report.lines({})
    ElementTree.fromstring(report.svg({}))  # noqa: S314 - our own
