"""decide/self_check.py: an Emacs that fails its self-check, and restarts for it: a condition and one event each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from efrit.api import InstanceStatus
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.self_check import failing_sentence, self_check_health
from efrit.controller.manifests import Identity
from efrit.controller.model.actions import Action, PatchStatus, Record
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.controller.model.views import BridgeView
from efrit.protocol import RestartReason
from efrit.protocol.view import EmacsRestart, EmacsStats
from tests.support.factory import NOW, condition, connected, emacs, of_kind, ready, stats, written
from tests.unit.controller.decide.test_instances import settled

FAILED = EmacsRestart(reason=RestartReason.SELF_CHECK_FAILED, message="it answers 7", time=NOW)
OVERDUE = EmacsRestart(reason=RestartReason.SELF_CHECK_OVERDUE, message="no self-check for 60 s", time=NOW)
RESTARTED = "Emacs was restarted at 2026-03-01T12:00:00.000Z because of its self-check: it answers 7."


@pytest.mark.parametrize(
    ("emacs_stats", "status", "reason", "message"),
    [
        pytest.param(
            emacs(responsive=False, self_check_problem="it answers 7"),
            "False",
            "SelfCheckFailed",
            "Emacs fails its self-check and starts no request until it is restarted: it answers 7.",
            id="it fails",
        ),
        pytest.param(emacs(alive=False, restarted=FAILED), "False", "SelfCheckFailed", RESTARTED, id="it was ended"),
        pytest.param(
            emacs(alive=False, restarted=OVERDUE),
            "False",
            "SelfCheckOverdue",
            "Emacs was restarted at 2026-03-01T12:00:00.000Z because of its self-check: no self-check for 60 s.",
            id="it was ended for making none",
        ),
        pytest.param(
            emacs(restarted=FAILED), "True", "Passed", f"Emacs passes its self-check. {RESTARTED}", id="the next runs"
        ),
    ],
)
def test_what_is_known_of_the_self_check(emacs_stats: EmacsStats, status: str, reason: str, message: str) -> None:
    health = self_check_health(stats(emacs=emacs_stats), InstanceStatus())

    assert health is not None
    assert (health.status.value, health.reason.value, health.message) == (status, reason, message)


def test_an_emacs_that_never_failed_has_no_such_condition() -> None:
    assert self_check_health(stats(), InstanceStatus()) is None
    assert self_check_health(None, InstanceStatus()) is None


def test_an_emacs_that_fails_again_and_again_is_reported_with_what_to_look_at() -> None:
    often = emacs(self_check_problem="it answers 7", restarted=structs.replace(FAILED, count=4))

    assert "4 restarts in a row did not help: check what each Emacs loads" in failing_sentence(often)
    assert "did not help" not in failing_sentence(emacs(self_check_problem="it answers 7", restarted=FAILED))


def decide(snapshot: InstanceSnapshot, identity: Identity) -> list[Action]:
    return decide_instance(snapshot, identity, NOW)


def events(actions: list[Action]) -> list[tuple[str, str, str]]:
    return [
        (record.type, record.reason, record.message)
        for record in of_kind(actions, Record)
        if record.reason != "Ready"
    ]


def with_emacs(instance_snapshot: InstanceSnapshot, emacs_stats: EmacsStats) -> InstanceSnapshot:
    return replace(instance_snapshot, bridge=connected(bridge_stats=stats(emacs=emacs_stats)))


def test_a_restart_is_one_event_however_often_the_bridge_is_lost(identity: Identity) -> None:
    instance_snapshot = ready()
    calm = settled(instance_snapshot, decide(instance_snapshot, identity))
    restarted = with_emacs(calm, emacs(restarted=FAILED))
    actions = decide(restarted, identity)
    assert events(actions) == [("Warning", "EmacsRestarted", RESTARTED)]
    assert condition(written(actions), "Ready")[0] == "True"

    after = settled(restarted, actions)
    again = decide(after, identity)
    assert (of_kind(again, PatchStatus), of_kind(again, Record)) == ([], [])
    lost = replace(after, bridge=BridgeView())
    actions = decide(replace(lost, instance=lost.instance, pod=None), identity)
    assert condition(written(actions), "SelfCheckPassed")[0] == "Unknown"
    found_again = with_emacs(settled(lost, actions), emacs(restarted=FAILED))
    assert events(decide(found_again, identity)) == []


def test_each_restart_is_an_event_of_its_own(identity: Identity) -> None:
    instance_snapshot = with_emacs(ready(), emacs(restarted=FAILED))
    after = settled(instance_snapshot, decide(instance_snapshot, identity))
    later = structs.replace(FAILED, time=NOW + timedelta(minutes=1))
    assert len(events(decide(with_emacs(after, emacs(restarted=later)), identity))) == 1


def test_an_emacs_that_fails_its_self_check_is_not_ready_and_said_to_be_so(identity: Identity) -> None:
    instance_snapshot = ready()
    calm = settled(instance_snapshot, decide(instance_snapshot, identity))
    actions = decide(with_emacs(calm, emacs(responsive=False, self_check_problem="it answers 7")), identity)
    status = written(actions)
    assert condition(status, "Ready")[:2] == ("False", "SelfCheckFailed")
    assert condition(status, "EmacsResponsive") == ("False", "SelfCheckFailed", "Emacs fails its self-check.")
    assert condition(status, "SelfCheckPassed")[:2] == ("False", "SelfCheckFailed")
    assert [event[:2] for event in events(actions)] == [("Warning", "SelfCheckFailed")]
    # The bridge was started anew and knows of no restart.
    passed = settled(calm, actions, bridge=connected())
    assert condition(written(decide(passed, identity)), "SelfCheckPassed")[:2] == ("True", "Passed")


EVIL = "sorry\nReady: True\r\x1b]0;owned\x07\x9b2J\u2028\u202edone"


def test_what_a_bridge_says_moves_no_cursor_in_conditions_events_and_figures(identity: Identity) -> None:
    emacs_stats = emacs(responsive=False, self_check_problem=EVIL, restarted=structs.replace(FAILED, message=EVIL))
    emacs_stats = structs.replace(emacs_stats, version="30.1\x1b[2J")

    actions = decide(with_emacs(ready(), emacs_stats), identity)

    status = written(actions)
    messages = [condition["message"] for condition in status["conditions"]] + [
        record.message for record in of_kind(actions, Record)
    ]
    assert sum("sorry" in message for message in messages) > 2
    assert all(text.isprintable() for text in (*messages, status["emacsVersion"])), messages
