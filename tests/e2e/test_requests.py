"""Which of several instances gets a request, and that the rules of the definitions are in force.

How long a request waits and what becomes of it is in tests/integration/controller/test_answers.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from efrit.errors import ApiError
from efrit.kube.media_types import MERGE_PATCH
from tests.e2e.instance import QUEUE_VOLUME, Instance, held, send
from tests.support.kube import Kube, until

LABELS = {"team": "writers"}


@pytest.fixture(scope="module")
def pair(kube: Kube, shared_namespace: str) -> list[Instance]:
    """Two instances with the same label."""
    made = [Instance.create(kube, shared_namespace, name, LABELS, **QUEUE_VOLUME) for name in ("left", "right")]
    return [instance.wait_ready() for instance in made]


def test_requests_for_a_selector_go_to_the_least_loaded_of_its_instances(kube: Kube, pair: list[Instance]) -> None:
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


def test_what_a_request_says_cannot_be_changed_and_its_answer_is_final(kube: Kube, pair: list[Instance]) -> None:
    """The definitions that the chart installs have their rules; what each refuses is in tests/integration/api."""
    request = pair[0].send("'said")
    request.wait()
    with pytest.raises(ApiError, match=r"spec\.content is immutable"):
        kube.patch("EfritRequest", request.namespace, request.name, {"spec": {"content": "'other"}})
    path = kube.path("EfritRequest", request.namespace, request.name, "status")
    with pytest.raises(ApiError, match="final"):
        kube.call("PATCH", path, {"status": {"result": "other"}}, content_type=MERGE_PATCH)
