"""A world in which a plan runs: requests, an Emacs with a git repository, a model; any effect may be the last one.

The repository follows the rules of efrit-plan.el: a committing call makes its step once, and says so again when it is
asked again. Whoever drives holds no state: a crash only ends a turn, before or after one effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from efrit.api import EfritPlan, EfritRequest
from efrit.api.request import MAX_INLINE_RESULT_CHARS
from efrit.api.wire_types import MAX_TIMEOUT_SECONDS
from efrit.plan import lisp_calls
from efrit.plan.cursor import tree_of
from efrit.plan.engine import Create, Decision, Finish, Snapshot, Wait, decide
from efrit.plan.tree import TaskTree

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MAX_TURNS = 5_000
UID = "0e0e-plan-uid"

Json = dict[str, Any]
Model = Callable[[str, str, Json], Json | str]
"""What the model answers to a part of a cycle, about a task: a text, or whole fields of a request's status."""


Killer = Callable[[int, str, str], bool]
"""Whether to be killed at the effect of this number, of this name: `before` it or `after` it."""


class Crash(Exception):  # noqa: N818 - what happens, not an error
    """Whoever drives is gone; what was done is done."""


class LispError(Exception):
    """What a function of efrit-plan.el signals."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def plan_json(**spec: Any) -> Json:
    intent = {"description": "A program that counts words.", "acceptanceCriteria": ["make test passes"]}
    return {
        "metadata": {"name": "words", "namespace": "team", "uid": UID},
        "spec": {"intent": intent, "instanceRef": {"name": "alpha"}, **spec},
        "status": {"startTime": "2026-03-01T12:00:00Z"},
    }


@dataclass
class Repository:
    """The git repository of one plan: its commits, the newest last."""

    commits: list[Json] = field(default_factory=list)

    def call(self, function: str, arguments: Json) -> Json:
        return getattr(self, "_" + function.replace("-", "_"))(arguments)  # type: ignore[no-any-return]

    @property
    def tree(self) -> TaskTree:
        return tree_of(self.commits[-1]["tree"])

    def commit_lines(self) -> list[str]:
        """Return the commits in short, as `0 begin`, `1 act a`."""
        return [
            " ".join(str(commit[key]) for key in ("step", "kind", "task") if commit[key]) for commit in self.commits
        ]

    def _begin(self, arguments: Json) -> Json:
        if not self.commits:
            self._add(arguments, 0, "begin", tree=arguments["tree"])
        return self._look(arguments)

    def _look(self, arguments: Json) -> Json:
        if not self.commits or self.commits[-1]["uid"] != arguments["uid"]:
            return {"missing": True}
        head = self.commits[-1]
        payload = lisp_calls.packed(json.dumps(lisp_calls.unpacked(head["tree"])))
        return {
            **{key: head[key] for key in ("step", "kind", "task")},
            "head": head["hash"],
            "amendments": sum(commit["kind"] == "amend" for commit in self.commits),
            "tree": payload,
            "observations": head["observations"],
            "commits": [self._shown(commit) for commit in self.commits[-20:]],
            "totals": {
                "steps": head["step"],
                "acts": sum(commit["kind"] == "act" for commit in self.commits),
                "adapts": sum(commit["kind"] == "adapt" for commit in self.commits),
                "inputTokens": sum(commit["usage"]["input"] for commit in self.commits),
                "outputTokens": sum(commit["usage"]["output"] for commit in self.commits),
                "seconds": sum(commit["seconds"] for commit in self.commits),
            },
        }

    def _facts(self, arguments: Json) -> Json:
        return {
            perspective: [
                {"command": command, "exitCode": 0, "timedOut": False, "output": "fine", "seconds": 0.1}
                for command in commands
            ]
            for perspective, commands in arguments["commands"].items()
        }

    def _commit_act(self, arguments: Json) -> Json:
        made = self._step(arguments, "act", f"[{arguments['task']}] ACT: {arguments['description']}")
        return {**made, "changed": ["main.c"], "files": 1, "diff": "+int main;", "truncated": False}

    def _commit_adapt(self, arguments: Json) -> Json:
        subject = f"[{arguments['task']}] ADAPT: {arguments['reason']}"
        return self._step(arguments, "adapt", subject, tree=arguments["tree"], observations=arguments["observations"])

    def _amend(self, arguments: Json) -> Json:
        return self._step(arguments, "amend", f"[amend] {arguments['number']}: {arguments['text']}")

    def _step(self, arguments: Json, kind: str, subject: str, **changes: Any) -> Json:
        head, step = self.commits[-1], arguments["step"]
        if head["step"] == step and (head["kind"], head["task"]) == (kind, arguments.get("task")):
            return self._shown(head)
        if head["step"] != step - 1:
            raise LispError("efrit-plan-out-of-order", f"Step {step} cannot be made: the last is {head['step']}.")
        self._add(arguments, step, kind, subject=subject, **changes)
        return self._shown(self.commits[-1])

    def _add(self, arguments: Json, step: int, kind: str, **changes: Any) -> None:
        before = self.commits[-1] if self.commits else {"tree": None, "observations": None}
        self.commits.append(
            {
                "uid": arguments["uid"],
                "step": step,
                "kind": kind,
                "task": arguments.get("task"),
                "hash": f"{step:040x}",
                "subject": f"[{kind}] PLAN",
                "tree": before["tree"],
                "observations": before["observations"],
                "usage": arguments.get("usage", {"input": 0, "output": 0}),
                "seconds": arguments.get("seconds", 0),
                "outcome": arguments.get("outcome"),
                **changes,
            }
        )

    def _shown(self, commit: Json) -> Json:
        summary = {key: commit[key] for key in ("hash", "subject", "kind", "task", "step")}
        return {**summary, "time": (START + timedelta(seconds=commit["step"])).isoformat()}


class World:
    """Drives one plan to its end, by one decision and one effect at a time."""

    def __init__(
        self,
        plan: Json,
        model: Model,
        crash: Killer | None = None,
        max_content_bytes: int = 65_536,
    ) -> None:
        self.plan = plan
        self.model = model
        self.repository = Repository()
        self.requests: dict[str, Json] = {}
        self.created: list[str] = []
        self.now = START
        self.effects = 0
        self.crashes = 0
        self.decisions: list[Decision] = []
        self.max_content_bytes = max_content_bytes
        self.credentials: str | None = None
        self.max_session_tokens: int | None = None
        self.max_timeout_seconds: int | None = None
        self._crash = crash
        self._models: dict[str, EfritRequest] = {}
        self.before_turn: Callable[[World], None] = lambda _world: None

    def snapshot(self) -> Snapshot:
        for name, request in self.requests.items():
            if name not in self._models:
                status = dict(request["status"])
                if "result" in status:
                    status["result"] = status["result"][:MAX_INLINE_RESULT_CHARS]
                self._models[name] = EfritRequest.model_validate({**request, "status": status})
        requests = {name: self._models[name] for name in self.requests}
        results = {
            name: request["status"]["result"]
            for name, request in self.requests.items()
            if "result" in request["status"]
        }
        plan = EfritPlan.model_validate(self.plan)
        return Snapshot(
            plan,
            requests,
            results,
            credentials=self.credentials,
            max_content_bytes=self.max_content_bytes,
            max_session_tokens=self.max_session_tokens,
            max_timeout_seconds=self.max_timeout_seconds,
        )

    def forget_models(self) -> None:
        """Read the requests anew: one was changed from outside."""
        self._models.clear()

    def name_of(self, part: str) -> str:
        """Name of the request for this part of a step."""
        return next(name for name in self.requests if name.endswith(f"-{part}"))

    def run(self) -> Finish:
        """Until the plan is over."""
        for _ in range(MAX_TURNS):
            try:
                if (end := self.turn()) is not None:
                    return end
            except Crash:
                self.crashes += 1
        raise AssertionError(f"not over: {self.decisions[-1].message}")

    def turn(self) -> Finish | None:
        """One decision, and what follows from it."""
        self.before_turn(self)
        snapshot = self.snapshot()
        decision = decide(snapshot, self.now)
        assert decide(snapshot, self.now) == decision
        self.decisions.append(decision)
        self.now += timedelta(seconds=1)
        for name in decision.cancel:
            self.requests[name]["spec"]["cancel"] = True
            self._models.pop(name, None)
        for name in decision.superseded:
            del self.requests[name]
        match decision.action:
            case Finish() as end:
                return end
            case Create() as create:
                self._effect(f"create {create.name}", lambda: self._create(create))
            case Wait(until):
                if not self._work() and until is not None:
                    self.now = max(self.now, until)
        return None

    def _effect(self, name: str, do: Callable[[], None]) -> None:
        self.effects += 1
        if self._crash is not None and self._crash(self.effects, name, "before"):
            raise Crash
        do()
        if self._crash is not None and self._crash(self.effects, name, "after"):
            raise Crash

    def _create(self, create: Create) -> None:
        assert len(create.name) <= 63
        assert len(create.spec["content"].encode()) <= self.max_content_bytes
        assert create.spec.get("timeoutSeconds", 1) <= (self.max_timeout_seconds or MAX_TIMEOUT_SECONDS)
        self.created.append(create.name)
        spec = {**create.spec, "instanceRef": {"name": "alpha"}}
        meta = {"name": create.name, "namespace": "team", "uid": f"uid-{create.name}"}
        request = {"metadata": meta, "spec": spec, "status": {}, "what": create.attempt, "step": create.step}
        self.requests.setdefault(create.name, request)

    def _work(self) -> bool:
        """Emacs runs what is open: first the work, then the answer that tells of it."""
        waiting = [name for name, request in self.requests.items() if "phase" not in request["status"]]
        for name in waiting:
            self._run(name, self.requests[name])
        return bool(waiting)

    def _run(self, name: str, request: Json) -> None:
        answer: Json = {}
        self._effect(f"run {name}", lambda: answer.update(self._answer(request)))
        self._effect(f"deliver {name}", lambda: self._deliver(request, answer))

    def _deliver(self, request: Json, answer: Json) -> None:
        request["status"].update(answer)
        self._models.pop(request["metadata"]["name"], None)

    def _answer(self, request: Json) -> Json:
        spec = request["spec"]
        if spec.get("cancel"):
            return self._ended("Cancelled", error={"code": "Cancelled", "message": "It was cancelled."})
        if spec["type"] == "eval":
            return self._eval(request)
        reply = self.model(request["what"], task_of(spec["content"], request["what"]), request)
        usage = {"inputTokens": 10, "outputTokens": 5}
        session = {"id": (spec.get("session") or {}).get("id") or f"s-{request['metadata']['name']}"}
        fields = {"result": reply} if isinstance(reply, str) else reply
        reason = fields.pop("reason", "Succeeded")
        return self._ended(reason, usage=usage, session=session, **fields)

    def _eval(self, request: Json) -> Json:
        function = re.match(r"\(efrit-plan-([a-z-]+) ", request["spec"]["content"])
        assert function is not None
        try:
            reply = self.model(function[1], "", request)
            if isinstance(reply, dict) and reply:
                return self._ended(reply.pop("reason", "EvalError"), **reply)
            value = self.repository.call(function[1], lisp_calls.arguments_of(request["spec"]["content"]))
        except LispError as error:
            return self._ended("EvalError", error={"code": error.code, "message": str(error)})
        text = json.dumps(value).replace("\\", "\\\\").replace('"', '\\"')
        return self._ended("Succeeded", result=f'"{text}"')

    def _ended(self, reason: str, **fields: Any) -> Json:
        outcome = "Success" if reason == "Succeeded" else "Partial" if reason == "Partial" else "Failure"
        ended = self.now.isoformat()
        return {
            "phase": "Succeeded" if reason == "Succeeded" else "Failed",
            "reason": reason,
            "outcome": outcome,
            "executionSeconds": 0.5,
            "completionTime": ended,
            **fields,
        }


def task_of(content: str, _what: str) -> str:
    """Return the task a message is about; none in one that goes back."""
    match = re.search(r"^# The task (\S+) ", content, re.MULTILINE)
    return match[1] if match else ""


def done(reason: str = "it is there") -> str:
    return navigator_answer("done", reason)


def navigator_answer(verdict: str, reason: str, *operations: Mapping[str, Any]) -> str:
    return json.dumps({"verdict": verdict, "reason": reason, "operations": operations})


def facts(statement: str = "it compiles") -> str:
    return json.dumps({"observations": [{"perspective": "build", "statement": statement, "evidence": ""}]})


Answers = dict[str, list[Json | str]]
"""By part and task, what a model says each time."""


def scripted(**answers: list[Json | str]) -> Model:
    """Return a model that acts and assesses well; by part and task (`adapt_a`), what it says each time, then it ends.

    What it says rests on the request alone, so that a request that runs twice is answered alike.
    """
    replies: dict[str, Json | str] = {}

    def model(what: str, task: str, request: Json) -> Json | str:
        name = request["metadata"]["name"]
        if name not in replies:
            remaining = answers.get(f"{what}_{task}".replace("-", "_").replace(".", "_").rstrip("_"), [])
            usual: Json | str = facts() if what.startswith("assess") else done() if what.startswith("adapt") else "ok"
            replies[name] = remaining.pop(0) if remaining else usual if request["spec"]["type"] != "eval" else {}
        answer = replies[name]
        return dict(answer) if isinstance(answer, dict) else answer

    return model
