"""A crash state made real: written to a directory, recovered by the bridge's queue and by Emacs, and inspected.

The bridge's half runs here, Emacs's in one Emacs that takes state after state.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from efrit.errors import EfritError, RequestNotFound
from efrit.protocol import Request, RequestId
from efrit.queue.queue import DurableQueue
from tests.chaos.storage.disk_model import Content
from tests.chaos.storage.promises import Json, Promises, Recovered
from tests.chaos.storage.recording import COUNTER, GO, digest
from tests.support.timeout import TIMEOUT

SECONDS = TIMEOUT
STANDING = {"identity", "claims.log", "claims.old", "totals", "heartbeat", "generation", "results.log"}


class Emacs:
    """An Emacs that recovers and serves the directories it is given."""

    def __init__(self, lisp: Path) -> None:
        script = Path(__file__).with_name("replay.el")
        command = ["emacs", "-Q", "--batch", "-L", str(lisp), "-l", str(script), "-f", "replay"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.wait(TIMEOUT)

    def serve(self, place: Path) -> str:
        """Start on `place` and answer what waits. Return what went wrong; empty for nothing."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.write(f"{place}\n")
        self._process.stdin.flush()
        lines = []
        while line := self._process.stderr.readline():
            if line.startswith("REPLAYED"):
                return line.removeprefix("REPLAYED").strip()
            lines.append(line)
        raise AssertionError(f"Emacs ended: {''.join(lines)[-2000:]}")


def write_tree(tree: Mapping[str, Content], origin: Path, target: Path) -> None:
    """Write `tree`, whose paths begin with `origin`, below `target`, without the counter."""
    target.mkdir(parents=True)
    (target / "volume").mkdir()
    (target / "workspace").mkdir()
    prefix = str(origin) + "/"
    for path in sorted(tree):
        if not path.startswith(prefix):
            continue
        content, made = tree[path], target / path.removeprefix(prefix)
        if content is None:
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif made.name != COUNTER:
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_bytes(content)
    (target / "workspace" / GO).touch()


async def recover(place: Path, emacs: Emacs, before: Promises, *, emacs_first: bool) -> Recovered:
    """Start both halves on `place`, in this order, let them answer everything, and ask for what was promised."""
    trouble: list[str] = []
    if emacs_first and (failure := emacs.serve(place)):
        trouble.append(failure)
    queue = DurableQueue(place / "volume/queue")
    # What is gone is believed at the second look; thousands of states cannot wait a second each for it.
    queue.parts.busy_seconds = 0.02
    try:
        await queue.open()
    except EfritError as error:
        return Recovered({}, {}, trouble=(*trouble, f"the bridge does not open the queue: {error}"))
    running = asyncio.create_task(queue.run())
    try:
        if failure := await asyncio.to_thread(emacs.serve, place):
            trouble.append(failure)
        await _settled(queue)
        again = await _submit_again(queue, before)
        if failure := await asyncio.to_thread(emacs.serve, place):
            trouble.append(failure)
        await _settled(queue)
        answers = {rid: answer for rid in before.accepted if (answer := await _answer(queue, rid)) is not None}
    except (EfritError, TimeoutError) as error:
        return Recovered({}, {}, trouble=(*trouble, f"the bridge failed: {error!r}"))
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, ExceptionGroup):
            await running
        await queue.close()
    return Recovered(
        answers,
        _counted(place),
        again,
        leftovers(place / "volume/queue"),
        {str(path.relative_to(place / "workspace")): digest(path.read_bytes()) for path in _results(place)},
        _doubled(place / "volume/queue"),
        queue.queue_id,
        tuple(trouble),
    )


async def _settled(queue: DurableQueue) -> None:
    """Wait until the bridge has seen every answer."""
    limit = time.monotonic() + SECONDS
    while queue.index.open_count:
        if time.monotonic() > limit:
            waiting = [f"{entry.id} {entry.state}" for entry in queue.index if not entry.state.final]
            raise TimeoutError(f"without an answer: {', '.join(waiting)}")
        await asyncio.sleep(0.002)


async def _submit_again(queue: DurableQueue, before: Promises) -> frozenset[str]:
    new = set()
    for rid, body in before.accepted.items():
        if rid in before.swept:
            continue
        _, created = await queue.submit(Request.parse(json.dumps(body)))
        if created:
            new.add(rid)
    return frozenset(new)


async def _answer(queue: DurableQueue, rid: str) -> Json | None:
    try:
        view = await queue.view(RequestId(rid))
    except RequestNotFound:
        return None
    if view.response is None:
        return None
    answer: Json = json.loads(view.response.to_json())
    return answer


def leftovers(queue: Path) -> tuple[str, ...]:
    """Return the files that have no place in a queue where everything is answered."""
    names = []
    # Thousands of queues are looked through: no Path for each file.
    for directory, _, files in os.walk(queue):
        area = os.path.relpath(directory, queue)
        if area.partition("/")[0] in ("responses", "archive"):
            continue
        for file in files:
            name = file if area == "." else f"{area}/{file}"
            if name not in STANDING and not name.startswith(("control/pause_", "tmp/reserve_")):
                names.append(name)
    return tuple(sorted(names))


def _counted(place: Path) -> dict[str, int]:
    counter = place / "workspace" / COUNTER
    return dict(Counter(counter.read_text().split())) if counter.exists() else {}


def _results(place: Path) -> list[Path]:
    return [path for path in (place / "workspace").rglob(".efrit/results/*.txt") if path.is_file()]


def _doubled(queue: Path) -> frozenset[str]:
    twice = set()
    for path in (queue / "responses").glob("resp_*.json"):
        archived = queue / "archive" / path.name
        if archived.exists() and archived.read_bytes() != path.read_bytes():
            twice.add(path.stem.removeprefix("resp_"))
    return frozenset(twice)
