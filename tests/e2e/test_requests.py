"""Where a request goes, how long it waits, and when it goes away again."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from efrit.kube.media_types import MERGE_PATCH
from tests.e2e.instance import QUEUE_VOLUME, Instance, Request, held, send
from tests.support.kube import Kube, Refused, until

LABELS = {"team": "writers"}


@pytest.fixture(scope="module")
def pair(kube: Kube, shared_namespace: str) -> list[Instance]:
    """Two instances with the same label."""
    made = [Instance.create(kube, shared_namespace, name, LABELS, **QUEUE_VOLUME) for name in ("left", "right")]
    return [instance.wait_ready() for instance in made]


@pytest.fixture(scope="module")
def stray(kube: Kube, shared_namespace: str) -> Request:
    """Send a request for an instance that does not exist, early: it is given half a minute to come."""
    return send(kube, shared_namespace, "1", instanceRef={"name": "nobody"})


def _is_queued(request: Request) -> bool:
    return bool(request.status().get("phase") == "Queued")


def test_requests_for_a_selector_go_to_the_least_loaded_of_its_instances(
    kube: Kube, pair: list[Instance], stray: Request
) -> None:
    selector = {"matchLabels": LABELS}
    namespace = pair[0].namespace
    # Of those that end before the next is there the first instance would get each.
    content = held("/workspace/go", "(emacs-pid)")
    requests = [send(kube, namespace, content, selector=selector, timeoutSeconds=600) for _ in range(8)]
    until(lambda: all(request.status().get("instanceName") for request in requests), "not all are placed")
    for instance in pair:
        instance.touch("/workspace/go")
    placed = Counter(request.wait()["instanceName"] for request in requests)
    assert min(placed["left"], placed["right"]) >= 2, placed
    busy = pair[0].send("(sleep-for 500)", timeoutSeconds=600)
    busy.wait_reason("Running")
    assert send(kube, namespace, "'here", selector=selector).wait()["instanceName"] == "right"
    busy.cancel()
    assert busy.wait()["reason"] == "Cancelled"


def test_a_selector_that_nothing_matches_waits_for_an_instance(kube: Kube, pair: list[Instance]) -> None:
    request = send(kube, pair[0].namespace, "'found", selector={"matchLabels": {"team": "readers"}})
    request.wait_reason("InstanceNotReady")
    metadata = {"metadata": {"labels": {"team": "readers"}}}
    kube.patch("EfritInstance", pair[0].namespace, "right", metadata)
    status = request.wait()
    assert (status["instanceName"], status["result"]) == ("right", "found")
    kube.patch("EfritInstance", pair[0].namespace, "right", {"metadata": {"labels": LABELS}})


def test_a_request_that_waits_longer_than_its_queue_timeout_never_runs(pair: list[Instance]) -> None:
    instance = pair[0]
    busy = instance.send("(sleep-for 500)", timeoutSeconds=600)
    busy.wait_reason("Running")
    status = instance.send('(write-region "ran" nil "/workspace/late")', queueTimeoutSeconds=2).wait()
    assert (status["phase"], status["reason"]) == ("Failed", "TimedOut")
    assert "queueTimeoutSeconds" in status["error"]["message"]
    assert "startTime" not in status
    busy.cancel()
    assert busy.wait()["reason"] == "Cancelled"
    assert instance.value('(file-exists-p "/workspace/late")') == "nil"


def test_a_higher_priority_runs_earlier(pair: list[Instance]) -> None:
    instance = pair[0]
    busy = instance.send("(sleep-for 500)", timeoutSeconds=600)
    busy.wait_reason("Running")
    write = '(write-region "{0} " nil "/workspace/order" t)'
    requests = [instance.send(write.format("low")), instance.send(write.format("high"), priority=10)]
    for request in requests:
        until(partial(_is_queued, request), f"{request.name} is not Queued")
    busy.cancel()
    assert [request.wait()["phase"] for request in requests] == ["Succeeded", "Succeeded"]
    assert instance.shell("cat /workspace/order") == "high low "


def test_a_finished_request_goes_when_its_time_to_live_is_over(kube: Kube, pair: list[Instance]) -> None:
    request = pair[0].send("'brief", ttlSecondsAfterFinished=1)
    until(
        lambda: kube.find("EfritRequest", request.namespace, request.name) is None,
        lambda: f"it is still there: {request.get()}",
    )


def test_what_a_request_says_cannot_be_changed_and_its_answer_is_final(kube: Kube, pair: list[Instance]) -> None:
    """The definitions that the chart installs have their rules; what each refuses is in tests/integration/api."""
    request = pair[0].send("'said")
    request.wait()
    with pytest.raises(Refused, match=r"spec\.content is immutable"):
        kube.patch("EfritRequest", request.namespace, request.name, {"spec": {"content": "'other"}})
    path = kube.path("EfritRequest", request.namespace, request.name, "status")
    with pytest.raises(Refused, match="final"):
        kube.call("PATCH", path, {"status": {"result": "other"}}, content_type=MERGE_PATCH)


def test_a_request_for_an_instance_that_does_not_come_is_rejected(stray: Request) -> None:
    status = stray.wait()
    assert (status["phase"], status["reason"]) == ("Failed", "Rejected")
    assert "nobody" in status["error"]["message"]
