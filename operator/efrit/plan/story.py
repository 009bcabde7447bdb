"""The history of a plan as `efrit-plan-history` answers it, read leniently: a report shows what there is.

Pure. What a page or a terminal makes of it is for `report`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from efrit.errors import InvalidPosition, InvalidTree
from efrit.plan.tree import Task, parse_tree
from efrit.protocol.model import explain


class _Told(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class ToldCommit(_Told):
    """One commit with what it cost; `step` is None for one made by hand."""

    hash: str = ""
    subject: str = ""
    kind: str | None = None
    task: str | None = None
    step: int | None = None
    time: datetime | None = None
    outcome: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = Field(default=0.0, allow_inf_nan=False)

    @property
    def tokens(self) -> int:
        """Sent and received."""
        return self.input_tokens + self.output_tokens


class ToldIntent(_Told):
    """What was wanted."""

    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


class _Amendment(_Told):
    text: str = ""


class _History(_Told):
    plan: str = ""
    missing: bool = False
    intent: ToldIntent = ToldIntent()
    amendments: tuple[_Amendment, ...] = ()
    tree: dict[str, Any] | None = None
    commits: tuple[ToldCommit, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one task has cost, or all."""

    acts: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def plus(self, commit: ToldCommit) -> Cost:
        """With the cost of one commit more."""
        acts = self.acts + (commit.kind == "act")
        return Cost(acts, self.tokens + commit.tokens, round(self.seconds + commit.seconds, 3))


@dataclass(frozen=True, slots=True)
class Story:
    """What a report tells."""

    plan: str
    intent: ToldIntent
    amendments: Sequence[str]
    tree: Task | None
    commits: Sequence[ToldCommit]
    """Oldest first."""

    @property
    def total(self) -> Cost:
        """What the plan has cost."""
        return _sum(self.commits)

    @property
    def by_task(self) -> Mapping[str, Cost]:
        """What each task has cost, the ones that are gone from the tree included, the dearest first."""
        tasks = dict.fromkeys(each.task for each in self.commits if each.task is not None)
        costs = {task: _sum([each for each in self.commits if each.task == task]) for task in tasks}
        return dict(sorted(costs.items(), key=lambda item: (-item[1].tokens, -item[1].seconds)))

    @property
    def lasted(self) -> float | None:
        """Seconds between the first and the last commit."""
        times = [each.time for each in self.commits if each.time is not None]
        try:
            return (times[-1] - times[0]).total_seconds() if times else None
        except TypeError:  # one with a time zone, one without
            return None


def parse_story(history: Mapping[str, Any]) -> Story:
    """The story in a history. Raises `InvalidPosition`."""
    try:
        told = _History.model_validate(history)
        tree = parse_tree(json.dumps(told.tree)) if told.tree is not None else None
    except ValidationError as error:
        raise InvalidPosition(f"The history of the plan cannot be read: {explain(error)}") from None
    except (InvalidTree, ValueError, RecursionError) as error:
        raise InvalidPosition(f"The history of the plan cannot be read: {error}") from None
    if told.missing:
        raise InvalidPosition("There is no repository of this plan on the workspace.")
    return Story(told.plan, told.intent, [each.text for each in told.amendments], tree, told.commits)


def _sum(commits: Sequence[ToldCommit]) -> Cost:
    cost = Cost()
    for each in commits:
        cost = cost.plus(each)
    return cost
