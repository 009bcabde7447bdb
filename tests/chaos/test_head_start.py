"""A controller that is killed in its head start, before its lists are complete: each request is answered once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.effort import EVERYTHING
from tests.chaos.proxied_cluster import EPHEMERAL, ONE, ProxiedCluster
from tests.support.faults.api_proxy.calls import Call
from tests.support.faults.api_proxy.proxy import FOR_EVER, Effect, Fault
from tests.support.faults.api_proxy.rules import final_status

HEAD_START = {"EFRIT_HEAD_START_INSTANCES": "1"}
KILLS = (Effect.KILL_BEFORE_SEND, Effect.KILL_AFTER_COMMIT, Effect.KILL_AFTER_REPLY)
HELD_SECONDS = 600.0
REQUESTS = 4


def _lists_of_plans(cluster: ProxiedCluster) -> list[Call]:
    """Return the calls that come last before a namespace is served, so far."""
    calls = cluster.proxy.calls
    return [call for call in calls if call.target.verb == "list" and call.target.resource == "efritplans"]


WRITES = {
    "first": Fault(KILLS[0], "patch", "efritrequests", "status"),
    "later": Fault(KILLS[0], "patch", "efritrequests", "status", skip=REQUESTS + 1),
    "final": Fault(KILLS[0], "patch", "efritrequests", "status", when=final_status),
}
"""Each request has a write of its status at least, and one whose queue goes with its pod has two."""


@pytest.mark.parametrize("effect", KILLS if EVERYTHING else KILLS[:2])
@pytest.mark.parametrize("write", WRITES)
def test_a_controller_that_is_killed_in_its_head_start_answers_each_request_once(
    cluster: ProxiedCluster, write: str, effect: Effect
) -> None:
    cluster.operator.kill()
    cluster.wait(lambda: cluster.operator.ended or None, "it goes on")
    # The lists come last, and are never complete: all that is answered is answered in the head start.
    cluster.proxy.arm(Fault(Effect.DELAYED, "list", "efritplans", times=FOR_EVER, seconds=HELD_SECONDS))
    # The proxy may read a last list of the one that was killed only now: it is held as well.
    before = len(_lists_of_plans(cluster))
    killed = cluster.proxy.arm(replace(WRITES[write], effect=effect))
    requests = [cluster.submit(f"{write}-{effect}-{n}", to=(ONE, EPHEMERAL)[n % 2]) for n in range(REQUESTS)]

    cluster.launch(**HEAD_START)
    cluster.wait_injected(killed)
    for request in requests:
        cluster.wait_final(request)

    assert [call for call in _lists_of_plans(cluster)[before:] if call.status is not None] == []
    cluster.proxy.heal()
    cluster.check_history()
