"""Who follows a leader that has ended, and on whose word. The lease lasts long: none runs out meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.kube import Json, until
from tests.support.operator import Operator
from tests.support.operator_pod import CONTAINER
from tests.support.site import Site

LONG_LEASE = {"EFRIT_LEASE_SECONDS": "1200"}
USUAL_LEASE = {"EFRIT_LEASE_SECONDS": "15"}


def leader_and_standby(site: Site, lease: dict[str, str]) -> tuple[Operator, Operator]:
    leader, standby = site.operator("operator-a"), site.operator("operator-b")
    for controller in (leader, standby):
        controller.configure(**lease)
    leader.start()
    standby.start(leading=False)
    assert standby.role() == "standby"
    return leader, standby


def holder(site: Site) -> Json:
    (lease,) = site.kube.list("leases", site.namespace)
    spec: Json = lease["spec"]
    return spec


def gate(site: Site, word: str) -> str:
    """Return Lisp that waits for a file in the workspace."""
    return f'(progn {site.count(word)} (while (not (file-exists-p "go")) (sleep-for 0.05)) "{word}")'


def test_a_leader_that_was_killed_is_followed_as_soon_as_its_kubelet_says_so(site: Site) -> None:
    leader, standby = leader_and_standby(site, LONG_LEASE)
    site.instance()
    running = site.ask(gate(site, "running"))
    until(lambda: site.counted() or None, "it does not run")
    before = leader.identity

    leader.kill()
    behind = site.ask(site.count("behind"))
    assert standby.role() == "standby"
    leader.report_end()

    until(standby.leads, standby.diagnostics)
    (site.node.pod("one").workspace / "go").touch()
    assert [site.answer(name)["result"] for name in (running, behind)] == ['"running"', '"behind"']
    assert site.counted() == ["running", "behind"]
    assert holder(site)["holderIdentity"] == standby.identity
    # The container that is restarted stands by, and nobody takes its predecessor's end for that of the other.
    leader.start(leading=False)
    assert (leader.role(), standby.role()) == ("standby", "leading")
    assert leader.identity != before
    assert leader.stop() == 0
    assert "Traceback" not in leader.process.log.read_text()


def test_a_controller_that_is_alone_follows_itself_when_its_container_is_restarted(site: Site) -> None:
    operator = site.operator()
    operator.configure(**LONG_LEASE)
    operator.start()
    for _ in range(2):
        operator.kill()
        operator.start()

    assert holder(site)["holderIdentity"] == operator.identity


def test_a_leader_that_stops_cleanly_gives_its_lease_back(site: Site) -> None:
    leader, standby = leader_and_standby(site, LONG_LEASE)

    assert leader.stop() == 0

    until(standby.leads, standby.diagnostics)


def _status(site: Site, leader: Operator, **status: object) -> None:
    site.kube.patch("pods", site.namespace, leader.name, {"status": status}, "status")


def _container(state: Json, **more: object) -> Json:
    return {"name": CONTAINER, "image": "x", "imageID": "", "ready": False, "restartCount": 3, "state": state, **more}


def _lost_node(site: Site, leader: Operator) -> None:
    _status(site, leader, phase="Failed", reason="NodeLost", conditions=[{"type": "Ready", "status": "False"}])


def _ended_without_words(site: Site, leader: Operator) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "could not be located"}}
    _status(site, leader, containerStatuses=[_container(ended)])


def _earlier_process(site: Site, leader: Operator) -> None:
    ended = {"terminated": {"exitCode": 1, "message": f"{leader.name}_0123456789abcdef"}}
    _status(site, leader, containerStatuses=[_container({"running": {}}, lastState=ended)])


def _deleted_by_force(site: Site, leader: Operator) -> None:
    site.kube.delete("pods", site.namespace, leader.name, gracePeriodSeconds=0)


def _words_in_another_pod(site: Site, leader: Operator) -> None:
    ended = {"terminated": {"exitCode": 1, "message": leader.identity}}
    body = {"status": {"containerStatuses": [_container(ended)]}}
    site.kube.patch("pods", site.namespace, "operator-b", body, "status")


@pytest.mark.parametrize(
    "report", [_lost_node, _ended_without_words, _earlier_process, _deleted_by_force, _words_in_another_pod]
)
def test_nothing_else_takes_the_lease_from_a_leader_that_lives(
    site: Site, report: Callable[[Site, Operator], None]
) -> None:
    leader, standby = leader_and_standby(site, USUAL_LEASE)

    report(site, leader)

    for _ in range(3):
        # The standby looks more often than the lease is renewed.
        renewed = holder(site)["renewTime"]
        until(lambda renewed=renewed: holder(site)["renewTime"] != renewed or None, leader.diagnostics)  # type: ignore[misc]
    assert holder(site)["holderIdentity"] == leader.identity
    assert (leader.role(), standby.role()) == ("leading", "standby")
