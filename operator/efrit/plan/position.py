"""Where a plan stands, as its repository tells it: the last step, the tree, what was observed, what it cost.

Pure. A position comes whole from `begin` or `look`; each commit after that moves it on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from efrit.api.plan import MAX_COMMITS, CommitKind
from efrit.errors import InvalidPosition, InvalidTree
from efrit.plan.calls import unpacked
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
    kind: CommitKind
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
    kind: CommitKind
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


def moved_on(position: Position, kind: CommitKind, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> Position:
    """The position after one commit more, from the arguments of its call and the answer; the tree stays as it was."""
    try:
        commit = Commit.model_validate(answer)
    except ValidationError as error:
        raise InvalidPosition(f"The answer to a commit cannot be read: {explain(error)}") from None
    usage, totals = asked.get("usage") or {}, position.totals
    return replace(
        position,
        step=position.step + 1,
        kind=kind,
        task=asked.get("task"),
        amendments=position.amendments + (kind is CommitKind.AMEND),
        commits=(*position.commits, commit.model_copy(update={"subject": one_line(commit.subject, 200)}))[
            -MAX_COMMITS:
        ],
        totals=Totals(
            acts=totals.acts + (kind is CommitKind.ACT),
            adapts=totals.adapts + (kind is CommitKind.ADAPT),
            input_tokens=totals.input_tokens + usage.get("input", 0),
            output_tokens=totals.output_tokens + usage.get("output", 0),
            seconds=round(totals.seconds + (asked.get("seconds") or 0.0), 3),
        ),
    )
