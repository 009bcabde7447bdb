"""Plans as lines of text: the tree with its states, what was seen, what has changed. Pure; nothing is printed here.

Any status can be drawn, also one whose tree has holes: it is a bounded view, and what is in it was written elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from efrit.backend.plans import PlanState, Task
from efrit.cli.output import age_text, duration_text
from efrit.cli.terminal_text import cut, display_width, sanitized_line

_LEAST_TEXT = 12
_MIN_TREE_HEIGHT = 12
_SCREEN_COMMITS = 4
_SCREEN_OBSERVATIONS = 4


@dataclass(frozen=True)
class Style:
    """What a tree is drawn with. `marks` by state; the current task has one of its own."""

    branch: str
    last: str
    line: str
    gap: str
    current: str
    marks: tuple[tuple[str, str], ...]
    other: str
    dot: str
    more: str

    def mark(self, state: str) -> str:
        """Return the mark of a state."""
        return dict(self.marks).get(state, self.other)


UNICODE = Style("├─ ", "└─ ", "│  ", "   ", "▶", (("pending", "○"), ("done", "✓"), ("failed", "✗")), "?", " · ", "…")
ASCII = Style(
    "|- ", "`- ", "|  ", "   ", "[>]", (("pending", "[ ]"), ("done", "[x]"), ("failed", "[!]")), "[?]", ", ", "..."
)


def tree_lines(state: PlanState, style: Style, width: int | None = None) -> list[str]:
    """Return the tree, one line for each task; each line is cut to `width` columns."""
    return [line for _, line in _tree(state, style, width)]


def _tree(state: PlanState, style: Style, width: int | None) -> Iterator[tuple[str, str]]:
    ids = {task.id for task in state.tree}
    below: dict[str | None, list[Task]] = {}
    for task in state.tree:
        parent = task.parent if task.parent in ids and task.parent != task.id else None
        below.setdefault(parent, []).append(task)
    drawn_ids: set[int] = set()
    for top in (*below.get(None, ()), *state.tree):
        # What only a circle leads to is drawn as a tree of its own.
        todo: list[tuple[Task, str, str]] = [(top, "", "")]
        while todo:
            task, first, rest = todo.pop()
            if id(task) in drawn_ids:
                continue
            drawn_ids.add(id(task))
            yield task.id, _task_line(task, state, style, first, width)
            parts = [child for child in below.get(task.id, ()) if id(child) not in drawn_ids]
            for number, part in enumerate(reversed(parts)):
                ends = number == 0
                todo.append(
                    (part, rest + (style.last if ends else style.branch), rest + (style.gap if ends else style.line))
                )


def _task_line(task: Task, state: PlanState, style: Style, lead: str, width: int | None) -> str:
    current = task.id == state.current_task and not state.final
    mark = style.current if current else style.mark(task.state)
    head = f"{lead}{mark} {sanitized_line(task.id)}"
    notes = list(_notes(task))
    if current and state.step:
        notes.insert(0, sanitized_line(state.step))
    tail = f"  ({', '.join(notes)})" if notes else ""
    width_left = None if width is None else max(_LEAST_TEXT, width - display_width(head) - display_width(tail) - 2)
    return cut(f"{head}  {cut(sanitized_line(task.description), width_left, style.more)}{tail}", width, style.more)


def _notes(task: Task) -> Iterator[str]:
    if task.failure_threshold > 0:
        yield f"threshold {task.failure_threshold:.1f}"
    if task.attempts > 1:
        yield f"{task.attempts} tries"
    if task.hidden is not None:
        hidden = [
            f"{count} {name}"
            for name, count in (
                ("pending", task.hidden.pending), ("done", task.hidden.done), ("failed", task.hidden.failed)
            )
            if count
        ]  # fmt: skip
        if hidden:
            yield f"not shown: {', '.join(hidden)}"


def header(state: PlanState, style: Style, now: datetime | None = None) -> list[str]:
    """Return the first lines about a plan: state, intent, figures, and the message if there is one."""
    doing = " ".join(part for part in (state.step, state.current_task) if part) if not state.final else ""
    place = state.instance or (f"pool {state.pool}" if state.pool else "")
    first = [f"{state.name}: {_phase(state)}", doing, place]
    if state.final and state.started and state.completed:
        first.append(f"took {age_text((state.completed - state.started).total_seconds())}")
    elif state.started and now:
        first.append(f"for {age_text((now - state.started).total_seconds())}")
    lines = [style.dot.join(sanitized_line(part) for part in first if part), sanitized_line(state.intent.description)]
    lines.append(style.dot.join(_figures(state)))
    change = "cancel" if state.cancelled else "suspend" if state.suspended else None
    if state.message and state.reason != "Running":
        lines.append(sanitized_line(state.message))
    elif change is not None and not state.final:
        lines.append(f"{change} requested")
    return lines


def _phase(state: PlanState) -> str:
    word = str(state.phase) if str(state.reason) in (state.phase, "") else f"{state.phase} ({state.reason})"
    return f"{word}, {state.outcome}" if state.outcome and str(state.outcome) != "Success" else word


def _figures(state: PlanState) -> Iterator[str]:
    counts, cost = state.counts, state.cost
    failed = f", {counts.failed} failed" if counts.failed else ""
    yield f"{counts.done} of {counts.tasks} tasks done{failed}"
    yield f"{counts.steps} steps" if state.max_steps is None else f"{counts.steps} of {state.max_steps} steps"
    yield f"{state.commit_count} commits"
    tokens = cost.input_tokens + cost.output_tokens
    yield f"{tokens:,} tokens" if state.max_tokens is None else f"{tokens:,} of {state.max_tokens:,} tokens"
    yield f"{duration_text(cost.seconds) if cost.seconds else '0s'} of work"
    if state.amendments:
        waiting = len(state.amendments) - counts.amendments
        many = "s" if len(state.amendments) > 1 else ""
        yield f"{len(state.amendments)} amendment{many}" + (f", {waiting} waiting" if waiting > 0 else "")


def observation_lines(state: PlanState, style: Style, width: int | None = None) -> list[str]:
    """Return what the last assessment observed."""
    dash = " — " if style is UNICODE else " - "
    lines = []
    for observation in state.observations:
        evidence = f"{dash}{observation.evidence}" if observation.evidence else ""
        text = sanitized_line(f"{observation.perspective}: {observation.statement}{evidence}")
        lines.append(cut(text, width, style.more))
    return lines


def commit_lines(state: PlanState, style: Style, width: int | None = None) -> list[str]:
    """Return the last commits, newest first."""
    return [
        cut(f"{sanitized_line(commit.hash[:10])}  {sanitized_line(commit.subject)}", width, style.more)
        for commit in state.commits
    ]


def full_view(state: PlanState, style: Style, now: datetime | None = None, width: int | None = None) -> list[str]:
    """Return all that `show` prints about a plan."""
    lines = [cut(line, width, style.more) for line in header(state, style, now)]
    sections = (
        ("Criteria", [sanitized_line(criterion) for criterion in state.intent.acceptance_criteria]),
        ("Constraints", [sanitized_line(constraint) for constraint in state.intent.constraints]),
        ("Amendments", [sanitized_line(amendment) for amendment in state.amendments]),
    )
    for title, entries in sections:
        lines += _section(title, [cut(entry, None if width is None else width - 2, style.more) for entry in entries])
    lines += ["", *(tree_lines(state, style, width) or ["no tree yet"])]
    inner = None if width is None else width - 2
    lines += _section("Observations", observation_lines(state, style, inner))
    lines += _section("Commits", commit_lines(state, style, inner))
    return lines


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def screen(state: PlanState, style: Style, now: datetime, size: tuple[int, int]) -> list[str]:
    """Return what fits a terminal of `size` (columns, lines): the part of the tree around the current task."""
    width, height = max(size[0], 1), max(size[1] - 1, 1)
    top = [cut(line, width, style.more) for line in header(state, style, now)]
    foot = _section("Observations", observation_lines(state, style, width - 2)[:_SCREEN_OBSERVATIONS])
    foot += _section("Commits", commit_lines(state, style, width - 2)[:_SCREEN_COMMITS])
    tree = list(_tree(state, style, width))
    tree_height = height - len(top) - 1
    # The tree goes first; the rest has what it leaves, a third at least where there is room for both.
    foot = foot[: max(tree_height - len(tree), tree_height // 3 if tree_height >= _MIN_TREE_HEIGHT else 0)]
    shown = _visible_lines(tree, state.current_task, max(tree_height - len(foot), 0), style)
    return [cut(line, width, style.more) for line in (*top, "", *shown, *foot)][:height]


def _visible_lines(tree: list[tuple[str, str]], current: str | None, height: int, style: Style) -> list[str]:
    lines = [line for _, line in tree]
    if len(lines) <= height:
        return lines
    if height < 3:
        return lines[:height]
    at = next((index for index, (name, _) in enumerate(tree) if name == current), 0)
    inner = height - 2
    start = min(max(at - inner // 2, 0), len(lines) - inner)
    above, below = start, len(lines) - start - inner
    return [
        f"{style.more} {above} above" if above else "",
        *lines[start : start + inner],
        f"{style.more} {below} below" if below else "",
    ]


def changes(before: PlanState | None, after: PlanState) -> list[str]:
    """Return what happened between two states, in lines; without a state before, the present state."""
    lines: list[str] = []
    if before is not None:
        lines += [f"amended: {sanitized_line(amendment)}" for amendment in after.amendments[len(before.amendments) :]]
        hashes = {commit.hash for commit in before.commits}
        commits = [commit for commit in reversed(after.commits) if commit.hash not in hashes]
        missed = after.commit_count - before.commit_count - len(commits)
        lines += [f"{missed} commits more"] if missed > 0 else []
        lines += [sanitized_line(f"commit {commit.hash[:10]} {commit.subject}") for commit in commits]
    done = (after.counts.done, after.counts.failed, after.counts.tasks)
    if after.counts.tasks and (
        before is None or done != (before.counts.done, before.counts.failed, before.counts.tasks)
    ):
        lines.append(next(_figures(after)))
    activity = (after.step, after.current_task)
    if not after.final and any(activity) and (before is None or activity != (before.step, before.current_task)):
        task = next((task for task in after.tree if task.id == after.current_task), None)
        description = f": {task.description}" if task is not None else ""
        lines.append(sanitized_line(" ".join(part for part in activity if part) + description))
    status = (after.phase, after.reason, after.outcome)
    if before is None or status != (before.phase, before.reason, before.outcome):
        detail = f": {after.message}" if after.message and after.reason != "Running" else ""
        line = sanitized_line(f"{_phase(after)}{detail}")
        lines = [*lines, line] if after.final else [line, *lines]
    return lines
