"""A plan's history for people: one page of HTML, its tree as SVG, or lines for a terminal.

Pure and made from the history alone, which git keeps: the same history always gives the same bytes.
All texts come from outside and are escaped; a page loads and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from efrit.plan.history import History, parse_history
from efrit.plan.outline import one_line, outline
from efrit.plan.tree import TaskTree, counts, walk
from efrit.protocol.plan_values import LoggedCommit

_ROW, _INDENT, _MARGIN = 24, 22, 14
_LONGEST_LABEL = 110
_EVERYTHING = 1 << 40

_STYLE = """
:root { color-scheme: light dark; --done: #2da44e; --failed: #cf222e; --pending: #8c959f; --line: #8c959f88 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code { font-size: .9em }
.tree { overflow-x: auto }
.intent { white-space: pre-wrap }
.bar { background: var(--pending); height: .5rem; min-width: 1px }
"""

# Part of the picture itself, so that it looks the same outside of the page.
_PICTURE_STYLE = """
text { font: 13px system-ui, sans-serif; fill: currentColor }
.id { font-family: ui-monospace, monospace; font-weight: 600 }
.way { stroke: #8c959f; fill: none }
.done { fill: #2da44e } .failed { fill: #cf222e } .pending { fill: #8c959f }
"""


def html(answer: Mapping[str, Any]) -> str:
    """Return one self-contained page. Raises `InvalidPlanRecord`."""
    history = parse_history(answer)
    title = _text(f"Plan {history.plan}")
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f'<p class="intent">{_paragraph(history.intent.description)}</p>',
        _list("Acceptance criteria", history.intent.acceptance_criteria),
        _list("Constraints", history.intent.constraints),
        _list("Amendments", history.amendments),
        f"<h2>Summary</h2>\n{_table(('', ''), _summary(history))}",
        f'<h2>Tree</h2>\n<div class="tree">\n{_picture(history.tree)}\n</div>' if history.tree is not None else "",
        f"<h2>Commits</h2>\n{_table(_COMMIT_HEAD, map(_commit_row, history.commits))}",
        f"<h2>Costs by task</h2>\n{_costs(history)}",
        "</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def svg(answer: Mapping[str, Any]) -> str:
    """Return the tree as a picture. Raises `InvalidPlanRecord`."""
    history = parse_history(answer)
    return (
        _picture(history.tree) + "\n" if history.tree is not None else '<svg xmlns="http://www.w3.org/2000/svg"/>\n'
    )


def lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the history as lines for a terminal, without colours. Raises `InvalidPlanRecord`."""
    history = parse_history(answer)
    report = [f"Plan {one_line(history.plan, 63)}", one_line(history.intent.description, 400), ""]
    for title, texts in (
        ("Acceptance criteria", history.intent.acceptance_criteria),
        ("Constraints", history.intent.constraints),
        ("Amendments", history.amendments),
    ):
        if texts:
            report += [title, *(f"  - {one_line(text, 400)}" for text in texts), ""]
    report += [f"{name}: {value}" for name, value in _summary(history)]
    if history.tree is not None:
        report += ["", "Tree", *(f"  {line}" for line in outline(history.tree, None, _EVERYTHING).split("\n"))]
    report += ["", "Commits"]
    for commit in history.commits:
        step, when, subject, outcome, tokens, seconds = _commit_row(commit)
        report.append(
            f"  {step:>4}  {when:<20}  {tokens:>9}  {seconds:>9}  {subject}{f' ({outcome})' if outcome else ''}"
        )
    report += ["", "Costs by task"]
    for task, cost in history.by_task.items():
        report.append(f"  {one_line(task, 63)}: {cost.tokens} tokens, {_seconds(cost.seconds)} s, {cost.acts} acts")
    return report


def _summary(history: History) -> list[tuple[str, str]]:
    rows = []
    if history.tree is not None:
        states = counts(history.tree)
        rows.append(("Root", history.tree.state.value))
        rows.append(("Tasks", ", ".join(f"{number} {name}" for name, number in states.items() if name != "tasks")))
    kinds = [commit.kind for commit in history.commits]
    rows.append(("Commits", f"{len(kinds)}, of these {kinds.count('act')} acts and {kinds.count('adapt')} adapts"))
    sent, received = (
        sum(getattr(commit, name) or 0 for commit in history.commits) for name in ("input_tokens", "output_tokens")
    )
    rows.append(("Tokens", f"{sent} in, {received} out"))
    rows.append(("Work", f"{_seconds(history.total.seconds)} s"))
    if history.duration is not None:
        rows.append(("From the first commit to the last", f"{_seconds(history.duration)} s"))
    return rows


_COMMIT_HEAD = ("Step", "Time", "Subject", "Outcome", "Tokens", "Seconds")
_MAX_DIGITS = 12
_NUMBERS = {"Step", "Tokens", "Seconds", "Acts"}


def _commit_row(commit: LoggedCommit) -> tuple[str, ...]:
    return (
        "" if commit.step is None else str(commit.step),
        "" if commit.time is None else commit.time.strftime("%Y-%m-%d %H:%M:%S"),
        one_line(commit.subject, 300),
        one_line(commit.outcome or "", 20),
        str(commit.tokens) if commit.tokens else "",
        _seconds(commit.seconds) if commit.seconds else "",
    )


def _seconds(value: float) -> str:
    """Return seconds to the millisecond; as a power of ten only beyond what any work takes."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) < 10**_MAX_DIGITS else f"{value:g}"


def _costs(history: History) -> str:
    costs = history.by_task
    highest = max((cost.tokens for cost in costs.values()), default=0) or 1
    rows = "".join(
        f'<tr><td><code>{_text(task)}</code></td><td class="n">{cost.acts}</td><td class="n">{cost.tokens}</td>'
        f'<td class="n">{_seconds(cost.seconds)}</td>'
        f'<td><div class="bar" style="width: {100 * max(cost.tokens, 0) // highest}%"></div></td></tr>\n'
        for task, cost in costs.items()
    )
    head = _head(("Task", "Acts", "Tokens", "Seconds", ""))
    return f"<table>\n{head}{rows}</table>"


def _picture(tree: TaskTree) -> str:
    """Return a picture with a row for each task, joined to its parent."""
    rows: dict[str, int] = {}
    marks, connections, widest = [], [], 0
    parents = {child.id: task.id for task, _ in walk(tree) for child in task.children}
    for row, (task, depth) in enumerate(walk(tree)):
        rows[task.id] = row
        x, y = _MARGIN + (depth - 1) * _INDENT, _MARGIN + row * _ROW
        label = one_line(task.description, _LONGEST_LABEL)
        threshold = f" [{task.failure_threshold:g}]" if task.failure_threshold else ""
        shape = f'<circle class="{task.state.value}" cx="{x}" cy="{y}" r="6"/>'
        if not task.is_atomic:
            shape = f'<rect class="{task.state.value}" x="{x - 6}" y="{y - 6}" width="12" height="12" rx="2"/>'
        marks.append(
            f"<g><title>{_text(f'{task.state.value}, {task.attempts} attempts: {task.description}')}</title>{shape}"
            f'<text x="{x + 13}" y="{y + 4}"><tspan class="id">{_text(task.id)}</tspan> {_text(label + threshold)}'
            "</text></g>"
        )
        if task.id in parents:
            above = _MARGIN + rows[parents[task.id]] * _ROW + 6
            connections.append(f'<path class="way" d="M{x - _INDENT} {above}V{y}H{x - 6}"/>')
        widest = max(widest, x + 13 + 9 * (len(task.id) + len(label) + len(threshold) + 1))
    height = 2 * _MARGIN + (len(rows) - 1) * _ROW
    size = f'width="{widest}" height="{height}" viewBox="0 0 {widest} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_PICTURE_STYLE}</style>'
    return "\n".join([head, *connections, *marks, "</svg>"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    kinds = [_kind(name) for name in head]
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f"<table>\n{_head(head) if any(head) else ''}{body}</table>"


def _head(names: Sequence[str]) -> str:
    cells = (f"<th{_kind(name)}>{_text(name)}</th>" for name in names)
    return f"<tr>{''.join(cells)}</tr>\n"


def _kind(name: str) -> str:
    return ' class="n"' if name in _NUMBERS else ""


def _list(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"<h2>{title}</h2>\n<ul>\n" + "".join(f"<li>{_text(item)}</li>\n" for item in items) + "</ul>"


def _paragraph(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())


def _text(text: str) -> str:
    """Return the text escaped; characters that a page or a picture cannot have are replaced."""
    return escape("".join(char if char.isprintable() else " " for char in text))
