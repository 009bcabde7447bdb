"""The API server is away for a few seconds while pods drain their queues: answers wait, and are stored afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.outage import ABSENCES, work_through
from tests.chaos.proxied_cluster import Stage
from tests.cluster.control_plane import ControlPlane

SECONDS = {"short": 4.0, "longer than the lease": 20.0}


@pytest.mark.parametrize("absence", ABSENCES)
def test_answers_wait_for_an_api_server_that_is_away(
    empty_stage: Stage, plane: ControlPlane, absence: str, record_property: Callable[[str, object], None]
) -> None:
    empty_stage.open()
    seconds = work_through(empty_stage, plane, ABSENCES[absence], SECONDS["short"])
    record_property("seconds from the return to the last end", round(seconds, 2))


def test_answers_wait_for_an_api_server_that_hangs_longer_than_the_lease(
    empty_stage: Stage, plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    empty_stage.open()
    seconds = work_through(empty_stage, plane, ABSENCES["kube-apiserver-stopped"], SECONDS["longer than the lease"])
    record_property("seconds from the return to the last end", round(seconds, 2))
