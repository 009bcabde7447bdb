"""Plans that do what a test tells them, behind a backend of a test."""

import base64
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from msgspec.structs import replace

from efrit.backend.errors import PlanNotFound
from efrit.backend.plan_history import history_of
from efrit.backend.plans import (
    Change,
    Commit,
    Counts,
    Intent,
    NewPlan,
    Observation,
    Outcome,
    PlanPhase,
    PlanReason,
    PlanState,
    Task,
)
from efrit.plan.lisp_calls import form
from efrit.protocol.plan_enums import Perspective, TaskState, TaskType
from tests.unit.mcp.scripted import BEGAN, ScriptedBackend, evaluated


@dataclass
class ScriptedPlans:
    """Plans begin at once, and become what the test says."""

    backend: ScriptedBackend
    states: dict[str, PlanState] = field(default_factory=dict)
    created: list[NewPlan] = field(default_factory=list)
    changed: anyio.Condition = field(default_factory=anyio.Condition)

    async def create_plan(self, new: NewPlan) -> PlanState:
        self.created.append(new)
        name = new.name or f"plan-{new.key or len(self.created)}"
        assert new.intent is not None
        begun = PlanState(
            name, PlanPhase.RUNNING, PlanReason.RUNNING, new.intent, uid=f"uid-{name}", instance="default", begun=True
        )
        return self.states.setdefault(name, replace(begun, message="It acts.", created=BEGAN))

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        return list(self.states.values())

    async def plan(self, name: str) -> PlanState:
        if name not in self.states:
            raise PlanNotFound(f"there is no plan {name}")
        return self.states[name]

    async def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        last_state: PlanState | None = None
        while True:
            state = await self.plan(name)
            if state != last_state:
                last_state = state
                yield state
                if state.final:
                    return
                continue
            async with self.changed:
                if self.states[name] == last_state:
                    await self.changed.wait()

    async def amend_plan(self, name: str, text: str) -> PlanState:
        state = await self.plan(name)
        return await self.put(name, amendments=(*state.amendments, text))

    async def change_plan(self, name: str, change: Change) -> PlanState:
        await self.plan(name)
        if change is Change.CANCEL:
            return await self.end(name, PlanReason.CANCELLED, Outcome.FAILURE)
        return await self.put(name, suspended=change is Change.SUSPEND)

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        return await history_of(self.backend, await self.plan(name), limit)

    # What a test does to them

    async def put(self, name: str, **fields: Any) -> PlanState:
        async with self.changed:
            self.states[name] = replace(self.states[name], **fields)
            self.changed.notify_all()
        return self.states[name]

    async def end(self, name: str, reason: PlanReason, outcome: Outcome) -> PlanState:
        phase = PlanPhase.SUCCEEDED if outcome is Outcome.SUCCESS else PlanPhase.FAILED
        return await self.put(name, phase=phase, reason=reason, outcome=outcome, message="It is over.")

    def replies(self, name: str, history: dict[str, Any], limit: int | None = None, *, packed: bool = False) -> None:
        """Its instance answers with this history."""
        arguments = {"plan": name, "uid": self.states[name].uid} | ({} if limit is None else {"limit": limit})
        self.backend.answers[form("history", arguments)] = evaluated(answer(history, packed=packed))


async def begin_calc(plans: ScriptedPlans) -> None:
    """Begin a plan of the name calc."""
    await plans.create_plan(NewPlan(Intent("Build a calculator"), name="calc"))


def answer(history: dict[str, Any], *, packed: bool = False) -> str:
    """Return a history as the value of the form is printed."""
    text = json.dumps(history)
    zipped = base64.b64encode(gzip.compress(text.encode())).decode()
    payload = json.dumps({"packed": zipped} if packed else {"value": history})
    return '"' + payload.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _task(name: str, text: str, parent: str | None = "root", kind: TaskType = TaskType.ATOMIC) -> Task:
    return Task(id=name, parent=parent, type=kind, description=text, state=TaskState.PENDING)


def at_work(step: str, task: str, *commits: str) -> dict[str, Any]:
    """Return a plan in the middle of something; its commits oldest first."""
    return {
        "step": step,
        "current_task": task,
        "tree": (_task("root", "All", None, TaskType.PARENT), _task("a", "Add"), _task("b", "")),
        "commits": tuple(Commit(f"hash of {subject}", subject, "act", task, 1) for subject in reversed(commits)),
        "observations": (Observation(Perspective.BUILD, "It builds."),),
        "counts": Counts(3, 3, 0),
    }


COMMIT = {
    "hash": "a" * 40,
    "subject": "[a] ACT: Add",
    "kind": "act",
    "task": "a",
    "step": 1,
    "time": "2026-01-31T09:00:00Z",
    "outcome": "Success",
    "inputTokens": 700,
    "outputTokens": 30,
    "seconds": 2.5,
    "work": {"files": 1, "insertions": 2, "deletions": 0},
}
BY_HAND = {"hash": "b" * 40, "subject": "by hand", "kind": None, "task": None, "step": None, "time": None}
_ROOT = {"id": "root", "type": "parent", "description": "All", "failure_threshold": 0.0, "state": "pending"}
_TREE = _ROOT | {"lessons": [], "attempts": 0, "children": []}
HISTORY = {
    "plan": "calc",
    "uid": "uid-calc",
    "intent": {"description": "Build a calculator", "acceptanceCriteria": [], "constraints": []},
    "amendments": [],
    "environment": None,
    "firstTree": _TREE,
    "tree": _TREE,
    "totals": {"steps": 1},
    "commits": [COMMIT, BY_HAND],
}
