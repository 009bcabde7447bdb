"""decide/queue_health.py: the queue's figures as one word and one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from efrit.controller.decide.queue_health import health, sentence
from tests.support.factory import emacs, instance, stats

LARGE = instance(spec={"queue": {"maxPending": 100}})


@pytest.mark.parametrize(
    ("figures", "status", "reason"),
    [
        ({}, "True", "Idle"),
        ({"processed": 42, "succeeded": 42}, "True", "Idle"),
        ({"processing": 1}, "True", "Working"),
        ({"pending": 1, "oldest_pending_seconds": 1}, "True", "Working"),
        ({"pending": 1, "oldest_pending_seconds": 15}, "True", "Working"),
        ({"pending": 1, "oldest_pending_seconds": 15.1}, "False", "Stalled"),
        ({"pending": 1, "processing": 1, "oldest_pending_seconds": 60}, "True", "Working"),
        ({"pending": 1, "processing": 1, "oldest_pending_seconds": 60.1}, "False", "Backlogged"),
        ({"pending": 79, "processing": 1}, "True", "Working"),
        ({"pending": 80, "processing": 1}, "False", "Backlogged"),
        ({"pending": 80, "oldest_pending_seconds": 16}, "False", "Stalled"),
        ({"pending": 1, "processing": 1, "emacs": emacs(alive=False)}, "False", "Stalled"),
        ({"processing": 1, "emacs": emacs(alive=False)}, "True", "Working"),
    ],
)
def test_the_figures_decide_the_word(figures: dict[str, Any], status: str, reason: str) -> None:
    finding = health(stats(**figures), LARGE)

    assert (finding.status.value, finding.reason.value) == (status, reason)


@pytest.mark.parametrize(
    ("field", "figures", "reason"),
    [
        ("stalledAfterSeconds", {"pending": 1, "oldest_pending_seconds": 5.1}, "Stalled"),
        ("backloggedAfterSeconds", {"pending": 1, "processing": 1, "oldest_pending_seconds": 5.1}, "Backlogged"),
        ("backloggedPercent", {"pending": 5, "processing": 1}, "Backlogged"),
    ],
)
def test_an_instance_sets_its_own_thresholds(field: str, figures: dict[str, Any], reason: str) -> None:
    strict = instance(spec={"queue": {"maxPending": 100, field: 5}})

    assert health(stats(**figures), strict).reason.value == reason
    assert health(stats(**figures), LARGE).reason.value == "Working"


def test_without_figures_the_health_is_unknown() -> None:
    finding = health(None, LARGE)

    assert (finding.status.value, finding.reason.value) == ("Unknown", "Unknown")


def test_the_sentence_names_every_figure() -> None:
    figures = stats(
        pending=3,
        processing=1,
        processed=42,
        succeeded=38,
        failed=4,
        average_processing_seconds=1.84,
        oldest_pending_seconds=0.44,
    )

    assert sentence(figures) == (
        "3 pending, 1 processing, 42 processed (38 succeeded, 4 failed), average 1.8 s, oldest waits 0.4 s"
    )


def test_the_sentence_names_no_oldest_where_nothing_waits() -> None:
    assert sentence(stats()).endswith("average 0.0 s")
