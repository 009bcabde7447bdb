"""One cycle of a task: act, commit, facts, assess, adapt, commit.

A procedure for `replay`. An answer that cannot be used is a fact like any other: the task has failed this time, and
the tree is adapted to that. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from efrit.api import EfritRequest, Outcome, RequestReason
from efrit.api.reasons import PlanReason
from efrit.api.request import MAX_CONTENT_CHARS
from efrit.api.wire_types import MAX_TIMEOUT_SECONDS
from efrit.errors import InvalidPlanRecord
from efrit.plan import lisp_calls, messages
from efrit.plan.cost import cost_of, sessions_of, tokens_spent
from efrit.plan.cursor import Cursor
from efrit.plan.model_output import LONGEST_TEXT, Malformed, parse_answer, parse_observations
from efrit.plan.operations import Answer, Refused, apply, failure
from efrit.plan.outline import one_line
from efrit.plan.replay import CallError, PlanError, Procedure, Sleep, Spec, ask, call_lisp
from efrit.plan.snapshot import Part, Snapshot, problem
from efrit.plan.tree import RISE_PER_FAILURE, TaskTree
from efrit.protocol import Budget
from efrit.protocol.plan_enums import Perspective, TaskState
from efrit.protocol.plan_values import Observation
from efrit.protocol.resource_case import to_resource

# What the act did is unknown, or it never began: there is nothing to assess.
_NO_WORK = {RequestReason.MODEL_ERROR, RequestReason.INTERRUPTED}
_ANSWERED = {RequestReason.SUCCEEDED, RequestReason.PARTIAL}
_FIRST_PAUSE = timedelta(seconds=30)

LONGEST_RESULT = 16_384
"""Bytes of what the executor said that are kept in the repository."""
_CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f]")


class StepError(Exception):
    """A step of the cycle has no answer that can be used; the message says why."""


class Cycle:
    """The questions about one task, in their order."""

    def __init__(self, snapshot: Snapshot, cursor: Cursor, task: TaskTree) -> None:
        self._snapshot = snapshot
        self._spec = snapshot.plan.spec
        self._cursor = cursor
        self._task = task
        self._step = cursor.step + 1
        """Of the next commit."""

    def run(self) -> Procedure[None]:
        """Go on until the next commit: that of the act, or that of the adapted tree."""
        if self._snapshot.request(self._step, Part.COMMIT_ADAPT) is not None:
            # It was asked for already, with what was known then; what led to it may look different by now.
            yield from self._commit_adapt({})
        elif self._task.is_atomic and not self._cursor.acted:
            act = yield from self._act()
            yield from self._commit_act(act)
        else:
            observations: tuple[Observation, ...] = ()
            try:
                yield from self._check_act()
                observations = yield from self._assess()
                answer, tree = yield from self._adapt(observations)
            except StepError as error:
                answer, tree = self._failed_adaptation(str(error))
                observations = (*observations, _fact(Perspective.BUILD, str(error)))
            yield from self._commit_adapt(self._adaptation(answer, tree, observations))

    # Act

    def _act(self) -> Procedure[EfritRequest]:
        act = yield from ask(self._step, Part.ACT, self._act_spec)
        if act.status.reason == RequestReason.REJECTED:
            raise _rejected(act)
        return act

    def _act_spec(self) -> Spec:
        act = self._spec.act
        budget = act.budget if act and act.budget else Budget()
        max_tokens = self._spec.limits.max_tokens
        if max_tokens is not None:
            remaining_tokens = max(max_tokens - tokens_spent(self._snapshot, self._cursor), 1)
            # What is left for the plan may be more than the instance allows one request.
            limit = min(remaining_tokens, self._snapshot.max_session_tokens or remaining_tokens)
            budget = replace(budget, max_tokens=min(budget.max_tokens or limit, limit))
        bounds = to_resource(budget)
        return {
            "type": "command",
            "content": messages.act(self._message_context(), self._max_bytes),
            **({"timeoutSeconds": act.timeout_seconds} if act and act.timeout_seconds else {}),
            **({"budget": bounds} if bounds else {}),
        }

    def _commit_act(self, act: EfritRequest) -> Procedure[None]:
        arguments = {
            "step": self._step,
            "task": self._task.id,
            "description": self._task.description,
            "outcome": act.status.outcome or Outcome.FAILURE,
            "result": self._report_for_repository(act),
            **cost_of([act]),
        }
        yield from call_lisp(self._snapshot, self._step, Part.COMMIT_ACT, lambda: arguments)

    def _report_for_repository(self, act: EfritRequest) -> Mapping[str, Any]:
        """Return what the executor said as the repository keeps it, within what a request may have."""
        # Quoted as JSON in Lisp, a byte becomes four at most.
        limit = min(LONGEST_RESULT, self._max_bytes // 8)
        text = messages.truncate_middle(_CONTROL.sub("\ufffd", self._report(act)), limit)
        outcome = act.status.outcome or Outcome.FAILURE
        return lisp_calls.packed(json.dumps({"task": self._task.id, "outcome": outcome, "text": text}))

    def _report(self, act: EfritRequest) -> str:
        """Return what the executor said, and why it ended where it did not succeed."""
        report = self._snapshot.text(act)
        return report if act.status.reason == RequestReason.SUCCEEDED else f"It {problem(act)}\n{report}"

    def _assessed_act(self) -> EfritRequest | None:
        """Return the act that is to be judged; None for a parent, and for one whose request is gone."""
        return self._snapshot.request(self._cursor.step, Part.ACT) if self._cursor.acted else None

    def _check_act(self) -> Procedure[None]:
        """Raise `StepError` where there is nothing to assess."""
        act = self._assessed_act()
        if act is not None and act.status.reason in _NO_WORK:
            raise (yield from self._unanswered(act, "The task could not be worked on"))

    # Assess

    def _assess(self) -> Procedure[tuple[Observation, ...]]:
        facts = yield from self._facts()
        request, text = yield from self._chat(
            Part.ASSESS, lambda: messages.assess(self._message_context(), self._act_result(), facts, self._max_bytes)
        )
        assessment = parse_observations(text)
        if isinstance(assessment, Malformed):
            _, text = yield from self._chat(Part.ASSESS_REPAIR, partial(messages.repair, assessment), request)
            assessment = parse_observations(text)
        if isinstance(assessment, Malformed):
            raise StepError(f"The assessment could not be read twice: {' '.join(assessment.sentences)}")
        answered = (observation.observation() for observation in assessment.observations)
        return (*facts_as_observations(facts), *answered)

    def _facts(self) -> Procedure[Mapping[str, Any]]:
        """Return the results of the user's commands, by perspective."""
        assess = self._spec.assess
        perspectives = (Perspective.BUILD, Perspective.INTEGRATION, Perspective.QUALITY)
        commands = {name: list(lines) for name in perspectives if (lines := getattr(assess, name.value))}
        is_asked = self._snapshot.request(self._step, Part.FACTS) is not None
        # The user may change the commands meanwhile: what the assessment was asked with stays.
        if not is_asked and (not commands or self._snapshot.request(self._step, Part.ASSESS) is not None):
            return {}
        seconds = sum(map(len, commands.values())) * assess.timeout_seconds + 60
        arguments = {"commands": commands, "timeout": assess.timeout_seconds}
        try:
            return (
                yield from call_lisp(
                    self._snapshot, self._step, Part.FACTS, lambda: arguments, min(MAX_TIMEOUT_SECONDS, seconds)
                )
            )
        except CallError as error:
            raise StepError(f"The commands of the assessment could not be run: {error}") from None

    def _act_result(self) -> messages.ActResult | None:
        """Return what the act left behind; None for a parent, which is not acted on."""
        if not self._cursor.acted:
            return None
        act = self._assessed_act()
        report = "" if act is None else self._report(act)
        changed, diff = self._changes()
        outcome = act.status.outcome if act is not None else None
        return messages.ActResult(outcome or "Its end is not known", report, changed, diff)

    def _changes(self) -> tuple[Sequence[str], str]:
        """Return the files that the act changed, and the diff."""
        commit = self._snapshot.request(self._cursor.step, Part.COMMIT_ACT)
        try:
            result = lisp_calls.value_of(self._snapshot.text(commit)) if commit is not None else {}
        except InvalidPlanRecord:
            result = {}
        changed, diff = result.get("changed"), result.get("diff")
        names = [name for name in changed if isinstance(name, str)] if isinstance(changed, list) else []
        return names, diff if isinstance(diff, str) else ""

    # Adapt

    def _adapt(self, observations: Sequence[Observation]) -> Procedure[tuple[Answer, TaskTree]]:
        """Return the navigator's answer and the tree after it; one repair and one refusal are allowed."""
        request, text = yield from self._chat(
            Part.ADAPT, lambda: messages.adapt(self._message_context(), observations, self._max_bytes)
        )
        second_chances: dict[type, Part] = {Malformed: Part.ADAPT_REPAIR, Refused: Part.ADAPT_REFUSED}
        while True:
            adapted = self._apply_answer(text)
            if not isinstance(adapted, Malformed | Refused):
                return adapted
            part = second_chances.pop(type(adapted), None)
            if part is None:
                raise StepError(f"The navigator's answer could not be used: {' '.join(adapted.sentences)}")
            request, text = yield from self._chat(part, partial(messages.retry_adapt, adapted), request)

    def _apply_answer(self, text: str) -> tuple[Answer, TaskTree] | Malformed | Refused:
        """Return the answer in the text and the tree after it, or what is wrong with it."""
        answer = parse_answer(text)
        if isinstance(answer, Malformed):
            return answer
        tree = apply(self._cursor.tree, self._task.id, answer, self._step)
        if isinstance(tree, Refused):
            return tree
        amendments = self._spec.amendments[self._cursor.amendments :]
        if tree.state is TaskState.DONE and amendments:
            return Refused(
                tuple(
                    f"It is not done: this was said meanwhile: {one_line(amendment, 500)}" for amendment in amendments
                )
            )
        return answer, tree

    def _failed_adaptation(self, reason: str) -> tuple[Answer, TaskTree]:
        """Return the answer and the tree of a cycle in which the task failed for this reason."""
        answer = failure(reason)
        tree = apply(self._cursor.tree, self._task.id, answer, self._step)
        if isinstance(tree, Refused):
            raise PlanError(PlanReason.WORKSPACE_FAILED, " ".join(tree.sentences))
        return answer, tree

    def _adaptation(self, answer: Answer, tree: TaskTree, observations: Sequence[Observation]) -> Mapping[str, Any]:
        return {
            "step": self._step,
            "task": self._task.id,
            "reason": answer.reason,
            "tree": lisp_calls.packed(tree.model_dump_json()),
            "observations": {"value": msgspec.to_builtins(observations)},
            **cost_of(sessions_of(self._snapshot, self._step)),
        }

    def _commit_adapt(self, arguments: Mapping[str, Any]) -> Procedure[None]:
        yield from call_lisp(self._snapshot, self._step, Part.COMMIT_ADAPT, lambda: arguments)

    # The model

    @property
    def _max_bytes(self) -> int:
        return min(self._snapshot.max_content_bytes, MAX_CONTENT_CHARS)

    def _message_context(self) -> messages.MessageContext:
        """Return what the messages are about."""
        plan = self._snapshot.plan
        return messages.MessageContext(
            f"{self._snapshot.workspace}/plans/{plan.metadata.name}/environment",
            plan.spec.intent,
            plan.spec.amendments[: self._cursor.amendments],
            self._cursor.tree,
            self._task,
        )

    def _chat(
        self, part: Part, message: Callable[[], str], earlier: EfritRequest | None = None
    ) -> Procedure[tuple[EfritRequest, str]]:
        """Return the request and the model's answer to a message, in the session of an earlier request if given."""
        session = earlier.status.session.id if earlier is not None and earlier.status.session else None
        if earlier is not None and session is None:
            raise StepError("The model's answer could not be used, and there is no session to say so in.")

        def spec() -> Spec:
            in_session = {"session": {"id": session}} if session is not None else {}
            return {"type": "chat", "content": message(), **in_session}

        request = yield from ask(self._step, part, spec)
        if request.status.reason not in _ANSWERED:
            raise (yield from self._unanswered(request, f"The model did not answer ({part})"))
        return request, self._snapshot.text(request)

    def _unanswered(self, request: EfritRequest, action: str) -> Procedure[StepError]:
        """Return the error that a request without an answer is, after a pause where the model is away."""
        if request.status.reason == RequestReason.REJECTED and request.spec.session is None:
            raise _rejected(request)
        if request.status.reason == RequestReason.MODEL_ERROR:
            # A model that is away for minutes must not use up the attempts of every task.
            failures = round(self._task.failure_threshold / RISE_PER_FAILURE)
            yield Sleep(request, _FIRST_PAUSE * 2**failures, Part.ADAPT)
        return StepError(f"{action}: it {problem(request)}")


def facts_as_observations(facts: Mapping[str, Any]) -> tuple[Observation, ...]:
    """Return the results of the commands as observations, with their output as evidence."""
    observations = []
    for perspective, results in facts.items():
        for result in results if isinstance(results, list) else ():
            if perspective not in Perspective.__members__.values() or not isinstance(result, dict):
                continue
            code = result.get("exitCode")
            ended = "timed out" if result.get("timedOut") else "was stopped" if code is None else f"exit code {code}"
            command = one_line(str(result.get("command")), 200)
            output = str(result.get("output") or "")
            observations.append(_fact(Perspective(perspective), f"`{command}`: {ended}", output))
    return tuple(observations)


def _fact(perspective: Perspective, statement: str, evidence: str = "") -> Observation:
    return Observation(perspective, statement[:LONGEST_TEXT], messages.truncate_middle(evidence, LONGEST_TEXT))


def _rejected(request: EfritRequest) -> PlanError:
    return PlanError(PlanReason.REJECTED, f"{request.metadata.name} {problem(request)}")
