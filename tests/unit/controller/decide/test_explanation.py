"""decide/explanation.py: how often Kubernetes is asked why an instance does not start."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from efrit.api.meta import rfc3339
from efrit.controller.decide.explanation import (
    LATE,
    LONGEST_PAUSE,
    LONGEST_PAUSE_REFUSED,
    SHORTEST_PAUSE,
    SHORTEST_PAUSE_REFUSED,
    absent_since,
    explanation,
)
from efrit.controller.decide.readiness import NOT_CREATED
from efrit.controller.model.actions import ReadWarningEvents, RequeueAfter
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import ClaimView, StatefulSetView
from tests.support.factory import CONFIG, NOW, Json, changed, condition_json, instance, seconds

HOUR = 3600


RAN: Json = {"emacsVersion": "30.1"}


def since(kind: str, status: str, reason: str, after: float, message: str = "Said.") -> Json:
    """Return a condition that has its status since so many seconds after NOW."""
    return {**condition_json(kind, status, reason, NOW + seconds(after)), "message": message}


def starting() -> InstanceSnapshot:
    return InstanceSnapshot(instance=instance(created=NOW), config=CONFIG)


def questions(snapshot: InstanceSnapshot, seconds: int, looks_a_second: int) -> list[timedelta]:
    """Return at what ages the question is put when the instance is reconciled that often."""
    ages = []
    for number in range(seconds * looks_a_second):
        age = timedelta(seconds=number / looks_a_second)
        if any(isinstance(action, ReadWarningEvents) for action in explanation(snapshot, NOW + age)):
            ages.append(age)
            snapshot = changed(snapshot, explained_time=NOW + age)
    return ages


@pytest.mark.parametrize("looks_a_second", [1, 10])
def test_the_longer_it_lasts_the_less_often_is_asked_however_often_it_is_reconciled(looks_a_second: int) -> None:
    ages = questions(starting(), HOUR, looks_a_second)

    pauses = [later - earlier for earlier, later in itertools.pairwise(ages)]
    assert ages[0] == CONFIG.explain_after
    assert pauses[0] == SHORTEST_PAUSE
    assert sorted(pauses) == pauses
    assert pauses[-1] >= LONGEST_PAUSE
    assert len([age for age in ages if age < timedelta(minutes=1)]) <= 8
    assert len(ages) < 75


def test_a_controller_that_starts_beside_an_old_pod_gives_its_bridge_time_to_be_heard_of() -> None:
    started = NOW + timedelta(hours=1)
    snapshot = replace(starting(), controller_started=started)

    assert explanation(snapshot, started) == [RequeueAfter(CONFIG.explain_after)]
    assert ReadWarningEvents(snapshot.instance.key) in explanation(snapshot, started + CONFIG.explain_after)


def test_while_there_is_no_pod_it_is_asked_soon_after_the_last_one_went_and_why_there_is_none_since() -> None:
    gone, created = NOW + timedelta(hours=2), NOW + timedelta(hours=1)
    snapshot = changed(starting(), pod_awaited=gone, events_after=created)
    snapshot = replace(snapshot, statefulset=StatefulSetView("efrit-alpha", "ss", 1))

    assert explanation(snapshot, gone) == [RequeueAfter(CONFIG.explain_after)]
    question = ReadWarningEvents(snapshot.instance.key, statefulset_uid="ss", after=created)
    assert explanation(snapshot, gone + CONFIG.explain_after) == [question, RequeueAfter(SHORTEST_PAUSE)]


@pytest.mark.parametrize(
    ("status", "since"),
    [
        ({}, None),
        ({"conditions": [since("Ready", "False", "Creating", 60)]}, None),
        ({**RAN, "startTime": rfc3339(NOW)}, NOW),
        ({**RAN, "conditions": [since("Ready", "False", "Creating", 600)]}, NOW + seconds(600) - LATE),
        (
            {
                **RAN,
                "conditions": [
                    since("Ready", "False", "Creating", 60),
                    since("EmacsResponsive", "Unknown", "Starting", 900),
                    since("Suspended", "True", "SuspendedIdle", 1200),
                ],
            },
            NOW + seconds(900) - LATE,
        ),
        ({**RAN, "conditions": [since("Ready", "False", "ChildRefused", 600, f"{NOT_CREATED}quota")]}, None),
        (RAN, None),
    ],
    ids=["new", "never ran", "had a pod", "was Ready", "the last to change", "explained already", "says nothing"],
)
def test_since_when_there_is_no_pod_follows_from_what_an_earlier_process_wrote(
    status: Json, since: datetime | None
) -> None:
    assert absent_since(instance(created=NOW, status=status), NOW + seconds(HOUR)) == since


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_that_cannot_be_is_left_out(moment: str) -> None:
    condition = {**condition_json("Ready", "False", "Creating"), "lastTransitionTime": moment}
    for status in ({**RAN, "startTime": moment}, {**RAN, "conditions": [condition]}):
        assert absent_since(instance(created=NOW, status=status), NOW + seconds(HOUR)) is None


def test_once_it_is_known_why_there_is_no_pod_it_is_asked_now_and_then_whether_that_is_still_so() -> None:
    refused = changed(starting(), problem="exceeded quota", explained_time=NOW + CONFIG.explain_after)

    ages = questions(refused, HOUR, 1)

    pauses = [later - earlier for earlier, later in itertools.pairwise([CONFIG.explain_after, *ages])]
    assert pauses[0] == SHORTEST_PAUSE_REFUSED
    assert pauses[-1] == LONGEST_PAUSE_REFUSED
    assert len(ages) < 20


def test_before_a_pod_is_wanted_again_nobody_asks_why_there_is_none() -> None:
    asleep = replace(starting(), statefulset=StatefulSetView("efrit-alpha", "ss", 0))

    assert explanation(asleep, NOW + timedelta(hours=1)) == []


def test_of_claims_those_are_asked_about_that_are_not_bound() -> None:
    claims = (ClaimView("queue", "Bound", "uid-1"), ClaimView("workspace", "Pending", "uid-2"))

    question, _ = explanation(replace(starting(), claims=claims), NOW + CONFIG.explain_after)

    assert question == ReadWarningEvents(starting().instance.key, claims=(("workspace", "uid-2"),))


def test_it_is_reconciled_again_when_the_next_question_is_due() -> None:
    snapshot = changed(starting(), explained_time=NOW + timedelta(seconds=100))

    assert explanation(snapshot, NOW + timedelta(seconds=120)) == [RequeueAfter(timedelta(seconds=30))]


def test_a_clock_that_is_set_back_does_not_delay_the_next_question() -> None:
    snapshot = changed(starting(), explained_time=NOW + timedelta(hours=1))

    question, again = explanation(snapshot, NOW + timedelta(minutes=1))

    assert isinstance(question, ReadWarningEvents)
    assert again == RequeueAfter(LONGEST_PAUSE)
