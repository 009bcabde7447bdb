"""What is said of an instance of this machine."""

from __future__ import annotations

from pathlib import Path

from efrit.backend.interface import InstanceStatus
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.instances import instance_of
from efrit.backend.local.settings import LocalInstance
from tests.support.file_modes import modes_hold


def test_an_instance_whose_heartbeat_cannot_be_read_is_not_said_to_be_stopped(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    daemon = Daemon(LocalInstance("one", queue, "efrit-one", tmp_path), QueueFiles(queue))
    daemon.files.ensure_journal()
    assert (instance_of(daemon).status, instance_of(daemon).reason) == (InstanceStatus.INACTIVE, "Stopped")
    (queue / "heartbeat").touch(mode=0)
    with modes_hold():
        instance = instance_of(daemon)
    assert (instance.status, instance.reason) == (InstanceStatus.ERROR, "NotResponding")
    assert instance.message == (
        f"It is not known whether an Emacs serves the queue: {queue / 'heartbeat'} cannot be read: Permission denied"
    )
