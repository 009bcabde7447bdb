"""The messages to the model, for act, assess and adapt, each within the bytes that a request may have.

Pure. Nothing here decides or reads an answer (`model_output`). The fixed part of a message is always whole; the
sections share the remaining bytes: a short section is never cut in favour of a long one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from efrit.api.plan import Intent
from efrit.plan.model_output import Malformed, Observations, schema_text
from efrit.plan.operations import Answer, Refused
from efrit.plan.outline import outline
from efrit.plan.tree import FAILED_FOR_GOOD, TaskTree, path_to, raised_threshold
from efrit.protocol.plan_enums import TaskState
from efrit.protocol.plan_values import Observation


@dataclass(frozen=True, slots=True)
class MessageContext:
    """What every message is about: the current task in its tree, and the user's intent."""

    directory: str
    """The environment, which holds the work."""
    intent: Intent
    amendments: Sequence[str]
    tree: TaskTree
    task: TaskTree


@dataclass(frozen=True, slots=True)
class ActResult:
    """The result of an act."""

    outcome: str
    report: str
    changed: Sequence[str] = ()
    diff: str = ""


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    render: Callable[[int], str]
    """Return the text within so many bytes."""


_ACT = """\
You carry out one task of a plan. Do this task alone, as well as you can; the rest of the plan is there so that you
know what it is for. Work in the directory {directory} and change nothing outside of it. Do not use git to commit,
reset or switch branches there: what you leave in the directory is committed for you. Nobody can answer questions.
When you are finished, say in a few sentences what you did, what you found out and what is left undone."""

_ASSESS = """\
You assess the state of a plan's work. State facts only, from these perspectives:
- build: does it compile and run, is it technically feasible?
- requirements: which acceptance criteria and constraints does it meet, which not?
- integration: does it fit what is around it?
- quality: is it well made and easy to maintain?
Decide nothing and recommend nothing: others do that. Give the evidence of each fact: output, a file, a line. The work
was done in {directory}. Answer with one JSON object of this schema, without words around it:
{schema}"""

_ADAPT = """\
You navigate a plan: from what was observed you decide about the task of this step, and change the tree where
that leads to the intent by a better way. Look at it technically (another approach, smaller parts), from the
requirements (does the tree still lead to the intent and all amendments?), for risks (what may fail later?) and for
efficiency (is something not needed, is there a simpler way?).
{verdicts}
Operations (all of them are carried out, in their order, or none):
- retry {{task, lessons}}: a copy of the task with the lessons learned takes its place, before its pending siblings
- decompose {{task, tasks}}: a task without children becomes a parent of new tasks
- refine {{task, description}}: another description
- remove {{task}}: takes it out with all below it
- insert {{parent, before | after, tasks}}: new tasks below a parent; without before and after at the end
New tasks have a type (atomic is work for one command, parent has tasks), a description that can be understood without
the rest, and no id: ids are given to them. What is done stays as it is. {root} is the intent and never changes.
Answer with one JSON object of this schema, without words around it:
{schema}"""

_RETRY = """\
Your answer could not be used:
{problems}
Answer again, with one whole JSON object of the schema you were given, without words around it."""

_REFUSED = """\
Your answer was refused, and nothing of it was carried out:
{problems}
Answer again about the same task, with one whole JSON object of the schema you were given, without words around it."""


def act(context: MessageContext, max_bytes: int) -> str:
    """Return the message for an act, of at most `max_bytes`."""
    return _assemble(
        _ACT.format(directory=context.directory), [*_task_sections(context), *_plan_sections(context)], max_bytes
    )


def assess(context: MessageContext, act_result: ActResult | None, facts: Mapping[str, Any], max_bytes: int) -> str:
    """Return the message to the assessor, within `max_bytes`; `act_result` is None for a parent, which has no act."""
    sections = _task_sections(context)
    if act_result is not None:
        sections += [
            _text("How the act ended", f"{act_result.outcome}. {act_result.report}"),
            _listed("Files it changed", act_result.changed),
            _text("What it changed", act_result.diff),
        ]
    sections.append(_text("What the commands of the project say", facts_text(facts)))
    head = _ASSESS.format(directory=context.directory, schema=schema_text(Observations))
    return _assemble(head, [*sections, *_plan_sections(context)], max_bytes)


def adapt(context: MessageContext, observations: Sequence[Observation], max_bytes: int) -> str:
    """Return the message to the navigator, of at most `max_bytes`."""
    head = _ADAPT.format(verdicts=_verdicts(context.task), root=context.tree.id, schema=schema_text(Answer))
    observed = _listed("What was observed", list(map(_observation_line, observations)))
    return _assemble(head, [*_task_sections(context), observed, *_plan_sections(context)], max_bytes)


def repair(malformed: Malformed) -> str:
    """Return the message to a model whose answer could not be read, in the same session."""
    return _RETRY.format(problems=_bullets(malformed.sentences))


def retry_adapt(problem: Malformed | Refused) -> str:
    """Return the message to the navigator whose answer could not be read, or was not carried out."""
    if isinstance(problem, Malformed):
        return repair(problem)
    return _REFUSED.format(problems=_bullets(problem.sentences))


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return the results of the assess commands as text; their shape is unchecked, as they come from outside."""
    parts = []
    for perspective, results in facts.items():
        for result in results if isinstance(results, list) else ():
            if not isinstance(result, dict):
                continue
            ended = "timed out" if result.get("timedOut") else f"exit code {json.dumps(result.get('exitCode'))}"
            parts.append(f"[{perspective}] $ {result.get('command')}\n{ended}\n{result.get('output') or ''}".rstrip())
    return "\n\n".join(parts)


def _verdicts(task: TaskTree) -> str:
    failed = "failed: it has to be done otherwise or again; its failure threshold rises by 0.2, at 1.0 it is given up"
    if raised_threshold(task.failure_threshold) >= FAILED_FOR_GOOD:
        failed += (
            ". THIS TIME it would be given up and left to its parent, unless you decompose, remove"
            f"{'' if task.failure_threshold >= FAILED_FOR_GOOD else ' or retry'} it in this answer"
        )
    lines = [f"done: the task is finished{'' if task.is_atomic else ' and so is everything below it'}", failed]
    if not task.is_atomic:
        if any(child.state is TaskState.FAILED for child in task.children):
            lines.append("(a task below it was given up: retry, decompose or remove it, or do without)")
        else:
            lines.append("open: it is not finished yet; your operations add what is still to be done below it")
    return f"Your verdict on {task.id}:\n{_bullets(lines)}"


def _task_sections(context: MessageContext) -> list[_Section]:
    task = context.task
    parents = [f"{parent.id}: {parent.description}" for parent in path_to(context.tree, task.id)[1:-1]]
    return [
        _text(f"The task {task.id} ({task.type.value})", task.description),
        _listed("What earlier attempts at it taught", task.lessons),
        _listed("What it is a part of, from above", parents),
    ]


def _plan_sections(context: MessageContext) -> list[_Section]:
    return [
        _text("The intent", context.intent.description),
        _listed("Acceptance criteria", context.intent.acceptance_criteria),
        _listed("Constraints", context.intent.constraints),
        _listed("Amendments, which came later and count as much", context.amendments),
        _Section("The whole plan", lambda max_bytes: outline(context.tree, context.task.id, max_bytes)),
    ]


def _observation_line(observation: Observation) -> str:
    evidence = f" ({observation.evidence})" if observation.evidence else ""
    return f"[{observation.perspective}] {observation.statement}{evidence}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _text(title: str, text: str) -> _Section:
    # The API server refuses a NUL. The replacement is longer, so it is made before the cut.
    return _Section(title, lambda max_bytes: truncate_middle(text.strip().replace("\0", "\ufffd"), max_bytes))


def _listed(title: str, lines: Sequence[str]) -> _Section:
    return _text(title, _bullets(lines))


_EVERYTHING = 1 << 40


def _assemble(head: str, sections: Sequence[_Section], max_bytes: int) -> str:
    """Return head and sections, the short ones whole, the long ones cut to equal shares of what is left."""
    whole = {index: text for index, section in enumerate(sections) if (text := section.render(_EVERYTHING))}
    available = (
        max_bytes - len(head.encode()) - sum(len(_titled(sections[index].title, "").encode()) for index in whole)
    )
    size = {index: len(text.encode()) for index, text in whole.items()}
    texts: dict[int, str] = {}
    for remaining, index in zip(range(len(whole), 0, -1), sorted(whole, key=size.__getitem__), strict=True):
        share = max(available // remaining, 0)
        texts[index] = whole[index] if size[index] <= share else sections[index].render(share)
        available -= len(texts[index].encode())
    return "".join([head, *(_titled(sections[index].title, texts[index]) for index in sorted(texts))])


def _titled(title: str, text: str) -> str:
    return f"\n\n# {title}\n{text}"


def truncate_middle(text: str, max_bytes: int) -> str:
    """Return head and tail of `text` within `max_bytes`, with a note of what is missing between."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return data.decode()
    note = f"\n[… {len(data) - max_bytes} bytes and more are left out here …]\n"
    keep = max_bytes - len(note.encode())
    if keep <= 0:
        return data[: max(max_bytes, 0)].decode(errors="ignore")
    head = keep * 2 // 3
    return data[:head].decode(errors="ignore") + note + data[len(data) - (keep - head) :].decode(errors="ignore")
