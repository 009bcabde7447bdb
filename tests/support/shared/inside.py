"""What runs inside the namespaces of a host: the mount, then a client that sends evals and waits for the answers.

    python -m tests.support.shared.inside NAME MEMORY STORE DIRECTORY REQUESTS AT_ONCE

The first process only reaps, as an init does; without it an Emacs that has ended would stay a zombie. The second one
mounts, works, writes DIRECTORY/results.json, and stays until its standard input ends: its Emacs goes on serving.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from efrit.backend.errors import ClientError
from efrit.backend.interface import RequestState, Work
from efrit.backend.local.backend import LocalBackend
from efrit.protocol.enums import RequestType
from tests.support.shared.program import delayed_mount

PAUSE = 0.05
WAVES = 4
"""The requests of a host are sent in so many parts, each once the file that holds it back is gone."""


def hold(site: Path, wave: int) -> Path:
    return site / f"hold-{wave}"


def wait_until_gone(path: Path) -> None:
    while path.exists():
        time.sleep(PAUSE)


def mount(memory: str, store: Path, point: Path) -> None:
    point.mkdir(exist_ok=True)
    subprocess.Popen([delayed_mount(), memory, store, point], start_new_session=True)
    while not os.path.ismount(point):
        time.sleep(PAUSE)


def content(log: Path, key: str) -> str:
    """Return Lisp that notes its beginning and its end, with the number of the Emacs that evaluates it."""
    note = f'(write-region (format "%s {key} %s\\n" WORD efrit-fence-generation) nil "{log}" t (quote silent))'
    begin, end = (note.replace("WORD", f'"{word}"') for word in ("begin", "end"))
    # The lock of an Emacs that was killed on another host would stay.
    return f'(let ((create-lockfiles nil)) {begin} {end} "{key}")'


async def ask(backend: LocalBackend, key: str, log: Path, slots: asyncio.Semaphore) -> dict[str, str | None]:
    """Send one eval and return how it ended. What is refused for now is tried again under the same key."""
    async with slots:
        while True:
            try:
                handle = await backend.submit(Work(RequestType.EVAL, content(log, key), "team", key=key))
                state: RequestState | None = None
                async for update in backend.watch(handle):
                    state = update.state or state
                assert state is not None
                error = None if state.error is None else state.error.message
                return {"key": key, "reason": state.reason, "result": state.result, "error": error}
            except ClientError as error:
                print(f"{socket.gethostname()}: {key}: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(PAUSE)


async def work(name: str, directory: Path, requests: int, at_once: int) -> None:
    backend = LocalBackend.configured(directory / "config.json")
    slots, log = asyncio.Semaphore(at_once), directory.parent / "log"
    tasks = []
    for wave in range(WAVES):
        await asyncio.to_thread(wait_until_gone, hold(directory.parent, wave))
        keys = [f"{name}-{n}" for n in range(requests) if n * WAVES // requests == wave]
        tasks += [asyncio.create_task(ask(backend, key, log, slots)) for key in keys]
    answers = await asyncio.gather(*tasks)
    await backend.close()
    partial = directory / "results.part"
    partial.write_text(json.dumps(answers))
    partial.rename(directory / "results.json")


def main(name: str, memory: str, store: Path, directory: Path, requests: int, at_once: int) -> None:
    socket.sethostname(name)
    child = os.fork()
    if child:
        while os.wait()[0] != child:
            pass
        return
    mount(memory, store, directory / "mount")
    instance = {"queue_dir": str(directory / "mount/queue"), "workspace_dir": str(directory / "work")}
    config = {"instances": {"team": instance}, "max_concurrent_requests": 1000, "polling_interval_ms": 100}
    (directory / "config.json").write_text(json.dumps(config))
    asyncio.run(work(name, directory, requests, at_once))
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
