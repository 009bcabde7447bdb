"""The report of a run begins with what it has violated."""

from __future__ import annotations

from tests.support.faults.checker import check
from tests.support.faults.timeline import report
from tests.unit.harness.support.faults.histories import failed, history, loss, version


def test_a_report_names_the_violations_and_pulls_out_their_requests() -> None:
    recorded = history(
        versions=(version(1.1, 5, event="ADDED"), failed("Interrupted")), results={}, losses=(loss(5, 6),)
    )
    text = report(recorded, check(recorded))
    assert text.startswith("1 requests, 1 violations\nI8 a: it ended Interrupted")
    assert text.index("may end:") < text.index("The whole run:")
