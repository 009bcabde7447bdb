"""EfritPlans in the client's words, and a plan to be as a custom resource. Pure: JSON in, values out."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from efrit.backend.errors import Refused
from efrit.backend.interface import Outcome
from efrit.backend.plans import (
    Commit,
    Cost,
    Counts,
    Intent,
    NewPlan,
    Observation,
    PlanPhase,
    PlanReason,
    PlanState,
    Task,
)
from efrit.backend.resource_fields import EnumReader, condition, likely_phase, reason_of
from efrit.protocol.plan_enums import TaskState, TaskType
from efrit.protocol.resource_case import from_resource
from efrit.protocol.times import parse_time

Json = Mapping[str, Any]

LONGEST_NAME = 63
_LONGEST_SLUG = 40


MAX_BRIEF_CHARACTERS = 200


def without_texts(state: PlanState) -> PlanState:
    """Return `state` without what may be long: the tree, the commits, what was added and found.

    Of the intent and of the task at hand the beginning is kept.
    """
    current = [replace(task, lessons=()) for task in state.tree if task.id == state.current_task][:1]
    return replace(
        state,
        intent=Intent(state.intent.description[:MAX_BRIEF_CHARACTERS]),
        message=state.message[:MAX_BRIEF_CHARACTERS],
        amendments=(),
        tree=tuple(replace(task, description=task.description[:MAX_BRIEF_CHARACTERS]) for task in current),
        commits=(),
        observations=(),
    )


def plan_of(obj: Json) -> PlanState:
    """Return the state that an EfritPlan describes."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    limits, enums = spec.get("limits") or {}, EnumReader()
    outcome = enums.read(Outcome, status.get("outcome"), "outcome")
    phase = enums.read(PlanPhase, status.get("phase"), "phase")
    if phase is None:
        phase = likely_phase(PlanPhase, status, succeeded=outcome is Outcome.SUCCESS)
    return PlanState(
        name=meta["name"],
        phase=phase,
        reason=reason_of(PlanReason, status.get("reason"), PlanReason.PENDING),
        intent=_intent(spec.get("intent") or {}),
        uid=meta.get("uid") or "",
        message=enums.named_in(
            str(condition(obj, "Complete").get("message") or "The operator has not reconciled it yet.")
        ),
        outcome=outcome,
        amendments=tuple(spec.get("amendments") or ()),
        instance=status.get("instanceName") or (spec.get("instanceRef") or {}).get("name"),
        pool=(spec.get("poolRef") or {}).get("name"),
        current_task=status.get("currentTask"),
        step=status.get("step"),
        request=status.get("currentRequest"),
        tree=tuple(map(_task, status.get("tree") or ())),
        commits=tuple(map(_commit, status.get("commits") or ())),
        commit_count=status.get("commitCount") or 0,
        observations=tuple(_observations(status.get("observations") or ())),
        counts=from_resource(Counts, status.get("counts") or {}),
        cost=from_resource(Cost, status.get("cost") or {}),
        max_steps=limits.get("maxSteps"),
        max_tokens=limits.get("maxTokens"),
        timeout_seconds=limits.get("timeoutSeconds"),
        suspended=bool(spec.get("suspend")),
        cancelled=bool(spec.get("cancel")),
        begun=bool(status.get("instanceName")),
        created=parse_time(meta.get("creationTimestamp")),
        started=parse_time(status.get("startTime")),
        completed=parse_time(status.get("completionTime")),
    )


def _intent(value: Json) -> Intent:
    return Intent(
        str(value.get("description") or ""),
        tuple(value.get("acceptanceCriteria") or ()),
        tuple(value.get("constraints") or ()),
    )


def _task(value: Json) -> Task:
    enums = EnumReader()
    kind = enums.read(TaskType, value.get("type"), "type") or TaskType.ATOMIC
    state = enums.read(TaskState, value.get("state"), "state") or TaskState.PENDING
    task = from_resource(Task, {"description": "", **value, "type": kind, "state": state})
    return replace(task, description=enums.named_in(task.description))


def _commit(value: Json) -> Commit:
    return from_resource(Commit, {**value, "time": parse_time(value.get("time"))})


def _observations(values: Iterable[Json]) -> Iterator[Observation]:
    for value in values:
        # A later operator's perspective is left out.
        with suppress(ValueError):
            yield from_resource(Observation, value)


# A plan to be


def plan_name(new: NewPlan, description: str, chance: str) -> str:
    """Return the name for a new plan: as given, derived from the key, or from `description` and `chance`.

    Raises `Refused`.
    """
    if new.name is not None:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", new.name) or len(new.name) > LONGEST_NAME:
            raise Refused(
                f"{new.name!r} cannot be the name of a plan",
                f"it names a directory and a branch, too: at most {LONGEST_NAME} lower-case letters, digits and '-'",
            )
        return new.name
    if new.key is not None:
        return f"plan-{hashlib.sha256(new.key.encode()).hexdigest()[:20]}"
    return f"{_slug(description) or 'plan'}-{chance}"


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain[:400]).strip("-")
    if len(words) <= _LONGEST_SLUG:
        return words
    # Whole words, where there are any.
    return (words[: _LONGEST_SLUG + 1].rpartition("-")[0] or words[:_LONGEST_SLUG]).strip("-")


def plan_spec(new: NewPlan) -> dict[str, Any]:
    """Return the spec without its target: the given one, with the options named beside it. Raises `Refused`."""
    spec: dict[str, Any] = json.loads(json.dumps(dict(new.spec)))
    for name in ("limits", "assess", "act", "environment", "intent"):
        if not isinstance(spec.get(name) or {}, dict):
            raise Refused(f"the field {name} of the plan is not an object", "see docs/api.md, EfritPlan")
    if new.intent is not None:
        spec["intent"] = _spec_fields(
            description=new.intent.description,
            acceptanceCriteria=list(new.intent.acceptance_criteria) or None,
            constraints=list(new.intent.constraints) or None,
        )
    if not str((spec.get("intent") or {}).get("description") or "").strip():
        raise Refused("the plan has no intent", "describe the goal")
    _put(spec, "limits", maxSteps=new.max_steps, maxTokens=new.max_tokens, timeoutSeconds=_whole(new.timeout))
    commands = {name: list(getattr(new, name)) or None for name in ("build", "integration", "quality")}
    _put(spec, "assess", **commands, timeoutSeconds=_whole(new.assess_timeout))
    _put(spec, "act", timeoutSeconds=_whole(new.act_timeout))
    beside = (new.git_branch, new.git_revision, new.git_secret)
    if new.git_url is not None:
        secret = {"name": new.git_secret} if new.git_secret is not None else None
        git = _spec_fields(url=new.git_url, branch=new.git_branch, revision=new.git_revision, secretRef=secret)
        _put(spec, "environment", git=git)
    elif any(option is not None for option in beside):
        raise Refused("a branch, a revision or a Secret without a repository", "name the repository's URL, too")
    return spec


def named_target(new: NewPlan, spec: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the target from `spec` and return it; an instance named beside it goes first. None if neither is named.

    Raises `Refused`.
    """
    targets = {name: spec.pop(name) for name in ("instanceRef", "poolRef") if spec.get(name) is not None}
    if new.instance is not None and new.pool is not None:
        raise Refused("both an instance and a pool are named", "leave one of them out")
    if new.instance is not None:
        return {"instanceRef": {"name": new.instance}}
    if new.pool is not None:
        return {"poolRef": {"name": new.pool}}
    return targets or None


def plan_digest(spec: Json, named: Json | None) -> str:
    """Return the digest of what a name or key stands for: the plan and its named target, not the chosen one."""
    return hashlib.sha256(json.dumps([spec, named], sort_keys=True).encode()).hexdigest()


def _put(spec: dict[str, Any], name: str, **values: Any) -> None:
    if fields := _spec_fields(**values):
        spec[name] = {**(spec.get(name) or {}), **fields}


def _spec_fields(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds)
