"""What a condition of an instance is to say."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from efrit.api import ConditionStatus


class ConditionState(NamedTuple):
    """A condition's status, reason and message."""

    status: ConditionStatus
    reason: StrEnum
    message: str
