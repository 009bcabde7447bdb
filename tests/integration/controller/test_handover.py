"""Requests that wait for an instance that is away, across restarts of the controller."""

from __future__ import annotations

import pytest

from tests.support.kube import Json, until
from tests.support.site import Site

SUSPEND = {"spec": {"operatingMode": "Suspended"}}
RESUME = {"spec": {"operatingMode": "Running"}}


def _handover(site: Site) -> Json:
    handover: Json = site.kube.get("efritinstances", site.namespace, "one").get("status", {}).get("handover", {})
    return handover


def _until_closed(site: Site) -> None:
    until(
        lambda: _handover(site).get("state") == "Closed",
        lambda: f"not closed: {_handover(site)}\n{site.logs()}",
    )


def _switch(site: Site, body: Json) -> None:
    site.kube.patch("efritinstances", site.namespace, "one", body)


@pytest.mark.parametrize("restarts", [1, 3])
def test_what_was_never_handed_over_is_cancelled_and_timed_out_at_once_after_restarts(
    site: Site, restarts: int
) -> None:
    operator = site.operator()
    operator.start()
    site.instance(operatingMode="Suspended", ready=False)
    _until_closed(site)
    waiting = site.ask(site.count("waiting"))
    site.until_status(waiting, reason="InstanceSuspended")
    for _ in range(restarts):
        operator.kill()
        # Created while no controller runs.
        late = site.ask(site.count("late"), queueTimeoutSeconds=1)
        if site.status(waiting)["phase"] == "Pending":
            site.cancel(waiting)
        operator.start(leading=False)
        assert site.answer(waiting)["reason"] == "Cancelled"
        status = site.answer(late)
        assert (status["reason"], "startTime" in status) == ("TimedOut", False)
    _switch(site, RESUME)
    assert site.answer(site.ask("'after"))["result"] == "after"
    assert site.counted() == []


def test_what_was_handed_over_is_marked_and_goes_on_after_a_suspension_and_a_restart(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    # It runs again first: the next Emacs must not be faster than the cancel.
    again: Json = {"retryPolicy": "IfInterrupted", "maxAttempts": 2, "priority": 10}
    blocker = site.ask("(sleep-for 600)", timeoutSeconds=600, **again)
    site.until_status(blocker, phase="Running")
    queued = site.ask(site.count("queued"))
    cancelled = site.ask(site.count("cancelled"))
    waiting = site.node.pod("one").queue / "requests"
    until(lambda: len(list(waiting.iterdir())) == 2, "they are not on the queue")
    _switch(site, SUSPEND)
    _until_closed(site)
    # By then each says so itself, whether it has come to be Queued or not.
    for name in (queued, cancelled):
        assert {"queueID", "handover"} & site.status(name).keys()
    operator.kill()
    site.cancel(cancelled)
    operator.start(leading=False)
    # It may be on the queue: its end is known once the instance runs again.
    waits = until(
        lambda: (
            status if "it is stopped once" in (status := site.status(cancelled))["conditions"][0]["message"] else None
        ),
        lambda: f"nothing is reported: {site.status(cancelled)}\n{site.logs()}",
    )
    assert waits["reason"] == "InstanceSuspended"
    _switch(site, RESUME)
    assert site.answer(cancelled)["reason"] == "Cancelled"
    site.cancel(blocker)
    status = site.answer(queued)
    assert (status["reason"], "handover" in status) == ("Succeeded", False)
    assert site.counted() == ["queued"]


def test_an_instance_is_opened_once_for_many_requests(site: Site) -> None:
    site.operator().start()
    site.instance()
    opened = _handover(site)
    for name in [site.ask(f"(+ 1 {number})") for number in range(20)]:
        site.answer(name)
    assert opened["state"] == "Open"
    assert _handover(site) == opened
