"""act/warning_events.py: the newest Warning about what belongs to an instance."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from efrit import resources
from efrit.controller.act.kube import Kube
from efrit.controller.act.warning_events import MAX_AT_A_TIME, MAX_EVENTS, MAX_MESSAGE_CHARS, WarningEvents, explain
from efrit.controller.model.actions import ReadWarningEvents
from efrit.kube.client import MAX_PAGE_BYTES
from tests.unit.controller.fake_api import FakeApi

ALPHA = ("team", "alpha")
LAST_POD = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
PENDING = (("efrit-alpha-queue", "claim"), ("efrit-alpha-workspace", "claim"))
STARTING = ReadWarningEvents(ALPHA, pod_uid="pod", statefulset_uid="ss", claims=PENDING, after=LAST_POD)
BOUND = ReadWarningEvents(ALPHA, pod_uid="pod", statefulset_uid="ss", after=LAST_POD)
WITHOUT_POD = ReadWarningEvents(ALPHA, statefulset_uid="ss", after=LAST_POD)
KINDS = {
    "efrit-alpha": "StatefulSet",
    "efrit-alpha-queue": "PersistentVolumeClaim",
    "efrit-alpha-workspace": "PersistentVolumeClaim",
}


def warn(api: FakeApi, message: str, *, about: str = "efrit-alpha-0", reason: str = "Failed", **when: Any) -> None:
    name = f"event-{len(api.objects)}"
    uid = when.pop("uid", None)
    api.put(
        resources.EVENTS.path("team", name),
        {
            "type": when.pop("type", "Warning"),
            "reason": reason,
            "message": message,
            "involvedObject": {"name": about, "kind": KINDS.get(about, "Pod"), "uid": uid},
            "metadata": {"name": name, "creationTimestamp": "2026-03-01T10:00:00Z"},
            **when,
        },
    )


async def test_without_warnings_there_is_nothing_to_report(api: FakeApi, kube: Kube) -> None:
    warn(api, "Pulled the image", type="Normal")

    assert await explain(kube, STARTING) is None


GOING = {
    "reason": "Forbidden",
    "message": "events is forbidden: unable to create new content in namespace team because it is being terminated",
    "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
}


async def test_without_a_pod_a_namespace_that_is_being_deleted_is_reported(api: FakeApi, kube: Kube) -> None:
    api.fail("POST", resources.EVENTS.path("team"), 403, GOING)

    for _ in range(2):
        problem = await explain(kube, WITHOUT_POD)

        assert problem is not None
        assert "namespace team is being deleted" in problem
        assert "kubectl describe namespace team" in problem
    # No one else can be told by events either: the second time is in the pause after the first.
    assert len(api.made("POST")) == 1


@pytest.mark.parametrize("status", [201, 403], ids=["it could be created", "a quota is used up"])
async def test_a_namespace_that_stays_is_asked_without_a_trace(api: FakeApi, kube: Kube, status: int) -> None:
    if status == 403:
        api.fail("POST", resources.EVENTS.path("team"), 403, {"message": "exceeded quota"})

    assert await explain(kube, WITHOUT_POD) is None
    assert [call.query["dryRun"] for call in api.made("POST")] == ["All"]


async def test_a_namespace_is_not_asked_about_where_there_is_a_pod_or_a_warning(api: FakeApi, kube: Kube) -> None:
    assert await explain(kube, STARTING) is None
    warn(api, "exceeded quota", about="efrit-alpha", lastTimestamp="2026-03-01T11:00:00Z")
    assert await explain(kube, WITHOUT_POD) == "exceeded quota"

    assert api.made("POST") == []


@pytest.mark.parametrize("about", ["efrit-alpha", "efrit-alpha-0", "efrit-alpha-queue", "efrit-alpha-workspace"])
async def test_a_warning_about_anything_of_the_instance_is_reported(api: FakeApi, kube: Kube, about: str) -> None:
    warn(api, " exceeded quota\n", about=about)

    assert await explain(kube, STARTING) == "exceeded quota"


async def test_a_warning_about_another_instance_is_not_reported(api: FakeApi, kube: Kube) -> None:
    warn(api, "not ours", about="efrit-alpha-2-0")

    assert await explain(kube, STARTING) is None


@pytest.mark.parametrize("reason", ["Unhealthy", "FailedScheduling", "BackOff", "FailedToRetrieveImagePullSecret"])
async def test_warnings_that_explain_nothing_are_left_out(api: FakeApi, kube: Kube, reason: str) -> None:
    warn(api, "Readiness probe failed", reason=reason)

    assert await explain(kube, STARTING) is None


async def test_of_several_warnings_the_newest_is_reported_whatever_field_has_its_time(
    api: FakeApi, kube: Kube
) -> None:
    warn(api, "created only")
    warn(api, "last", lastTimestamp="2026-03-01T11:00:00Z")
    warn(api, "newest", series={"lastObservedTime": "2026-03-01T12:00:00.000000Z"}, lastTimestamp=None)
    warn(api, "event", eventTime="2026-03-01T11:30:00.000000Z", lastTimestamp=None)

    assert await explain(kube, STARTING) == "newest"


async def test_a_time_that_python_does_not_know_is_left_out(api: FakeApi, kube: Kube) -> None:
    """Whoever may write events may write the year 0, which is one for the API server."""
    warn(api, "exceeded quota", lastTimestamp="0000-01-01T00:00:00Z")

    assert await explain(kube, STARTING) == "exceeded quota"


@pytest.mark.parametrize(
    ("question", "about", "uid", "seen", "expected"),
    [
        pytest.param(STARTING, "efrit-alpha-0", "pod", "09:31", "no", id="of its pod"),
        pytest.param(STARTING, "efrit-alpha-0", "before", "09:31", None, id="of the pod before"),
        pytest.param(STARTING, "efrit-alpha", "ss", "09:30", None, id="why its pod was not created at first"),
        pytest.param(WITHOUT_POD, "efrit-alpha-0", "pod", "09:31", None, id="of a pod that is gone"),
        pytest.param(STARTING, "efrit-alpha-queue", "claim", "09:29", "no", id="of a claim that is pending"),
        pytest.param(STARTING, "efrit-alpha-queue", "before", "09:31", None, id="of the claim before"),
        pytest.param(BOUND, "efrit-alpha-queue", "claim", "09:31", None, id="of a claim that is bound by now"),
        pytest.param(WITHOUT_POD, "efrit-alpha-queue", "claim", "09:31", None, id="of a claim"),
        pytest.param(WITHOUT_POD, "efrit-alpha", "ss", "09:31", "no", id="why there is no pod"),
        pytest.param(WITHOUT_POD, "efrit-alpha", "", "09:31", "no", id="without a UID"),
        pytest.param(WITHOUT_POD, "efrit-alpha", "ss", "09:30", None, id="why there was none before the last one"),
        pytest.param(WITHOUT_POD, "efrit-alpha", "before", "09:31", None, id="of the StatefulSet before"),
        pytest.param(ReadWarningEvents(ALPHA), "efrit-alpha", "ss", "09:31", None, id="there is no StatefulSet"),
    ],
)
async def test_what_is_over_explains_nothing(
    api: FakeApi, kube: Kube, question: ReadWarningEvents, about: str, uid: str, seen: str, expected: str | None
) -> None:
    warn(api, "no", about=about, uid=uid, lastTimestamp=f"2026-03-01T{seen}:00Z")

    assert await explain(kube, question) == expected


@pytest.mark.parametrize(
    ("last_seen", "expected"),
    [
        pytest.param("11:58", "configmap first not found", id="repeated since"),
        pytest.param("11:40", "Unable to attach or mount volumes: timed out", id="not repeated any more"),
    ],
)
async def test_what_is_wrong_with_a_volume_says_more_than_that_one_is_not_mounted(
    api: FakeApi, kube: Kube, last_seen: str, expected: str
) -> None:
    warn(api, "configmap first not found", lastTimestamp=f"2026-03-01T{last_seen}:00Z")
    warn(api, "Unable to attach or mount volumes: timed out", lastTimestamp="2026-03-01T12:00:00Z")

    assert await explain(kube, STARTING) == expected


async def test_only_warnings_about_its_own_objects_are_asked_for(api: FakeApi, kube: Kube) -> None:
    for number in range(50):
        warn(api, "somebody else's", about=f"other-{number}")

    assert await explain(kube, STARTING) is None

    assert [call.query["fieldSelector"] for call in api.calls] == [
        f"type=Warning,involvedObject.kind={kind},involvedObject.name={name}"
        for kind, name in (
            ("Pod", "efrit-alpha-0"),
            ("PersistentVolumeClaim", "efrit-alpha-queue"),
            ("PersistentVolumeClaim", "efrit-alpha-workspace"),
            ("StatefulSet", "efrit-alpha"),
        )
    ]


async def test_however_many_events_an_object_has_one_page_is_read(api: FakeApi, kube: Kube) -> None:
    for number in range(MAX_EVENTS * 3):
        warn(api, f"warning {number}")

    assert await explain(kube, STARTING) is not None

    assert len(api.calls) == 4
    assert {call.query["limit"] for call in api.calls} == {str(MAX_EVENTS)}


async def test_few_instances_are_asked_about_at_a_time(kube: Kube) -> None:
    explainer = WarningEvents(kube)
    tasks = [
        asyncio.ensure_future(explainer.explain(replace(STARTING, instance=("team", f"i{number}"))))
        for number in range(MAX_AT_A_TIME)
    ]
    await asyncio.sleep(0)

    assert explainer.busy

    await asyncio.gather(*tasks)
    assert not explainer.busy


async def test_events_that_are_too_large_to_be_read_leave_out_their_object_alone(api: FakeApi, kube: Kube) -> None:
    for _ in range(4):
        warn(api, "x" * (MAX_PAGE_BYTES // 3))
    warn(api, "exceeded quota", about="efrit-alpha")

    assert await explain(kube, STARTING) == "exceeded quota"
    # The connection that was given up in the middle is not used again.
    assert await explain(kube, STARTING) == "exceeded quota"


async def test_a_long_message_is_cut(api: FakeApi, kube: Kube) -> None:
    warn(api, "x" * 50_000)

    assert await explain(kube, STARTING) == "x" * MAX_MESSAGE_CHARS
