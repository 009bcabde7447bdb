"""Starting the Emacs of an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from efrit.backend.errors import NotReady
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.emacs_process import MAX_RESULT_BYTES, environment_of, start, stop
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.settings import LocalInstance, new_instance
from tests.support.file_modes import modes_hold


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


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """Return a daemon whose name another Emacs has, as every Emacs that is started for it says."""
    program = tmp_path / "emacs"
    program.write_text("#!/bin/sh\necho efrit: the daemon name efrit-one belongs to another Emacs >&2\nexit 70\n")
    program.chmod(0o755)
    monkeypatch.setenv("EFRIT_EMACS", str(program))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Daemon(
        LocalInstance("one", tmp_path / "queue", "efrit-one", tmp_path / "work"), QueueFiles(tmp_path / "queue")
    )


def test_a_daemon_name_that_another_emacs_has_is_what_is_wrong(taken: Daemon) -> None:
    with pytest.raises(NotReady) as caught:
        start(taken)
    assert "the daemon name efrit-one belongs to another Emacs" in caught.value.message
    assert "heartbeat" not in caught.value.message


def test_where_the_heartbeat_cannot_be_read_a_start_that_fails_says_so_first(taken: Daemon) -> None:
    heartbeat = taken.files.root / "heartbeat"
    taken.files.ensure_journal()
    heartbeat.touch(mode=0)
    with modes_hold(), pytest.raises(NotReady) as caught:
        start(taken)
    assert caught.value.message.startswith(
        f"{heartbeat} cannot be read: Permission denied; perhaps an Emacs serves the queue already. Another one: "
    )
    assert "the daemon name efrit-one" in caught.value.message
    assert caught.value.advice == f"chmod u+r {heartbeat}"


def test_an_emacs_whose_heartbeat_cannot_be_read_is_not_said_to_be_stopped(taken: Daemon) -> None:
    heartbeat = taken.files.root / "heartbeat"
    taken.files.ensure_journal()
    assert not stop(taken, 0)
    heartbeat.touch(mode=0)
    with modes_hold(), pytest.raises(NotReady, match="heartbeat cannot be read: Permission denied"):
        stop(taken, 0)
