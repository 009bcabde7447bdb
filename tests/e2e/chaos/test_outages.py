"""The API server goes away while pods work, kubelet and container runtime die, at last the node loses its power.

Pods drain their queues meanwhile; whatever happens, nothing is lost and nothing runs again.
"""

from __future__ import annotations

import pytest

from tests.e2e.chaos.conftest import ExecuteAll, RecordedRun
from tests.e2e.chaos.schedules import durable, ephemeral, schedule, steady, step
from tests.support.faults.schedule import Op

pytestmark = pytest.mark.alone

AWAY_SECONDS = 20.0
"""`generate soak TIER=cluster` has the two minutes."""


@pytest.fixture(scope="module")
def outage(execute_all: ExecuteAll) -> RecordedRun:
    early = (*steady("a", 40, instance="one", seconds=1.0, span=1.0), *steady("b", 16, instance="two", span=1.0))
    # Created while the API server is away: the users retry until it is back.
    late = (*steady("c", 20, instance="one", seconds=0.4, at=8.0), *steady("d", 20, instance="two", at=8.0))
    outages = schedule(
        (durable("one"), ephemeral("two")),
        (*early, *late),
        step(Op.KILL_API, 10, seconds=AWAY_SECONDS),
        step(Op.KILL_EMACS, 20, "two", at=6.0),
        step(Op.KILL_BRIDGE, 20, "one", at=8.0),
        step(Op.KILL_KUBELET, 20, seconds=4, at=9.0),
        step(Op.STOP_ETCD, 62, seconds=1.5),
        step(Op.KILL_RUNTIME, 68, seconds=1.5),
        step(Op.KILL_NODE, 80, seconds=0.5),
    )
    (run,) = execute_all(outages)
    return run


def test_nothing_is_lost_or_run_twice_by_outages(outage: RecordedRun) -> None:
    outage.check()


def test_pods_go_on_with_their_queues_while_the_api_server_is_away(outage: RecordedRun) -> None:
    gone, back = outage.fault_span(Op.KILL_API)
    assert back - gone >= AWAY_SECONDS - 1
    assert outage.began_between(gone + 1, back) > 0


def test_answers_that_nobody_could_store_are_stored_afterwards(outage: RecordedRun) -> None:
    gone, back = outage.fault_span(Op.KILL_API)
    ran = {execution.marker for execution in outage.history.ran if gone + 1 < execution.written < back - 1}
    stored = [final.at for request, final in outage.finals() if request.marker in ran]
    assert stored
    assert min(stored) > back


def test_a_node_that_loses_its_power_interrupts_at_most_what_ran(outage: RecordedRun) -> None:
    # One Emacs was killed before, and each of the two may have run one request when the power went.
    assert outage.reasons().get("Interrupted", 0) <= 3
