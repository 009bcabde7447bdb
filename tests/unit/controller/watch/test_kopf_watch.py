"""watch/kopf_watch.py: why a kopf ended, and what of it is logged."""

from __future__ import annotations

import logging

import pytest
from kopf._cogs.clients import watching
from kopf._core.reactor import observation, orchestration, running

from efrit.controller.watch.kopf_watch import FAILING_LOGGERS, ReportedOnce, failure
from efrit.errors import ApiForbidden, ApiNotFound, WatchEnded


class RefusalError(Exception):
    """An error of kopf's client, as far as it is read."""

    def __init__(self, status: int) -> None:
        super().__init__(f"refused with {status}")
        self.status = status


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (RefusalError(403), ApiForbidden),
        (RefusalError(404), ApiNotFound),
        (RefusalError(410), WatchEnded),
        (RefusalError(500), WatchEnded),
        (RuntimeError("a bug"), WatchEnded),
        (None, WatchEnded),
    ],
)
def test_only_a_refusal_is_a_matter_of_the_namespace(cause: Exception | None, expected: type[Exception]) -> None:
    assert type(failure("team", cause)) is expected


def test_the_error_names_the_namespace_and_the_cause() -> None:
    assert (
        str(failure("team", RefusalError(410))) == "a watch of namespace team ended: RefusalError('refused with 410')"
    )
    assert str(failure(None, None)) == "a watch of the cluster ended: None"


@pytest.mark.parametrize(
    ("message", "exc_info", "logged"),
    [
        ("Request attempt #1/9 failed; will retry: GET … -> APIForbiddenError('…', status=403)", None, False),
        ("Watcher for pods.v1@team has failed: …", (ValueError, ValueError(), None), False),
        ("Request attempt #1/9 failed; will retry: GET … -> APIServerError('…', status=500)", None, True),
        ("Unresolved resources cannot be served (try creating their CRDs): …", None, True),
    ],
)
def test_what_is_reported_where_the_watch_ends_is_not_logged_as_well(
    message: str, exc_info: tuple[type[Exception], Exception, None] | None, logged: bool
) -> None:
    record = logging.LogRecord("kopf", logging.ERROR, __file__, 1, message, (), exc_info)

    assert ReportedOnce().filter(record) is logged


def test_the_filter_stands_before_the_loggers_that_kopf_uses_for_failures() -> None:
    used = {module.logger.name for module in (watching, observation, orchestration, running)}

    assert used == set(FAILING_LOGGERS)
