"""A backend of a server that is never closed deletes old answers all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from efrit.client.errors import NotReady
from efrit.client.interface import RequestType, Work
from efrit.client.local.backend import LocalBackend
from efrit.client.local.files import QueueFiles
from efrit.client.local.queues import LocalQueues
from efrit.client.local.settings import LocalInstance, LocalSettings


async def test_old_answers_go_while_the_backend_stays_open(tmp_path: Path) -> None:
    files = QueueFiles(tmp_path / "queue")
    assert files.disk
    files.close()
    # When answers were last deleted; which of them are old enough, the archive's own tests tell.
    swept = tmp_path / "queue/swept"
    swept.touch()
    os.utime(swept, (1, 1))
    instance = LocalInstance("default", tmp_path / "queue", "efrit-test", tmp_path, auto_start=False)
    backend = LocalBackend(LocalQueues(LocalSettings(tmp_path / "config.json", {"default": instance})))
    with pytest.raises(NotReady):
        await backend.submit(Work(RequestType.EVAL, "1"))
    assert swept.stat().st_mtime > 1
    await backend.close()
