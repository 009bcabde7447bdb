"""act/explain.py: the newest Warning about what belongs to an instance."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.act.explain import explain
from efrit.controller.act.kube import Kube
from tests.unit.controller.fake_api import FakeApi

ALPHA = ("team", "alpha")


def warn(api: FakeApi, message: str, *, about: str = "efrit-alpha-0", reason: str = "Failed", **when: Any) -> None:
    name = f"event-{len(api.objects)}"
    api.put(
        f"/api/v1/namespaces/team/events/{name}",
        {
            "type": when.pop("type", "Warning"),
            "reason": reason,
            "message": message,
            "involvedObject": {"name": about},
            "metadata": {"name": name, "creationTimestamp": "2026-03-01T10:00:00Z"},
            **when,
        },
    )


async def test_without_warnings_there_is_nothing_to_tell(api: FakeApi, kube: Kube) -> None:
    warn(api, "Pulled the image", type="Normal")

    assert await explain(kube, ALPHA) is None


@pytest.mark.parametrize("about", ["efrit-alpha", "efrit-alpha-0", "efrit-alpha-queue", "efrit-alpha-workspace"])
async def test_a_warning_about_anything_of_the_instance_is_told(api: FakeApi, kube: Kube, about: str) -> None:
    warn(api, " exceeded quota\n", about=about)

    assert await explain(kube, ALPHA) == "exceeded quota"


async def test_a_warning_about_another_instance_is_not_told(api: FakeApi, kube: Kube) -> None:
    warn(api, "not ours", about="efrit-alpha-2-0")

    assert await explain(kube, ALPHA) is None


@pytest.mark.parametrize("reason", ["Unhealthy", "FailedScheduling", "BackOff", "FailedToRetrieveImagePullSecret"])
async def test_warnings_that_explain_nothing_are_left_out(api: FakeApi, kube: Kube, reason: str) -> None:
    warn(api, "Readiness probe failed", reason=reason)

    assert await explain(kube, ALPHA) is None


async def test_of_several_warnings_the_newest_is_told_whatever_field_has_its_time(api: FakeApi, kube: Kube) -> None:
    warn(api, "created only")
    warn(api, "last", lastTimestamp="2026-03-01T11:00:00Z")
    warn(api, "newest", series={"lastObservedTime": "2026-03-01T12:00:00.000000Z"}, lastTimestamp=None)
    warn(api, "event", eventTime="2026-03-01T11:30:00.000000Z", lastTimestamp=None)

    assert await explain(kube, ALPHA) == "newest"


async def test_only_warnings_are_asked_for(api: FakeApi, kube: Kube) -> None:
    await explain(kube, ALPHA)

    assert api.calls[0].query["fieldSelector"] == "type=Warning"
