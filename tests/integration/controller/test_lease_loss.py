"""A controller that loses its lease says so in one line and ends, whatever it was doing."""

from __future__ import annotations

import pytest

from efrit.errors import ApiError
from tests.support.kube import until
from tests.support.operator import Operator
from tests.support.site import Site

LEASE_SECONDS = "15"
"""A busy machine keeps a leader from renewing one of three seconds."""


def take_the_lease(site: Site, operator: Operator) -> None:
    """Write somebody else into the lease as soon as the controller holds it."""

    def lease_is_taken() -> bool:
        for lease in site.kube.list("leases", site.namespace):
            if lease["spec"].get("holderIdentity") == operator.identity:
                lease["spec"]["holderIdentity"] = "somebody-else"
                try:
                    site.kube.replace("leases", site.namespace, lease)
                except ApiError as error:
                    if error.status != 409:
                        raise
                    return False
                return True
        return False

    until(lease_is_taken, operator.diagnostics)


def assert_ended_cleanly(operator: Operator) -> None:
    until(lambda: operator.ended, lambda: f"the controller goes on\n{operator.diagnostics()}")
    log = operator.process.log.read_text()
    assert operator.process.status == 1, log
    assert [line for line in log.splitlines() if "the controller stops: " in line] == [
        line for line in log.splitlines() if line.endswith("the controller stops: the lease is lost")
    ]
    assert log.count("the controller stops: the lease is lost") == 1, log
    assert "Traceback" not in log, log
    assert "kopf" not in log, log


def test_a_controller_that_works_ends_with_one_line(site: Site) -> None:
    operator = site.operator()
    operator.start(EFRIT_LEASE_SECONDS=LEASE_SECONDS)
    site.instance()
    running = site.ask("(sleep-for 600)", timeoutSeconds=600)
    site.until_status(running, phase="Running")

    take_the_lease(site, operator)

    assert_ended_cleanly(operator)


@pytest.mark.parametrize("namespaces", ["one", "missing"])
def test_a_controller_that_has_just_begun_ends_with_one_line(site: Site, namespaces: str) -> None:
    operator = site.operator()
    watched = {"one": site.namespace, "missing": f"{site.namespace},no-such-namespace"}
    operator.launch(EFRIT_LEASE_SECONDS=LEASE_SECONDS, EFRIT_WATCH_NAMESPACES=watched[namespaces])

    take_the_lease(site, operator)

    assert_ended_cleanly(operator)
