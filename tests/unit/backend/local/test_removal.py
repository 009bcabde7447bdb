"""Removing an instance of this machine."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from efrit.backend.errors import InstanceNotFound, NotReady, Refused
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.removal import remove
from efrit.backend.local.settings import add_instance, new_instance
from efrit.backend.local.start_lock import QueueRemoved, alone
from tests.support.file_modes import modes_hold


@pytest.fixture(autouse=True)
def usual_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))


def configured(tmp_path: Path) -> LocalQueues:
    """Return the instances of the configuration file, as a program that begins now reads it."""
    path = tmp_path / "config.json"
    if not path.exists():
        path.write_text('{"instances": {"default": {}}}')
        settings = add_instance(LocalQueues.configured(path).settings, new_instance("one"))
        settings.instance("one").queue_dir.mkdir(parents=True)
    return LocalQueues.configured(path)


def test_a_queue_whose_heartbeat_cannot_be_read_is_not_removed(tmp_path: Path) -> None:
    queues = configured(tmp_path)
    daemon = queues.daemon("one")
    daemon.files.ensure_journal()
    heartbeat = daemon.instance.queue_dir / "heartbeat"
    heartbeat.touch(mode=0)
    with modes_hold(), pytest.raises(NotReady, match="heartbeat cannot be read: Permission denied"):
        remove(queues.settings, daemon, files=True)
    assert heartbeat.exists()


@pytest.mark.parametrize("name", ["one", "default"])
def test_of_two_removals_at_once_one_says_that_it_has_removed_the_instance(tmp_path: Path, name: str) -> None:
    first, second = configured(tmp_path), configured(tmp_path)
    _, removed = remove(first.settings, first.daemon(name), files=True)
    assert removed.message == f"{name} is removed"
    with pytest.raises(InstanceNotFound, match=f"there is no instance '{name}' in .* any more"):
        remove(second.settings, second.daemon(name), files=True)


def test_the_default_instance_is_removed_once_where_there_was_no_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFRIT_CONFIG", str(tmp_path / "none.json"))
    first, second = LocalQueues.configured(), LocalQueues.configured()
    remove(first.settings, first.daemon("default"), files=False)
    with pytest.raises(InstanceNotFound):
        remove(second.settings, second.daemon("default"), files=False)


class Watched(Daemon, frozen=True):
    """Notes whether its queue is locked when it is looked at."""

    def is_served(self) -> bool:
        with (self.instance.queue_dir / "daemon.lock").open("a+") as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return super().is_served()


def test_nobody_starts_an_emacs_while_a_queue_is_removed(tmp_path: Path) -> None:
    queues = configured(tmp_path)
    daemon = queues.daemon("one")
    _, removed = remove(queues.settings, Watched(daemon.instance, daemon.files), files=False)
    assert removed.message == "one is removed"


def test_whoever_waits_for_the_lock_of_a_queue_that_is_removed_learns_it(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.mkdir()
    with (queue / "daemon.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def removed() -> bool:
            shutil.rmtree(queue)
            fcntl.flock(file, fcntl.LOCK_UN)
            return False

        with pytest.raises(QueueRemoved), alone(queue, removed):
            pytest.fail("the lock of nothing")
    with pytest.raises(QueueRemoved), alone(queue):
        pytest.fail("the lock of nothing")


def test_what_has_work_that_waits_stays_whole(tmp_path: Path) -> None:
    queues = configured(tmp_path)
    queue = queues.settings.instance("one").queue_dir
    (queue / "requests").mkdir()
    (queue / "requests/req_a.json").write_text("{}")
    with pytest.raises(Refused, match="1 requests of one are not finished"):
        remove(queues.settings, queues.daemon("one"), files=True)
    assert queue.is_dir()
    assert "one" in configured(tmp_path).settings.instances
