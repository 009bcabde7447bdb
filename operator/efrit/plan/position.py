"""Where a plan stands, as its repository tells it: the last step, the tree, what was observed, what it cost.

Pure. A position comes whole from `begin` or `look`; each commit after that moves it on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from efrit.api.plan import MAX_COMMITS, CommitKind
from efrit.errors import InvalidPosition, InvalidTree
from efrit.plan.calls import arguments_of, unpacked, value_of
from efrit.plan.outline import one_line
from efrit.plan.tree import Task, parse_tree
from efrit.protocol.model import explain


class _Told(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class Commit(_Told):
    """One commit; `step` is None for one that a person made between two steps."""

    hash: str
    subject: str = ""
    kind: CommitKind | None = None
    task: str | None = None
    step: int | None = None
    time: datetime | None = None


class Totals(_Told):
    """Sums over all commits; tokens and seconds are those of the requests they record."""

    acts: int = 0
    adapts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


class _Whole(_Told):
    step: int = Field(ge=0)
    kind: CommitKind | None
    task: str | None = None
    head: str = ""
    amendments: int = Field(ge=0)
    tree: dict[str, Any]
    observations: dict[str, Any] | None = None
    commits: tuple[Commit, ...] = ()
    totals: Totals = Totals()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a plan stands after its commit number `step`."""

    step: int
    kind: CommitKind | None
    task: str | None
    tree: Task
    observations: tuple[Mapping[str, Any], ...] = ()
    amendments: int = 0
    commits: tuple[Commit, ...] = ()
    """The last ones, oldest first."""
    totals: Totals = field(default_factory=Totals)

    @property
    def acted(self) -> bool:
        """Whether the visited task was acted on and waits to be judged."""
        return self.kind is CommitKind.ACT


# A tree of 2,000 tasks takes tens of milliseconds to read, and the same texts are looked at with every decision.
@lru_cache(maxsize=64)
def position_in(result: str) -> Position | None:
    """The position in the result of `begin` or `look`; None: there is no repository. Raises `InvalidPosition`."""
    value = value_of(result)
    return None if value.get("missing") is True else parse_position(value)


@lru_cache(maxsize=64)
def adapted_in(content: str) -> tuple[Task, tuple[Mapping[str, Any], ...]]:
    """Tree and observations that a commit-adapt brings, from the content of its request. Raises `InvalidPosition`."""
    asked = arguments_of(content)
    try:
        return tree_of(asked.get("tree")), observations_of(asked.get("observations"))
    except InvalidTree as error:
        raise InvalidPosition(str(error)) from None


@lru_cache(maxsize=256)
def commit_in(kind: CommitKind, content: str, result: str) -> tuple[Commit, Totals]:
    """One commit and what it adds to the totals, from the content and the result of its request.

    Raises `InvalidPosition`.
    """
    asked = arguments_of(content)
    try:
        commit = Commit.model_validate({**value_of(result), "kind": kind, "task": asked.get("task")})
        cost = {"seconds": asked.get("seconds") or 0.0, **_tokens_of(asked)}
        totals = Totals(acts=int(kind is CommitKind.ACT), adapts=int(kind is CommitKind.ADAPT), **cost)
    except ValidationError as error:
        raise InvalidPosition(f"The answer to a commit cannot be read: {explain(error)}") from None
    return commit.model_copy(update={"subject": one_line(commit.subject, 200)}), totals


def _tokens_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    usage = asked.get("usage")
    given = usage if isinstance(usage, Mapping) else {}
    return {"input_tokens": given.get("input", 0), "output_tokens": given.get("output", 0)}


def parse_position(value: Mapping[str, Any]) -> Position:
    """The position that `begin` or `look` answered. Raises `InvalidPosition`."""
    try:
        whole = _Whole.model_validate(value)
        return Position(
            whole.step,
            whole.kind,
            whole.task,
            tree_of(whole.tree),
            observations_of(whole.observations),
            whole.amendments,
            whole.commits,
            whole.totals,
        )
    except ValidationError as error:
        raise InvalidPosition(f"The position of the plan cannot be read: {explain(error)}") from None
    except InvalidTree as error:
        raise InvalidPosition(f"working_plan/current.json on the workspace: {error}") from None


def tree_of(payload: object) -> Task:
    """The tree in a payload. Raises `InvalidPosition` or `InvalidTree`."""
    return parse_tree(json.dumps(unpacked(payload)))


def observations_of(payload: object) -> tuple[Mapping[str, Any], ...]:
    """The observations in a payload; none where there is nothing of that shape."""
    value = unpacked(payload) if payload is not None else ()
    return tuple(each for each in value if isinstance(each, dict)) if isinstance(value, Sequence) else ()


def moved_on(position: Position, commit: Commit, added: Totals) -> Position:
    """The position after one commit more; the tree stays as it was."""
    before = position.totals
    return replace(
        position,
        step=position.step + 1,
        kind=commit.kind,
        task=commit.task,
        amendments=position.amendments + (commit.kind is CommitKind.AMEND),
        commits=(*position.commits, commit)[-MAX_COMMITS:],
        totals=Totals(
            acts=before.acts + added.acts,
            adapts=before.adapts + added.adapts,
            input_tokens=before.input_tokens + added.input_tokens,
            output_tokens=before.output_tokens + added.output_tokens,
            seconds=round(before.seconds + added.seconds, 3),
        ),
    )
