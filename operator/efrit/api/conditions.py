"""Kubernetes conditions: the model, look-up, and replacement that keeps the transition time honest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from efrit.api.meta import ApiModel, Time

MAX_CONDITIONS = 8
"""Of an object, as most definitions say."""
OWN_TYPES = frozenset(
    (
        *("Ready", "QueueHealthy", "ModelReady", "SelfCheckPassed", "EmacsResponsive", "Suspended", "Updated"),
        *("Available", "Progressing", "Backlogged", "ScalingActive", "ScalingLimited"),
        *("Complete", "Succeeded"),
    )
)
"""Types of the conditions that the operator writes."""


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One observation about the resource, in the form of `metav1.Condition`."""

    type: str = Field(description="Type of the condition, in CamelCase.", max_length=316)
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: str = Field(
        description="Reason for the status, one CamelCase word for programs.", min_length=1, max_length=128
    )
    message: str = Field(description="Reason for the status, a sentence for people.", max_length=4096)
    observed_generation: int | None = Field(
        default=None, description="The metadata.generation this was observed for.", ge=0
    )
    last_transition_time: Time = Field(description="When the status last changed.")


def condition_of(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == kind), None)


def with_condition(
    conditions: tuple[Condition, ...],
    kind: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
    most: int = MAX_CONDITIONS,
) -> tuple[Condition, ...]:
    """Return `conditions` with this one set, `most` at most; the transition time moves only when the status does."""
    old = condition_of(conditions, kind)
    moved = old is None or old.status != status
    new = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:4096],
        observed_generation=generation,
        last_transition_time=now if moved or old is None else old.last_transition_time,
    )
    if old is None:
        return (*_with_room(conditions, most), new)
    return tuple(new if condition.type == kind else condition for condition in conditions)


def _with_room(conditions: tuple[Condition, ...], most: int) -> tuple[Condition, ...]:
    """Return conditions that one may be added to: where there are as many as may be, one of somebody else goes."""
    if len(conditions) < most:
        return conditions
    foreign = next((condition for condition in conditions if condition.type not in OWN_TYPES), None)
    return tuple(condition for condition in conditions if condition is not foreign)  # gate: foreign-conditions
