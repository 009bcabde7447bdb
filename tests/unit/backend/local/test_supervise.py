"""Whoever waits on this machine learns what keeps Emacs from taking a request."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from efrit.backend.interface import Handle, RequestReason, Update
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.poll_interval import PollInterval
from efrit.backend.local.supervise import follow
from tests.support.queue_fakes import a_request


@dataclass
class Served:
    """A daemon that serves its queue: what it says is in the file of its heartbeat."""

    files: QueueFiles
    instance: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(id="default", timeout=30.0))

    def is_served(self) -> bool:
        return True

    def running(self) -> SimpleNamespace:
        return SimpleNamespace(pid=2**22, stopped=False)

    def mount(self) -> SimpleNamespace:
        return SimpleNamespace(blind_seconds=0.0)

    def beat(self, number: int, problem: str | None) -> None:
        text = json.dumps({"boot": "one", "time": str(number), "problem": problem})
        (self.files.root / "heartbeat").write_text(text)


async def test_a_request_that_emacs_cannot_claim_waits_with_the_cause_as_long_as_there_is_one(tmp_path: Path) -> None:
    served = Served(QueueFiles(tmp_path / "queue"))
    served.files.submit(a_request("a"))
    served.beat(1, "The claim could not be recorded: Permission denied, claims.log")
    seen = []
    updates = cast(
        AsyncGenerator[Update, None], follow(cast(Daemon, served), Handle("a", "default"), PollInterval(0.01))
    )
    async for update in updates:
        assert update.state is not None
        seen.append((update.state.reason, update.state.message))
        if update.state.reason is RequestReason.INSTANCE_NOT_READY:
            served.beat(2, None)
        elif len(seen) > 1:
            break
    await updates.aclose()
    assert seen == [
        (RequestReason.QUEUED, "It waits for its turn."),
        (
            RequestReason.INSTANCE_NOT_READY,
            "Emacs cannot take it: The claim could not be recorded: Permission denied, claims.log",
        ),
        (RequestReason.QUEUED, "It waits for its turn."),
    ]
