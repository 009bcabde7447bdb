"""A run can be read: in order of time, faults marked, the life of one request alone."""

from __future__ import annotations

from tests.support.faults.checker import check
from tests.support.faults.history import Note
from tests.support.faults.timeline import life_of, report, timeline
from tests.unit.harness.support.faults.histories import failed, final, history, loss, submitted_request, version

NOTES = (
    Note(1.5, "fault", "SIGKILL to Emacs", instance="one", fault=True),
    Note(1.2, "user", "cancels", "b"),
)
OPEN = version(1.1, 5, event="ADDED")


def test_events_are_reported_in_order_of_time_and_faults_are_marked() -> None:
    lines = timeline(history(notes=NOTES)).splitlines()
    assert [float(line.split()[0]) for line in lines] == sorted(float(line.split()[0]) for line in lines)
    (marked,) = [line for line in lines if "!!" in line]
    assert "SIGKILL to Emacs" in marked


def test_a_version_reports_what_changed_in_it() -> None:
    text = timeline(history(versions=(OPEN, version(1.3, 6, phase="Running", attempt=1), final())))
    assert "attempt=1" in text
    assert text.count("attempt=1") == 1
    assert "Succeeded" in text


def test_the_life_of_a_request_leaves_others_out_and_keeps_its_faults() -> None:
    recorded = history(submitted=(submitted_request(), submitted_request("b", "uid-b", "beta")), notes=NOTES)
    text = life_of(recorded, "a")
    assert "SIGKILL to Emacs" in text
    assert "cancels" not in text
    assert "runs alpha" in text


def test_a_report_names_the_violations_and_pulls_out_their_requests() -> None:
    recorded = history(versions=(OPEN, failed("Interrupted")), results={}, losses=(loss(5, 6),))
    text = report(recorded, check(recorded))
    assert text.startswith("1 requests, 1 violations\nI8 a: it ended Interrupted")
    assert text.index("may end:") < text.index("The whole run:")
