"""The API server goes away while pods work: they drain their queues, and nothing of it is lost or run again."""

from __future__ import annotations

import pytest

from tests.chaos.plan import Do
from tests.e2e.chaos.conftest import Play, Run
from tests.e2e.chaos.plans import durable, ephemeral, made, steady, step

pytestmark = pytest.mark.timeout(240)

AWAY_SECONDS = 20.0
"""`make soak TIER=cluster` has the two minutes."""


@pytest.fixture(scope="module")
def away(play: Play) -> Run:
    """The API server is gone; one bridge and one Emacs die meanwhile. Later the store stands still for a moment."""
    work = (
        *steady("a", 40, instance="one", seconds=0.5, span=1.0),
        *steady("b", 20, instance="two", span=1.0),
        *steady("c", 20, instance="two", span=3.0),
    )
    plan = made(
        (durable("one"), ephemeral("two")),
        work,
        step(Do.KILL_API, 12, seconds=AWAY_SECONDS),
        step(Do.KILL_BRIDGE, len(work), "one", at=6.0),
        step(Do.KILL_EMACS, len(work), "two", at=4.0),
        step(Do.STOP_ETCD, 50, seconds=2),
    )
    (run,) = play(plan)
    return run


def test_nothing_is_lost_or_run_twice_while_the_api_server_is_away(away: Run) -> None:
    away.check()


def test_pods_go_on_with_their_queues_while_the_api_server_is_away(away: Run) -> None:
    gone, back = away.moment(Do.KILL_API.value), away.moment(f"{Do.KILL_API.value} is over")
    assert back - gone >= AWAY_SECONDS - 1
    assert away.began_between(gone + 2, back) >= 5


def test_answers_that_nobody_could_store_are_stored_afterwards(away: Run) -> None:
    back = away.moment(f"{Do.KILL_API.value} is over")
    late = [
        final
        for request in away.history.submitted
        if (final := away.history.final(request)) and final.at > back and final.phase == "Succeeded"
    ]
    assert len(late) >= 5
