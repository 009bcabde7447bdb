"""The cursor of a plan, as its repository records it: the last step, the tree, the observations, the cost.

Pure. `begin` and `look` answer a whole cursor; each commit after that advances it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any

from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from efrit.api.plan import MAX_COMMITS
from efrit.errors import InvalidPlanRecord, InvalidTree
from efrit.plan.lisp_calls import arguments_of, unpacked, value_of
from efrit.plan.outline import one_line
from efrit.plan.tree import TaskTree, parse_tree
from efrit.protocol.model import error_line
from efrit.protocol.plan_enums import CommitKind
from efrit.protocol.plan_values import Commit
from efrit.protocol.resource_case import resource_names
from efrit.struct_field import StructField

_LARGEST = 2**53
"""What JSON passes on unchanged, with enough above it for the sums of a status."""
_Number = Annotated[int, Field(ge=0, le=_LARGEST)]


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


_CommitField = Annotated[
    Commit,
    StructField(
        resource_names,
        overrides={
            "kind": CommitKind | None,
            "task": Annotated[str | None, Field(max_length=128)],
            "step": _Number | None,
        },
        required=("hash",),
    ),
]
COMMIT = TypeAdapter[Commit](_CommitField)
"""A commit as `begin`, `look` and the calls that commit answer it."""


class Totals(_Record):
    """Sums over all commits; tokens and seconds are those of the requests that they record."""

    acts: _Number = 0
    adapts: _Number = 0
    input_tokens: _Number = 0
    output_tokens: _Number = 0
    seconds: Annotated[float, Field(ge=0, le=_LARGEST, allow_inf_nan=False)] = 0.0


class _CursorRecord(_Record):
    step: _Number
    kind: CommitKind | None
    task: str | None = None
    head: str = ""
    amendments: _Number
    tree: dict[str, Any]
    observations: dict[str, Any] | None = None
    commits: tuple[_CommitField, ...] = ()
    totals: Totals = Totals()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of a plan after its commit number `step`."""

    step: int
    kind: CommitKind | None
    task: str | None
    tree: TaskTree
    observations: tuple[Mapping[str, Any], ...] = ()
    amendments: int = 0
    commits: tuple[Commit, ...] = ()
    """The last ones, oldest first."""
    totals: Totals = field(default_factory=Totals)

    @property
    def acted(self) -> bool:
        """Whether the last commit was an act, whose task is still to be assessed."""
        return self.kind is CommitKind.ACT


# A tree of 2,000 tasks takes tens of milliseconds to parse, and every decision reads the same texts again.
@lru_cache(maxsize=64)
def cursor_in(result: str) -> Cursor | None:
    """Return the cursor in a result of `begin` or `look`; None: no repository. Raises `InvalidPlanRecord`."""
    value = value_of(result)
    return None if value.get("missing") is True else parse_cursor(value)


@lru_cache(maxsize=64)
def adapted_tree_in(content: str) -> tuple[TaskTree, tuple[Mapping[str, Any], ...]]:
    """Return the tree and the observations in the content of a commit-adapt. Raises `InvalidPlanRecord`."""
    arguments = arguments_of(content)
    try:
        return tree_of(arguments.get("tree")), observations_of(arguments.get("observations"))
    except InvalidTree as error:
        raise InvalidPlanRecord(str(error)) from None


@lru_cache(maxsize=256)
def commit_in(kind: CommitKind, content: str, result: str) -> tuple[Commit, Totals]:
    """Return a commit and what it adds to the totals, from the content and the result of its request.

    Raises `InvalidPlanRecord`.
    """
    arguments = arguments_of(content)
    try:
        commit = COMMIT.validate_python({**value_of(result), "kind": kind, "task": arguments.get("task")})
        cost = {"seconds": arguments.get("seconds") or 0.0, **_tokens_of(arguments)}
        totals = Totals(acts=int(kind is CommitKind.ACT), adapts=int(kind is CommitKind.ADAPT), **cost)
    except ValidationError as error:
        raise InvalidPlanRecord(f"The answer to a commit cannot be read: {error_line(error)}") from None
    return structs.replace(commit, subject=one_line(commit.subject, 200)), totals


def _tokens_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    usage = arguments.get("usage")
    if not isinstance(usage, Mapping):
        usage = {}
    return {"input_tokens": usage.get("input", 0), "output_tokens": usage.get("output", 0)}


def parse_cursor(value: Mapping[str, Any]) -> Cursor:
    """Return the cursor that `begin` or `look` answered. Raises `InvalidPlanRecord`."""
    try:
        record = _CursorRecord.model_validate(value)
        return Cursor(
            record.step,
            record.kind,
            record.task,
            tree_of(record.tree),
            observations_of(record.observations),
            record.amendments,
            record.commits,
            record.totals,
        )
    except ValidationError as error:
        raise InvalidPlanRecord(f"The state of the plan cannot be read: {error_line(error)}") from None
    except InvalidTree as error:
        raise InvalidPlanRecord(f"working_plan/current.json on the workspace: {error}") from None


def tree_of(payload: object) -> TaskTree:
    """Return the tree in a payload. Raises `InvalidPlanRecord` or `InvalidTree`."""
    return parse_tree(json.dumps(unpacked(payload)))


def observations_of(payload: object) -> tuple[Mapping[str, Any], ...]:
    """Return the observations in a payload; none if it has another shape."""
    value = unpacked(payload) if payload is not None else ()
    members = value if isinstance(value, Sequence) else ()
    return tuple(member for member in members if isinstance(member, dict))


def next_cursor(cursor: Cursor, commit: Commit, added: Totals) -> Cursor:
    """Return the cursor after one more commit; the tree stays as it was."""
    totals = cursor.totals
    return replace(
        cursor,
        step=cursor.step + 1,
        kind=CommitKind(commit.kind) if commit.kind else None,
        task=commit.task,
        amendments=cursor.amendments + (commit.kind == CommitKind.AMEND),
        commits=(*cursor.commits, commit)[-MAX_COMMITS:],
        totals=Totals(
            acts=totals.acts + added.acts,
            adapts=totals.adapts + added.adapts,
            input_tokens=totals.input_tokens + added.input_tokens,
            output_tokens=totals.output_tokens + added.output_tokens,
            seconds=round(totals.seconds + added.seconds, 3),
        ),
    )
