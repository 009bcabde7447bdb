"""watch/kopf_watch.py: why a kopf ended, and what of it is logged."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from pathlib import Path

import pytest
from kopf._cogs.clients import watching
from kopf._cogs.clients.errors import APITooManyRequestsError
from kopf._core.reactor import observation, orchestration, running

from efrit.controller.retry import LONGEST_RETRY_AFTER_SECONDS
from efrit.controller.watch.kopf_watch import (
    FAILING_LOGGERS,
    FIRST_PAUSE_SECONDS,
    ReportedOnce,
    failure,
    first_cause,
    requested_pause,
    watch,
)
from efrit.errors import ApiForbidden, ApiNotFound, WatchEnded
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.store.world import World


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


def test_of_several_causes_the_same_one_is_reported_whatever_their_order() -> None:
    ours, first, second = WatchEnded("z"), RuntimeError("a"), RuntimeError("b")
    for causes in itertools.permutations([ours, first, second]):
        assert first_cause(causes) is ours
    for pair in itertools.permutations([first, second]):
        assert first_cause(pair) is first
    assert first_cause([]) is None


def busy(retry_after: str) -> BaseException:
    """Return what kopf fails with where it cannot read the header of a refusal."""
    headers = {"Retry-After": retry_after, "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    try:
        try:
            raise APITooManyRequestsError(None, status=429, headers=headers)
        except APITooManyRequestsError:
            int(float(retry_after))
    except (ValueError, OverflowError) as error:
        return error
    raise AssertionError("kopf reads this header")


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:07 GMT", 7.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_SECONDS),
        ("Sun, 06 Nov 1994 08:49:37 GMT", FIRST_PAUSE_SECONDS),
        ("soon", FIRST_PAUSE_SECONDS),
        ("inf", FIRST_PAUSE_SECONDS),
    ],
)
def test_the_pause_that_kopf_cannot_read_is_waited_for(retry_after: str, seconds: float) -> None:
    assert requested_pause(busy(retry_after)) == seconds


@pytest.mark.parametrize("cause", [None, ValueError("a bug"), RefusalError(429), RuntimeError("a bug")])
def test_any_other_failure_of_kopf_asks_for_no_pause(cause: BaseException | None) -> None:
    assert requested_pause(cause) is None


# kopf's connections close a moment after their session; here the event loop ends before that.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_a_busy_api_server_that_names_a_date_ends_no_watch(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, api.url)))
    monkeypatch.setattr("efrit.controller.watch.kopf_watch.FIRST_PAUSE_SECONDS", 0.0)
    api.retry_after = "Sun, 06 Nov 1994 08:49:37 GMT"
    api.put("/api", {"versions": []})
    api.put("/apis", {"groups": []})
    api.fail("GET", "/apis", 429, times=2)
    starts = 0

    def spawned() -> None:
        nonlocal starts
        starts += 1

    watching = asyncio.create_task(watch(World().store, "team", spawned))
    answered = asyncio.create_task(api.until(lambda: [call.path for call in api.calls].count("/apis") == 3))
    await asyncio.wait({watching, answered}, return_when=asyncio.FIRST_COMPLETED)
    ended = watching.done()
    for task in (watching, answered):
        task.cancel()
    outcome, _ = await asyncio.gather(watching, answered, return_exceptions=True)

    assert not ended, outcome
    assert starts == 3


def kubeconfig(directory: Path, server: str) -> Path:
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


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
