"""A bridge in this process, over TLS on a free port, with an httpx client and Emacs's hand on its queue."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from efrit.bridge.app import Bridge
from efrit.bridge.install import install
from efrit.bridge.settings import Settings
from efrit.queue.durable import Disk
from tests.support.certificates import TOKEN, make_secrets, trusting
from tests.support.queue_fakes import ScriptedEmacs
from tests.support.timeout import TIMEOUT
from tests.unit.bridge.run_emacs_log import Starter


@dataclass
class Served:
    """A bridge that serves."""

    bridge: Bridge
    task: asyncio.Task[None]
    client: httpx.AsyncClient
    emacs: ScriptedEmacs
    secrets: Path

    async def put(self, rid: str, content: str = "(+ 1 1)", **fields: Any) -> httpx.Response:
        body = {"id": rid, "type": "eval", "content": content, **fields}
        return await self.client.put(f"/v1/requests/{rid}", json=body)

    async def until(self, condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, f"not within {seconds} s"
            await asyncio.sleep(0.005)

    async def until_answered(self, rid: str) -> None:
        index = self.bridge.queue.index
        await self.until(lambda: any(entry.id == rid and entry.state.final for entry in index))


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    return make_secrets(tmp_path / "secrets")


@pytest.fixture
async def serve(tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    """Start bridges on one queue directory, one after the other."""
    # No test waits for a second that has to pass.
    monkeypatch.setattr("efrit.bridge.app._REFRESH_SECONDS", 0.05)
    async with contextlib.AsyncExitStack() as stack:

        async def start(disk: Disk | None = None, **settings: Any) -> Served:
            chosen = {"bridge_host": "127.0.0.1", "bridge_port": 0, **settings}
            root = chosen.setdefault("queue_dir", tmp_path / "queue")
            bridge = Bridge(Settings(bridge_secrets=secrets, **chosen), disk=disk)
            task = asyncio.create_task(bridge.run())
            stack.push_async_callback(stop, bridge, task)
            client = await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=f"https://127.0.0.1:{bridge.port}",
                    verify=trusting(secrets),
                    headers={"authorization": f"Bearer {TOKEN}"},
                    timeout=httpx.Timeout(TIMEOUT, pool=None),  # many at once wait for a connection by turns
                )
            )
            return Served(bridge, task, client, ScriptedEmacs(root), secrets)

        yield start


async def stop(bridge: Bridge, task: asyncio.Task[None]) -> None:
    bridge.stop()
    async with asyncio.timeout(TIMEOUT):
        await task


@pytest.fixture
async def served(serve: Serve) -> Served:
    made = await serve()
    await made.until(lambda: made.bridge.queue.is_open)
    return made


# run-emacs with a program in Emacs's place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "efrit-server.el").touch()
    install(source, tmp_path / "shared")
    (tmp_path / "bin").mkdir()
    # Time stands still for run-emacs, however slow the machine: `echo SECONDS > now` sets its clock.
    (tmp_path / "now").write_text("0\n")
    program(tmp_path, "date", f"cat {tmp_path}/now")
    return tmp_path


def program(place: Path, name: str, text: str) -> None:
    """Have run-emacs find a program of that name that does this."""
    put_whole(place / "bin" / name, f"#!/bin/sh\n{text}\n", 0o755)


def put_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Rename a file into place: whoever reads it reads all of it, and one that is being started can be replaced."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text)
    unfinished.chmod(mode)
    unfinished.rename(path)


@pytest.fixture
def start(place: Path) -> Iterator[Starter]:
    started: list[subprocess.Popen[str]] = []

    def run(emacs: str, **env: str) -> subprocess.Popen[str]:
        # In one write: two of them at once do not write into each other's line.
        program(place, "emacs", f'printf "%s\\n" "$*" >> {place}/log\n{emacs}')
        path = f"{place / 'bin'}:{os.environ['PATH']}"
        process = subprocess.Popen(
            ["/bin/sh", str(place / "shared/run-emacs")],
            env={"PATH": path, "EFRIT_WORKSPACE": str(place), **env},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        # With what it has started, which would outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


async def eventually(ask: Callable[[], Awaitable[int]], expected: int) -> None:
    """Ask until the answer is `expected`; each question is a round trip, so no pause is needed."""
    async with asyncio.timeout(TIMEOUT):
        while await ask() != expected:
            continue
