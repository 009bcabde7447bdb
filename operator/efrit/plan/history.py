"""The history of a plan as `efrit-plan-history` answers it, parsed leniently: a report shows what there is.

Pure. `report` renders it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from efrit.errors import InvalidPlanRecord, InvalidTree
from efrit.plan.tree import TaskTree, parse_tree
from efrit.protocol.model import error_line
from efrit.protocol.plan_values import LoggedCommit
from efrit.protocol.resource_case import resource_names
from efrit.struct_field import StructField


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


_FiniteSeconds = Annotated[float | None, Field(allow_inf_nan=False)]
_CommitField = Annotated[LoggedCommit, StructField(resource_names, overrides={"seconds": _FiniteSeconds})]


class HistoryIntent(_Record):
    """The intent of a plan."""

    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class _Amendment(_Record):
    text: str = ""


class _HistoryRecord(_Record):
    plan: str = ""
    missing: bool = False
    intent: HistoryIntent = HistoryIntent()
    amendments: tuple[_Amendment, ...] = ()
    tree: dict[str, Any] | None = None
    commits: tuple[_CommitField, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one task, or of all."""

    acts: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def plus_commit(self, commit: LoggedCommit) -> Cost:
        """Return the sum with one more commit."""
        acts = self.acts + (commit.kind == "act")
        return Cost(acts, self.tokens + commit.tokens, round(self.seconds + (commit.seconds or 0.0), 3))


@dataclass(frozen=True, slots=True)
class History:
    """The history of a plan."""

    plan: str
    intent: HistoryIntent
    amendments: Sequence[str]
    tree: TaskTree | None
    commits: Sequence[LoggedCommit]
    """Oldest first."""

    @property
    def total(self) -> Cost:
        """Return the cost of the plan."""
        return _sum(self.commits)

    @property
    def by_task(self) -> Mapping[str, Cost]:
        """Return the cost of each task, also of those no longer in the tree, the most expensive first."""
        tasks = dict.fromkeys(commit.task for commit in self.commits if commit.task is not None)
        costs = {task: _sum([commit for commit in self.commits if commit.task == task]) for task in tasks}
        return dict(sorted(costs.items(), key=lambda item: (-item[1].tokens, -item[1].seconds)))

    @property
    def duration(self) -> float | None:
        """Return the seconds between the first and the last commit."""
        times = [commit.time for commit in self.commits if commit.time is not None]
        try:
            return (times[-1] - times[0]).total_seconds() if times else None
        except TypeError:  # one with a time zone, one without
            return None


def parse_history(answer: Mapping[str, Any]) -> History:
    """Return the history in an answer of `efrit-plan-history`. Raises `InvalidPlanRecord`."""
    try:
        record = _HistoryRecord.model_validate(answer)
        tree = parse_tree(json.dumps(record.tree)) if record.tree is not None else None
    except ValidationError as error:
        raise InvalidPlanRecord(f"The history of the plan cannot be read: {error_line(error)}") from None
    except (InvalidTree, ValueError, RecursionError) as error:
        raise InvalidPlanRecord(f"The history of the plan cannot be read: {error}") from None
    if record.missing:
        raise InvalidPlanRecord("There is no repository of this plan on the workspace.")
    amendments = [amendment.text for amendment in record.amendments]
    return History(record.plan, record.intent, amendments, tree, record.commits)


def _sum(commits: Sequence[LoggedCommit]) -> Cost:
    cost = Cost()
    for commit in commits:
        cost = cost.plus_commit(commit)
    return cost
