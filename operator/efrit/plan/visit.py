"""One visit of a task, told as a straight line: act, commit, facts, assess, adapt, commit.

Pure. Each line returns once its request is final (`asking`); a commit never returns, for then the plan stands
elsewhere (`engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from efrit.api import EfritRequest, Outcome, RequestReason
from efrit.api.plan import Perspective, TaskState
from efrit.api.reasons import PlanReason
from efrit.api.request import MAX_CONTENT_CHARS, MAX_TIMEOUT_SECONDS
from efrit.errors import InvalidPosition
from efrit.plan import calls, messages
from efrit.plan.asking import (
    ACT,
    ADAPT,
    ADAPT_AGAIN,
    ADAPT_REFUSED,
    ASSESS,
    ASSESS_AGAIN,
    COMMIT_ACT,
    COMMIT_ADAPT,
    FACTS,
    SESSIONS,
    Asking,
    CallFailed,
    StepFailed,
    failed,
    problem,
    tokens,
)
from efrit.plan.operations import Answer, Refused, apply, failure
from efrit.plan.outline import one_line
from efrit.plan.position import Position
from efrit.plan.replies import (
    LONGEST_TEXT,
    Malformed,
    Observation,
    parse_answer,
    parse_observations,
)
from efrit.plan.tree import Task

# What the one who acts did is unknown, or was never begun: there is nothing to assess.
_NO_WORK = {RequestReason.MODEL_ERROR, RequestReason.INTERRUPTED}
_SPOKEN = {RequestReason.SUCCEEDED, RequestReason.PARTIAL}
_FIRST_PAUSE = timedelta(seconds=30)


class Visit:
    """What is asked for, and in which order, about one task."""

    def __init__(self, asking: Asking, position: Position, task: Task) -> None:
        self._asking = asking
        self._position = position
        self._task = task
        self._step = position.step + 1
        """Of the next commit."""

    def go_on(self) -> None:
        """Come as far as possible. Always raises `Settled` or `CallFailed`."""
        if self._asking.request(self._step, COMMIT_ADAPT) is not None:
            # It says all there is to say: what it rests on may look different by now.
            self._commit_adapt({})
        if self._task.is_atomic and not self._position.acted:
            self._act()
        observations: tuple[Observation, ...] = ()
        try:
            self._check_the_act()
            observations = self._assess()
            answer, after = self._adapt(observations)
        except StepFailed as step:
            answer = failure(step.sentence)
            observations = (*observations, _fact(Perspective.BUILD, step.sentence))
            after = _applied(self._position.tree, self._task, answer, self._step)
        self._commit_adapt(self._adaptation(answer, after, observations))

    def _scene(self) -> messages.Scene:
        """What the messages are about."""
        plan = self._asking.plan
        return messages.Scene(
            f"/workspace/plans/{plan.metadata.name}/environment",
            plan.spec.intent,
            plan.spec.amendments[: self._position.amendments],
            self._position.tree,
            self._task,
        )

    # Act

    def _act(self) -> None:
        act = self._asking.answered(self._step, ACT, self._command)
        if act.status.reason == RequestReason.REJECTED:
            raise failed(PlanReason.REJECTED, f"{act.metadata.name} {problem(act)}")
        self._asking.value(
            self._step,
            COMMIT_ACT,
            lambda: {
                "step": self._step,
                "task": self._task.id,
                "description": self._task.description,
                "outcome": act.status.outcome or Outcome.FAILURE,
                **_cost([act]),
            },
        )

    def _command(self) -> Mapping[str, Any]:
        act = self._asking.plan.spec.act
        budget = act.budget.to_wire() if act and act.budget else {}
        most = self._asking.plan.spec.limits.max_tokens
        if most is not None:
            left = max(most - spent(self._asking, self._position), 1)
            budget["maxTokens"] = min(budget.get("maxTokens", left), left)
        return {
            "type": "command",
            "content": messages.act(self._scene(), self._room),
            **({"timeoutSeconds": act.timeout_seconds} if act and act.timeout_seconds else {}),
            **({"budget": budget} if budget else {}),
        }

    def _check_the_act(self) -> None:
        """Raise `StepFailed` where there is nothing to assess."""
        act = self._asking.request(self._position.step, ACT) if self._position.acted else None
        if act is not None and act.status.reason in _NO_WORK:
            self._fail(act, "The task could not be worked on")

    def _fail(self, request: EfritRequest, what: str) -> None:
        if request.status.reason == RequestReason.REJECTED and request.spec.session is None:
            raise failed(PlanReason.REJECTED, f"{request.metadata.name} {problem(request)}")
        if request.status.reason == RequestReason.MODEL_ERROR:
            # A model that is away for minutes must not use up the chances of every task.
            failures = round(self._task.failure_threshold / 0.2)
            self._asking.pause(request, _FIRST_PAUSE * 2**failures, ADAPT)
        raise StepFailed(f"{what}: it {problem(request)}")

    # Assess

    def _assess(self) -> tuple[Observation, ...]:
        facts = self._facts()
        first, text = self._chat(ASSESS, lambda: messages.assess(self._scene(), self._work(), facts, self._room))
        said = parse_observations(text)
        if isinstance(said, Malformed):
            _, text = self._chat(ASSESS_AGAIN, partial(messages.repair, said), first)
            said = parse_observations(text)
        if isinstance(said, Malformed):
            raise StepFailed(f"The assessment could not be read twice: {' '.join(said.sentences)}")
        return (*observed(facts), *said.observations)

    def _facts(self) -> Mapping[str, Any]:
        assess = self._asking.plan.spec.assess
        commands = {
            each: list(given)
            for each in (Perspective.BUILD, Perspective.INTEGRATION, Perspective.QUALITY)
            if (given := getattr(assess, each.value))
        }
        asked = self._asking.request(self._step, FACTS) is not None
        if not asked and (not commands or self._asking.request(self._step, ASSESS) is not None):
            return {}
        count = sum(map(len, commands.values()))
        try:
            return self._asking.value(
                self._step,
                FACTS,
                lambda: {"commands": commands, "timeout": assess.timeout_seconds},
                min(MAX_TIMEOUT_SECONDS, count * assess.timeout_seconds + 60),
            )
        except CallFailed as call:
            raise StepFailed(f"The commands of the assessment could not be run: {call}") from None

    def _work(self) -> messages.Work | None:
        if not self._position.acted:
            return None
        act = self._asking.request(self._position.step, ACT)
        said = "" if act is None else self._asking.text(act)
        if act is not None and act.status.reason != RequestReason.SUCCEEDED:
            said = f"It {problem(act)}\n{said}"
        changed, diff = self._changes()
        outcome = act.status.outcome if act is not None else None
        return messages.Work(outcome or "Its end is not known", said, changed, diff)

    def _changes(self) -> tuple[Sequence[str], str]:
        commit = self._asking.request(self._position.step, COMMIT_ACT)
        try:
            answer = calls.value_of(self._asking.text(commit)) if commit is not None else {}
        except InvalidPosition:
            answer = {}
        changed, diff = answer.get("changed"), answer.get("diff")
        names = [each for each in changed if isinstance(each, str)] if isinstance(changed, list) else []
        return names, diff if isinstance(diff, str) else ""

    # Adapt

    def _adapt(self, observations: Sequence[Observation]) -> tuple[Answer, Task]:
        request, text = self._chat(ADAPT, lambda: messages.adapt(self._scene(), observations, self._room))
        chances = {Malformed: ADAPT_AGAIN, Refused: ADAPT_REFUSED}
        while True:
            said = self._weighed(text)
            if not isinstance(said, Malformed | Refused):
                return said
            again = chances.pop(type(said), None)
            if again is None:
                raise StepFailed(f"The navigator's answer could not be used: {' '.join(said.sentences)}")
            words = messages.repair(said) if isinstance(said, Malformed) else messages.refusal(said)
            request, text = self._chat(again, partial(str, words), request)

    def _weighed(self, text: str) -> tuple[Answer, Task] | Malformed | Refused:
        """The answer and the tree after it, or what is wrong."""
        answer = parse_answer(text)
        if isinstance(answer, Malformed):
            return answer
        after = apply(self._position.tree, self._task.id, answer, self._step)
        if isinstance(after, Refused):
            return after
        news = self._asking.plan.spec.amendments[self._position.amendments :]
        if after.state is TaskState.DONE and news:
            return Refused(tuple(f"It is not done: this was said meanwhile: {one_line(each, 500)}" for each in news))
        return answer, after

    def _adaptation(self, answer: Answer, after: Task, observations: Sequence[Observation]) -> Mapping[str, Any]:
        asked = [self._asking.request(self._step, what) for what in SESSIONS]
        return {
            "step": self._step,
            "task": self._task.id,
            "reason": answer.reason,
            "tree": calls.packed(after.model_dump_json()),
            "observations": {"value": [each.model_dump(mode="json") for each in observations]},
            **_cost([each for each in asked if each is not None]),
        }

    def _commit_adapt(self, arguments: Mapping[str, Any]) -> None:
        self._asking.value(self._step, COMMIT_ADAPT, lambda: arguments)

    # Talking with the model

    @property
    def _room(self) -> int:
        return min(self._asking.known.max_content_bytes, MAX_CONTENT_CHARS)

    def _chat(
        self, what: str, message: Callable[[], str], session_of: EfritRequest | None = None
    ) -> tuple[EfritRequest, str]:
        session = session_of.status.session.id if session_of is not None and session_of.status.session else None
        if session_of is not None and session is None:
            raise StepFailed("The model's answer could not be used, and there is no session to say so in.")
        request = self._asking.answered(
            self._step,
            what,
            lambda: {
                "type": "chat",
                "content": message(),
                **({"session": {"id": session}} if session is not None else {}),
            },
        )
        if request.status.reason not in _SPOKEN:
            self._fail(request, f"The model did not answer ({what})")
        return request, self._asking.text(request)


def spent(asking: Asking, position: Position) -> int:
    """Tokens of the plan so far: those its commits tell of, and those of requests no commit tells of yet."""
    return position.totals.input_tokens + position.totals.output_tokens + sum(spent_apart(asking, position))


def spent_apart(asking: Asking, position: Position) -> tuple[int, int]:
    """Tokens sent and received by the requests no commit tells of yet."""
    asked = (asking.request(position.step + 1, what) for what in SESSIONS)
    used = [tokens(each) for each in asked if each is not None]
    return sum(sent for sent, _ in used), sum(received for _, received in used)


def observed(facts: Mapping[str, Any]) -> tuple[Observation, ...]:
    """The results of the commands as observations: what failed is told with its output."""
    found = []
    for perspective, results in facts.items():
        for each in results if isinstance(results, list) else ():
            if perspective not in Perspective.__members__.values() or not isinstance(each, dict):
                continue
            code = each.get("exitCode")
            ended = "timed out" if each.get("timedOut") else "was stopped" if code is None else f"exit code {code}"
            command = one_line(str(each.get("command")), 200)
            found.append(_fact(Perspective(perspective), f"`{command}`: {ended}", str(each.get("output") or "")))
    return tuple(found)


def _fact(perspective: Perspective, statement: str, evidence: str = "") -> Observation:
    return Observation(
        perspective=perspective,
        statement=statement[:LONGEST_TEXT],
        evidence=messages.cut(evidence, LONGEST_TEXT),
    )


def _applied(tree: Task, task: Task, answer: Answer, step: int) -> Task:
    after = apply(tree, task.id, answer, step)
    if isinstance(after, Refused):
        raise failed(PlanReason.WORKSPACE_FAILED, " ".join(after.sentences))
    return after


def _cost(requests: Sequence[EfritRequest]) -> dict[str, Any]:
    used = [tokens(each) for each in requests if each.final]
    return {
        "usage": {"input": sum(sent for sent, _ in used), "output": sum(received for _, received in used)},
        "seconds": round(sum(each.status.execution_seconds or 0.0 for each in requests), 3),
    }
