"""A backend of a server that is never closed deletes old answers all the same."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from efrit.backend.errors import NotReady
from efrit.backend.interface import RequestType, Work
from efrit.backend.local import files as local_files
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import LocalInstance, LocalSettings

DAY = 86_400


async def test_old_answers_go_while_the_backend_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    files = QueueFiles(tmp_path / "queue")
    assert files.disk
    files.close()
    (tmp_path / "queue/swept").touch()
    archive = tmp_path / "queue/archive"
    instance = LocalInstance("default", tmp_path / "queue", "efrit-test", tmp_path, auto_start=False)
    settings = LocalSettings(tmp_path / "config.json", {"default": instance}, cleanup_interval=2 * DAY)
    backend = LocalBackend(LocalQueues(settings))
    # Of one server: within the interval nothing goes, after it, each time, what is a day old.
    for days, remaining in ((1.5, 2), (3, 0), (30, 0)):
        for name in ("req_a.json", "resp_a.json"):
            (archive / name).write_text("{}")
        monkeypatch.setattr(local_files, "time", SimpleNamespace(time=lambda days=days: now + days * DAY))
        with pytest.raises(NotReady):
            await backend.submit(Work(RequestType.EVAL, "1"))
        assert len(list(archive.iterdir())) == remaining
    await backend.close()
