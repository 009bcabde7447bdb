"""No reason of a condition is only a name: the controller gives each."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from efrit.api.reasons import InstanceReason, ModelReason, QueueReason, SelfCheckReason, UpdateReason

SOURCES = Path(__file__).parents[3] / "operator/efrit/controller"
CONTROLLER = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))


@pytest.mark.parametrize("reasons", [InstanceReason, ModelReason, QueueReason, SelfCheckReason, UpdateReason])
def test_the_controller_gives_every_reason(reasons: type[StrEnum]) -> None:
    given = re.findall(rf"\b{reasons.__name__}\.(\w+)", CONTROLLER)
    assert {each.name for each in reasons} == set(given)
