"""No reason of a condition is only a name: the controller gives each, and a page tells those of the queue."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from efrit.api.instance_volumes import Queue
from efrit.api.reasons import InstanceReason, ModelReason, QueueReason, SelfCheckReason, UpdateReason

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "operator/efrit/controller"
CONTROLLER = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))


@pytest.mark.parametrize("reasons", [InstanceReason, ModelReason, QueueReason, SelfCheckReason, UpdateReason])
def test_the_controller_gives_every_reason(reasons: type[StrEnum]) -> None:
    mentioned = re.findall(rf"\b{reasons.__name__}\.(\w+)", CONTROLLER)
    assert {reason.name for reason in reasons} == set(mentioned)


def test_the_users_page_lists_every_reason_of_the_queue_and_the_thresholds() -> None:
    page = (ROOT / "docs/using.md").read_text(encoding="utf-8")
    table = page.partition("| reason of QueueHealthy |")[2].partition("\n\n")[0]
    documented = {
        reason for row in re.findall(r"^\| ([A-Z][\w, ]+) \|", table, re.MULTILINE) for reason in row.split(", ")
    }
    assert documented == {reason.value for reason in QueueReason}
    thresholds = ("stalledAfterSeconds", "backloggedAfterSeconds", "backloggedPercent")
    defaults = {field.alias: field.default for field in Queue.model_fields.values()}
    assert dict(re.findall(r"`queue\.(\w+)` \((\d+)\)", table)) == {name: str(defaults[name]) for name in thresholds}
