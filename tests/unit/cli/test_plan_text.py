"""How plans look: the tree with its marks, the screen around the current task, the lines of a pipe."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from efrit.backend.plans import (
    Commit,
    Cost,
    Counts,
    Intent,
    Observation,
    Outcome,
    PlanPhase,
    PlanReason,
    PlanState,
    Task,
)
from efrit.cli.exit_codes import Exit, exit_of_plan
from efrit.cli.output import json_value, name_of
from efrit.cli.plan_text import ASCII, UNICODE, Style, changes, full_view, screen, tree_lines
from efrit.cli.terminal_text import cut, display_width, draws_unicode, sanitized_line
from efrit.protocol.plan_enums import Perspective, TaskState, TaskType
from efrit.protocol.plan_values import HiddenTasks


def task(name: str, parent: str | None, kind: str, text: str, state: str = "pending", **more: Any) -> Task:
    return Task(id=name, parent=parent, type=TaskType(kind), description=text, state=TaskState(state), **more)


NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
TREE = (
    task("root", None, "parent", "Build a calculator", children=3),
    task("parse", "root", "atomic", "Write the parser", state="done", attempts=1),
    task("sums", "root", "parent", "Write the arithmetic", children=3),
    task("3.1", "sums", "atomic", "Add and subtract", state="failed", failure_threshold=1.0, attempts=5),
    task("3.2", "sums", "atomic", "Multiply and divide", failure_threshold=0.4, attempts=2),
    task("docs", "root", "parent", "Document it", children=20, hidden=HiddenTasks(pending=17, done=3)),
)
PLAN = PlanState(
    "calc",
    PlanPhase.RUNNING,
    PlanReason.RUNNING,
    Intent("Build a calculator", ("It adds.",), ("No network.",)),
    message="It acts.",
    amendments=("And it divides.",),
    instance="one",
    current_task="3.2",
    step="Act",
    tree=TREE,
    commits=(
        Commit("b" * 40, "[3.1] ADAPT: It cannot be done.", "adapt", "3.1", 4),
        Commit("a" * 40, "[3.1] ACT: Add and subtract", "act", "3.1", 3),
    ),
    commit_count=5,
    observations=(Observation(Perspective.BUILD, "make test ended with 2", "line 7"),),
    counts=Counts(26, 21, 4, 1, 6, 3, 2, 0),
    cost=Cost(12_000, 345, 125.0),
    max_steps=50,
    created=NOW - timedelta(minutes=4),
    started=NOW - timedelta(minutes=3),
)

DRAWN = """\
calc: Running · Act 3.2 · one · for 3m0s
Build a calculator
4 of 26 tasks done, 1 failed · 6 of 50 steps · 5 commits · 12,345 tokens · 2m5s of work · 1 amendment, 1 waiting

Criteria
  It adds.

Constraints
  No network.

Amendments
  And it divides.

○ root  Build a calculator
├─ ✓ parse  Write the parser
├─ ○ sums  Write the arithmetic
│  ├─ ✗ 3.1  Add and subtract  (threshold 1.0, 5 tries)
│  └─ ▶ 3.2  Multiply and divide  (Act, threshold 0.4, 2 tries)
└─ ○ docs  Document it  (not shown: 17 pending, 3 done)

Observations
  build: make test ended with 2 — line 7

Commits
  bbbbbbbbbb  [3.1] ADAPT: It cannot be done.
  aaaaaaaaaa  [3.1] ACT: Add and subtract"""

IN_ASCII = """\
[ ] root  Build a calculator
|- [x] parse  Write the parser
|- [ ] sums  Write the arithmetic
|  |- [!] 3.1  Add and subt...  (threshold 1.0, 5 tries)
|  `- [>] 3.2  Multiply ...  (Act, threshold 0.4, 2 t...
`- [ ] docs  Document it  (not shown: 17 pending, 3 d..."""


def test_a_plan_is_shown_whole() -> None:
    assert "\n".join(full_view(PLAN, UNICODE, NOW)) == DRAWN


def test_a_terminal_without_unicode_has_the_tree_in_ascii_cut_to_its_width() -> None:
    assert "\n".join(tree_lines(PLAN, ASCII, 56)) == IN_ASCII


def test_a_plan_that_is_over_says_how_it_ended_and_marks_no_task() -> None:
    over = replace(
        PLAN,
        phase=PlanPhase.FAILED,
        reason=PlanReason.BUDGET_EXHAUSTED,
        outcome=Outcome.PARTIAL,
        message="maxSteps is reached.",
        completed=NOW,
    )
    lines = full_view(over, UNICODE, NOW)
    assert lines[0] == "calc: Failed (BudgetExhausted), Partial · one · took 3m0s"
    assert lines[3] == "maxSteps is reached."
    assert not any("▶" in line for line in lines)


def test_what_was_asked_for_is_reported_until_the_phase_says_it() -> None:
    assert full_view(replace(PLAN, suspended=True), UNICODE, NOW)[3] == "suspend requested"
    assert full_view(replace(PLAN, suspended=True, cancelled=True), UNICODE, NOW)[3] == "cancel requested"
    blocked = replace(PLAN, reason=PlanReason.BLOCKED, message="The Secret is not mounted.")
    assert full_view(blocked, UNICODE, NOW)[0].startswith("calc: Running (Blocked)")
    assert full_view(blocked, UNICODE, NOW)[3] == "The Secret is not mounted."


def test_a_plan_without_a_tree_says_so() -> None:
    early = PlanState("p", PlanPhase.PENDING, PlanReason.PENDING, Intent("Do it"), message="It waits.")
    assert full_view(early, UNICODE, NOW)[-1] == "no tree yet"


def test_a_small_screen_shows_the_tree_around_the_current_task() -> None:
    many = tuple(task(f"t{number}", "root", "atomic", f"Task {number}") for number in range(100))
    state = replace(PLAN, tree=(TREE[0], *many), current_task="t50", step="Assess")
    lines = screen(state, UNICODE, NOW, (60, 24))
    assert len(lines) <= 23
    assert max(map(display_width, lines)) <= 60
    assert any("▶ t50" in line for line in lines)
    assert "… 46 above" in lines
    assert any(line.endswith(" below") for line in lines)
    assert any(line.startswith("Observations") for line in lines)


def test_a_screen_of_two_lines_is_not_overfull() -> None:
    assert len(screen(PLAN, UNICODE, NOW, (20, 2))) == 1


def test_in_a_pipe_each_change_is_a_line() -> None:
    assert changes(None, PLAN) == [
        "Running",
        "4 of 26 tasks done, 1 failed",
        "Act 3.2: Multiply and divide",
    ]
    made = Commit("c" * 40, "[3.2] ACT: Multiply and divide", "act", "3.2", 5)
    later = replace(
        PLAN,
        step="Assess",
        commits=(made, *PLAN.commits),
        commit_count=6,
        amendments=(*PLAN.amendments, "And roots."),
    )
    assert changes(PLAN, later) == [
        "amended: And roots.",
        "commit cccccccccc [3.2] ACT: Multiply and divide",
        "Assess 3.2: Multiply and divide",
    ]
    over = replace(
        later,
        phase=PlanPhase.SUCCEEDED,
        reason=PlanReason.SUCCEEDED,
        outcome=Outcome.SUCCESS,
        message="All is done.",
        counts=replace(PLAN.counts, done=26, failed=0),
    )
    assert changes(later, over) == ["26 of 26 tasks done", "Succeeded: All is done."]
    assert changes(over, over) == []


def test_commits_that_a_look_has_missed_are_counted() -> None:
    made = Commit("c" * 40, "[x] ACT: y", "act")
    later = replace(PLAN, commits=(made,), commit_count=30)
    assert changes(PLAN, later)[:2] == ["24 commits more", "commit cccccccccc [x] ACT: y"]


@pytest.mark.parametrize(
    ("reason", "outcome", "code"),
    [
        (PlanReason.SUCCEEDED, Outcome.SUCCESS, Exit.DONE),
        (PlanReason.BUDGET_EXHAUSTED, Outcome.PARTIAL, Exit.PARTIAL),
        (PlanReason.TASK_FAILED, Outcome.FAILURE, Exit.FAILED),
        (PlanReason.WORKSPACE_FAILED, Outcome.FAILURE, Exit.FAILED),
        (PlanReason.CANCELLED, Outcome.PARTIAL, Exit.CANCELLED),
        (PlanReason.REJECTED, Outcome.FAILURE, Exit.REJECTED),
    ],
)
def test_the_exit_code_says_how_the_plan_ended(reason: PlanReason, outcome: Outcome, code: Exit) -> None:
    assert exit_of_plan(replace(PLAN, reason=reason, outcome=outcome)) is code


def test_a_plan_is_named_by_its_name_and_is_plain_in_json() -> None:
    assert name_of(PLAN) == "calc"
    document = json_value(PLAN)
    assert (document["intent"]["description"], document["tree"][5]["hidden"]) == (
        "Build a calculator",
        {"pending": 17, "done": 3, "failed": 0},
    )


# Any status

words = st.text(max_size=30)
ids = st.sampled_from(["root", "a", "b", "c", "d", "e", ""]) | words
tasks = st.builds(
    Task,
    id=ids,
    parent=st.none() | ids,
    type=st.sampled_from(TaskType),
    description=words,
    failure_threshold=st.floats(0, 3),
    state=st.sampled_from(TaskState),
    attempts=st.integers(0, 9),
    lessons=st.just(()),
    children=st.integers(0, 9),
    hidden=st.none() | st.builds(HiddenTasks, *[st.integers(0, 9)] * 3),
)
counts = st.builds(Counts, *[st.integers(0, 5000)] * 8)
states = st.builds(
    PlanState,
    words,
    st.sampled_from(PlanPhase),
    st.sampled_from(PlanReason),
    st.builds(Intent, words, st.tuples(words), st.just(())),
    message=words,
    outcome=st.none() | st.sampled_from(Outcome),
    amendments=st.lists(words, max_size=3).map(tuple),
    instance=st.none() | words,
    current_task=st.none() | ids,
    step=st.none() | st.sampled_from(["Act", "Adapt", "\x1b[2J"]),
    tree=st.lists(tasks, max_size=12).map(tuple),
    commits=st.lists(st.builds(Commit, words, words, words), max_size=6).map(tuple),
    commit_count=st.integers(0, 99),
    observations=st.lists(
        st.builds(Observation, st.sampled_from(Perspective), words, st.none() | words), max_size=6
    ).map(tuple),
    counts=counts,
    cost=st.builds(Cost, st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e7)),
    started=st.none() | st.just(NOW),
    completed=st.none() | st.just(NOW),
)


@settings(max_examples=60, deadline=None)
@given(states, st.sampled_from([UNICODE, ASCII]), st.integers(1, 120), st.integers(1, 60))
def test_any_status_fits_any_terminal_and_moves_no_cursor(
    state: PlanState, style: Style, width: int, height: int
) -> None:
    lines = screen(state, style, NOW, (width, height))
    assert len(lines) <= max(height - 1, 1)
    for line in (*lines, *full_view(state, style, NOW)):
        assert line.isprintable(), ascii(line)
    assert all(display_width(line) <= width for line in lines)


@given(states)
@settings(max_examples=50, deadline=None)
def test_every_task_of_any_tree_is_drawn_once(state: PlanState) -> None:
    assert len(tree_lines(state, UNICODE)) == len(state.tree)


@given(st.none() | states, states)
@settings(max_examples=50, deadline=None)
def test_the_lines_of_any_two_looks_are_lines(before: PlanState | None, after: PlanState) -> None:
    assert all(line.isprintable() for line in changes(before, after))


# Columns


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("计算器", 4, "计…"),
        ("计算器", 6, "计算器"),
        ("ab", 0, ""),
        ("abc", 1, "…"),
    ],
)
def test_text_is_cut_to_columns_not_to_characters(text: str, most: int, shown: str) -> None:
    assert cut(text, most) == shown


def test_a_models_words_cannot_move_the_cursor() -> None:
    assert sanitized_line("a\x1b[2Jb\r\n\tc\u202ed\x9b") == "a [2Jb c d"


@pytest.mark.parametrize(
    ("environment", "encoding", "unicode"),
    [
        ({"LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LANG": "C.UTF-8"}, "utf-8", True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", False),
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", False),
        ({"LANG": "C", "LC_CTYPE": "de_DE.utf8"}, "utf-8", True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "utf-8", False),
        ({"LANG": "en_US.UTF-8"}, "ascii", False),
        ({"LANG": "en_US.ISO-8859-1"}, "iso8859-1", False),
        ({}, "utf-8", False),
        ({"LANG": "en_US.UTF-8"}, None, False),
    ],
)
def test_the_locale_says_whether_there_is_more_than_ascii(
    environment: dict[str, str], encoding: str | None, unicode: bool
) -> None:
    assert draws_unicode(environment, encoding) is unicode
