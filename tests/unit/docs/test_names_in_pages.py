"""What the pages name exists: files, functions, Lisp functions, modules, targets of make."""

from __future__ import annotations

import re

import pytest

from tests.cluster.paths import REPOSITORY
from tests.unit.docs.modules import unnamed
from tests.unit.docs.page_names import problems, walks

HOUSE = "docs/dev/architecture.md"
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    if path.name != "CHANGELOG.md"
)


def problems_in(text: str, *, every_name: bool = False) -> list[str]:
    return [str(problem) for problem in problems("page.md", text, every_name=every_name)]


def walk(*rows: str, before: str = "") -> str:
    return "\n".join(["# A page", before, "", "| file | functions | what they add |", "|---|---|---|", *rows, ""])


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    wrong = problems(page, (REPOSITORY / page).read_text(), every_name=page == HOUSE)
    assert not wrong, "\n" + "\n".join(map(str, wrong))


def test_the_page_about_the_house_walks_through_each_part_of_it() -> None:
    stops = [stop for walk in walks((REPOSITORY / HOUSE).read_text()) for stop in walk]
    files = {file for stop in stops for file in stop.files}
    parts = ["watch", "store", "decide", "act", "bridge", "queue", "plan", "cli", "backend", "client", "mcp"]
    assert [part for part in parts if not any(file.startswith(f"{part}/") for file in files)] == []
    assert {"efrit-server-work.el", "efrit-queue-claim.el", "efrit-eval.el", "efrit-session-ask.el"} <= files


def test_the_tree_of_the_house_has_each_part_of_it() -> None:
    tree = (REPOSITORY / HOUSE).read_text().split("```")[1]
    package = REPOSITORY / "operator/efrit"
    modules = [path.name for folder in (package, package / "controller") for path in folder.glob("[a-z]*.py")]
    folders = [
        f"{path.name}/"
        for folder in (package, package / "controller", REPOSITORY / "tests")
        for path in folder.glob("[a-z]*/")
        if any(path.glob("*.*"))
    ]
    named = set(re.findall(r"[\w-]+(?:\.py|/)", tree))
    assert sorted({*modules, *folders} - named) == []
    described = re.findall(r"^ +(\w+\.py) +\w", tree, re.MULTILINE)
    assert len(described) > 20
    assert sorted({name for name in described if described.count(name) > 1}) == []


def test_each_module_of_what_the_house_walks_through_whole_is_named() -> None:
    whole = ("controller/watch/", "controller/manifests/", "plan/")
    assert [path for path in unnamed((REPOSITORY / HOUSE).read_text()) if path.startswith(whole)] == []


def test_a_module_is_named_by_a_path_that_is_its_own_alone() -> None:
    page = "`operator/efrit/plan/tree.py`, `bridge/auth.py` and `controller/resync.py`, but `plans.py` is several."
    left = set(unnamed(page))
    assert not left & {"plan/tree.py", "bridge/auth.py", "controller/resync.py"}
    assert left >= {"controller/store/plans.py", "controller/decide/plans.py", "plan/view.py"}


def test_the_modules_that_tests_say_they_are_about_exist() -> None:
    parts = ("operator", "tests", "samples", "charts")
    sources = [path.as_posix() for part in parts for path in (REPOSITORY / part).rglob("*.py")]
    wrong = [
        f"{path.relative_to(REPOSITORY)}: {module}"
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for module in re.findall(r'^"""((?:\w+/)+\w+\.py)\b', path.read_text())
        if not any(source.endswith(f"/{module}") for source in sources)
    ]
    assert wrong == []


# The checker itself: each name here is a wrong one, on a line of a page that is otherwise right.


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Look at `operator/efrit/queue/gone.py`.", "`operator/efrit/queue/gone.py`"),
        ("It is in `gone.py`, beside `submit.py`.", "`gone.py`"),
        ("Of `tests/gone/`.", "`tests/gone/`"),
        ("`efrit.queue.gone` and `efrit.queue.submit`", "`efrit.queue.gone`"),
        ("`python -m tests.gone --table`", "`python -m tests.gone --table`"),
        ("`efrit-queue-gone`, after `efrit-queue-next`", "`efrit-queue-gone`"),
        ("Run `make gone` and `make check`.", "`make gone`"),
        ("`commit` in queue/gone.py", "`queue/gone.py`"),
        ("`gone` in\nqueue/submit.py", "`gone`"),
        ("`gone` in queue/submit.py, and `commit` (`queue/submit.py`)", "`gone`"),
    ],
)
def test_a_name_that_is_not_there_is_reported_with_its_line(line: str, name: str) -> None:
    (problem,) = problems_in(f"# A page\n\n{line}\n")
    assert problem.startswith(f"page.md:3: {name}: ")


@pytest.mark.parametrize("name", ["DurableQueue.gone", "gone_long_ago", "LongGone", "spec.goneLongAgo", "gone/"])
def test_every_name_is_looked_for_where_a_page_is_held_to_that(name: str) -> None:
    line = f"`{name}`, but `DurableQueue.submit`, `Running`, `spec.maxAttempts`, `kubectl get pods` and `queue/`"
    assert problems_in(line) == []
    (problem,) = problems_in(line, every_name=True)
    assert f"`{name}`" in problem


def test_commands_of_a_block_are_looked_for_and_its_words_are_not() -> None:
    page = "```sh\nmake check && make gone\nmake FILES=1  # or make it yourself\n```\nYou make believe.\n"
    assert problems_in(page) == ["page.md:2: `make gone`: the Makefile has no such target"]


def test_a_tree_of_folders_is_looked_for_entry_by_entry() -> None:
    page = """```
operator/efrit/        the package
  queue/               submit, gone.py
    submit.py gone.py  two files
  bridge/              routes.py
charts/
```
"""
    assert problems_in(page) == [
        "page.md:3: gone.py: nothing in the repository has this name",
        "page.md:4: gone.py: there is no operator/efrit/queue/gone.py",
    ]


def test_a_block_that_is_no_tree_is_left_alone() -> None:
    assert problems_in("```json\n{}\n  gone/ elsewhere.py\n```\n") == []


def test_a_function_on_a_walk_is_looked_for_in_its_file() -> None:
    page = walk(
        "| `queue/submit.py` | `commit`, `_write_all` | |",
        "| `queue/durable.py` | `Disk.gone`, `Disk.create` | |",
        "| `efrit-queue-claim.el` | ⇒ `efrit-claim-take`, `efrit-queue-next` | |",
        "| `gone.py` | ⇒ `commit` | |",
    )
    assert problems_in(page) == [
        "page.md:7: `Disk.gone`: 0 definitions in operator/efrit/queue/durable.py",
        "page.md:8: `efrit-queue-next`: 0 definitions in images/emacs/lisp/efrit-queue-claim.el",
        "page.md:9: `gone.py`: 0 files have this name",
    ]


def test_a_function_that_nothing_before_it_refers_to_needs_an_arrow() -> None:
    row = "| `queue/submit.py` | `has_file`, {}`commit` | |"
    assert problems_in(walk(row.format("⇒ "))) == problems_in(walk(row.format("↪ "))) == []
    (problem,) = problems_in(walk(row.format("")))
    assert problem == "page.md:6: `commit`: nothing that the table names before it refers to it"


def test_what_a_table_of_the_file_refers_to_counts_for_who_uses_that_table() -> None:
    assert problems_in(walk("| `decide/requests.py` | `decide_request`, `_hand_over` | |")) == []
    files = "`efrit-session-scheduler.el`, `efrit-session-ask.el`"
    assert problems_in(walk(f"| {files} | `efrit-session--take-step`, `efrit-session-step-ask` | |")) == []


def test_a_walk_is_as_long_as_the_line_before_it_says() -> None:
    row = "| `queue/submit.py`, `queue/worker.py` | `commit`, `_write_all`, ⇒ `Worker.run` | |"
    assert problems_in(walk(row, before="3 functions, 1 hand-over.")) == []
    (problem,) = problems_in(walk(row, before="4 functions, 2 hand-overs."))
    assert problem == "page.md:2: 4 functions, 2 hand-overs: the table has 3 and 1"
