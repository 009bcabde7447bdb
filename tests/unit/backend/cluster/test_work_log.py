"""What a model says while it says it: a log that grows in a pod, read by one command after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from msgspec.structs import replace

from efrit.backend.cluster.api import Api
from efrit.backend.cluster.work_log import WorkLog, follow
from efrit.backend.errors import Forbidden, NotReady
from efrit.backend.interface import Handle, Phase, RequestReason, RequestState

QUEUED = RequestState(Handle("r"), Phase.QUEUED, RequestReason.QUEUED)
RUNNING = replace(QUEUED, handle=Handle("r", "one"), phase=Phase.RUNNING, reason=RequestReason.RUNNING)
OVER = replace(RUNNING, phase=Phase.SUCCEEDED, reason=RequestReason.SUCCEEDED)
LINES = [json.dumps({"type": "text", "text": text}, ensure_ascii=False) for text in ("Grüß ", "Gott", ".")]
LOG = "".join(f"{line}\n" for line in LINES).encode()


def test_a_line_ends_at_a_newline_alone() -> None:
    text = json.dumps({"type": "text", "text": "one\u2028two\x85three"}, ensure_ascii=False)
    log = WorkLog(cast("Api", None), "default", "r")
    assert log._lines(f"{text}\n".encode()) == [text]


class Pod:
    """In the place of the API server: the log as it is, and as much of it as a command that goes on sees."""

    def __init__(self, *received: int, broken: bool = False, refused: bool = False) -> None:
        self._heard = list(received)
        self._broken = broken
        self._refused = refused
        self.listened = asyncio.Event()
        self.listeners = 0

    async def exec_output(self, _namespace: str, _pod: str, _container: str, command: Sequence[str]) -> bytes:
        self._check()
        return LOG[int(command[-1]) - 1 :]

    async def exec_stream(self, _namespace: str, pod: str, _container: str, command: Sequence[str]) -> Any:
        assert pod == "efrit-one-0"
        self.listeners += 1
        try:
            self._check()
            begin = int(command[-1]) - 1
            for end in self._heard:
                yield LOG[begin:end]
                begin = end
            self.listened.set()
            if self._broken:
                raise NotReady("the connection is gone")
            await asyncio.Event().wait()
        finally:
            self.listeners -= 1

    def _check(self) -> None:
        if self._refused:
            self.listened.set()
            raise Forbidden("you may not")

    async def changes(self) -> AsyncIterator[RequestState]:
        yield QUEUED
        yield RUNNING
        await self.listened.wait()
        yield OVER

    async def followed(self) -> list[RequestState | str]:
        log = WorkLog(cast("Api", self), "team", "u")
        return [item async for item in follow(self.changes(), log)]


async def test_lines_come_while_it_runs_and_the_last_ones_before_its_end() -> None:
    pod = Pod(len(LOG) - 3)
    assert await pod.followed() == [QUEUED, RUNNING, *LINES, OVER]


async def test_a_line_whose_bytes_come_in_pieces_is_one_line() -> None:
    middle = LOG.index("ü".encode()) + 1
    assert await Pod(5, middle, len(LOG)).followed() == [QUEUED, RUNNING, *LINES, OVER]


async def test_a_connection_that_breaks_in_the_middle_of_a_line_loses_and_repeats_nothing() -> None:
    for cut in range(1, len(LOG)):
        assert await Pod(cut, broken=True).followed() == [QUEUED, RUNNING, *LINES, OVER]


async def test_who_may_not_read_the_log_sees_the_states() -> None:
    assert await Pod(refused=True).followed() == [QUEUED, RUNNING, OVER]


async def test_nobody_listens_once_the_last_state_was_reported_or_nobody_wants_more() -> None:
    pod = Pod(3)
    await pod.followed()
    assert pod.listeners == 0
    watched = follow(pod.changes(), WorkLog(cast("Api", pod), "team", "u"))
    assert await anext(watched) == QUEUED
    await watched.aclose()  # type: ignore[attr-defined]
    assert pod.listeners == 0


def test_the_log_of_another_run_is_another_file_read_from_its_beginning() -> None:
    log = WorkLog(cast("Api", None), "team", "u")
    log._lines(LOG)
    assert log._command("cat")[-2:] == ["u", str(len(LOG) + 1)]
    assert not log.begin(RUNNING)
    assert log.begin(replace(RUNNING, preemptions=2))
    assert log._command("cat")[-2:] == ["u.2", "1"]
