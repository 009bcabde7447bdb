"""Starting the Emacs of an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from efrit.backend.local.daemon import Daemon
from efrit.backend.local.emacs_process import MAX_RESULT_BYTES, environment_of
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.settings import new_instance


@pytest.mark.parametrize(
    ("outer", "kept"),
    [
        ({}, MAX_RESULT_BYTES),
        ({"EFRIT_MAX_RESULT_BYTES": ""}, MAX_RESULT_BYTES),
        ({"EFRIT_MAX_RESULT_BYTES": "5000"}, 5000),
    ],
    ids=["not set", "empty", "set"],
)
def test_an_empty_limit_of_results_is_as_one_that_is_not_set(outer: dict[str, str], kept: int) -> None:
    instance = new_instance("one")
    environment = environment_of(Daemon(instance, QueueFiles(Path("/nowhere"))), outer)
    assert environment["EFRIT_MAX_RESULT_BYTES"] == str(kept)


def test_what_belongs_to_the_queue_of_a_pod_is_not_passed_on() -> None:
    daemon = Daemon(new_instance("one"), QueueFiles(Path("/nowhere")))
    environment = environment_of(daemon, {"EFRIT_BRIDGE": "1", "EFRIT_GENERATION": "3", "MINE": "x"})
    assert environment.get("MINE") == "x"
    assert not {"EFRIT_BRIDGE", "EFRIT_GENERATION"} & environment.keys()
