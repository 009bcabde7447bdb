"""An instance whose node is lost: what it is said to suffer from, and who gets its requests."""

from __future__ import annotations

from tests.support.kube import until
from tests.support.site import Site

TEAM = {"team": "a"}


def _warnings(site: Site) -> list[str]:
    events = site.kube.call("GET", site.kube.path("events", site.namespace))["items"]
    return [event["type"] for event in events if event["reason"] == "NodeLost"]


def test_a_request_that_was_never_handed_over_goes_elsewhere_when_the_node_of_its_instance_is_lost(
    site: Site,
) -> None:
    site.operator().start()
    site.instance("one", ready=False, labels=TEAM, idle={"suspendAfterSeconds": 10})
    site.instance("two")
    site.until_condition("one", "Suspended", status="True")
    # Its next pod never runs: the request is bound to it, wakes it, and is handed over to nobody.
    site.node.broken_images |= site.node.pod("two").images
    name = site.ask(site.count("once"), to=None, selector={"matchLabels": TEAM})
    site.until_status(name, instanceName="one")
    site.until_condition("one", "Ready", reason="ImagePullFailed")

    site.node.kept.add("one")
    site.kube.delete("pods", site.namespace, "efrit-one-0", gracePeriodSeconds=1)
    lost = site.until_condition("one", "Ready", reason="NodeLost")
    assert "out-of-service" in lost["message"]
    until(lambda: _warnings(site) == ["Warning"], lambda: f"{_warnings(site)}\n{site.logs()}")
    assert site.status(name)["instanceName"] == "one"

    site.kube.patch("efritinstances", site.namespace, "two", {"metadata": {"labels": TEAM}})
    assert site.answer(name)["instanceName"] == "two"
    until(lambda: site.counted("two") == ["once"], lambda: site.logs())
    site.node.kept.discard("one")
