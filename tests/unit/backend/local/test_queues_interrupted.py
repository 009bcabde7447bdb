"""Ctrl-C while an eval on this machine is handed over: what goes on is named, what was never stored is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from efrit.backend.interface import RequestType, Work
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.queues import LocalQueues, WaitInterrupted

SUBMIT = QueueFiles.submit


@pytest.fixture
def queues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalQueues:
    """One instance whose Emacs is played by nobody."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(Daemon, "is_served", lambda _: True)
    return LocalQueues.configured(None, lambda _: None)


def _interrupt(monkeypatch: pytest.MonkeyPatch, *, stored: bool) -> None:
    def submit(files: QueueFiles, *arguments: Any) -> None:
        if stored:
            SUBMIT(files, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(QueueFiles, "submit", submit)


def test_work_that_was_stored_as_ctrl_c_came_is_named(
    queues: LocalQueues, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _interrupt(monkeypatch, stored=True)
    with pytest.raises(WaitInterrupted) as stopped:
        queues.run(Work(RequestType.EVAL, "1"), 0)
    assert [path.name for path in tmp_path.rglob("req_*.json")] == [f"req_{stopped.value.handle.id}.json"]


def test_work_that_was_never_stored_is_not_said_to_go_on(
    queues: LocalQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    _interrupt(monkeypatch, stored=False)
    with pytest.raises(KeyboardInterrupt):
        queues.run(Work(RequestType.EVAL, "1"), 0)
