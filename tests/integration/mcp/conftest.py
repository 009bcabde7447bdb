"""`efrit-mcp` as a client starts it: a process on this machine, a real Emacs behind it, a model from a script."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.stdio import stdio_server

from tests.model.running import KEY, Model
from tests.support.forked_programs import Forked
from tests.support.local_daemons import end_daemons
from tests.support.timeout import TIMEOUT

NAME = "efrit-mcp-test"
PROGRAM = Path(sys.executable).with_name("efrit-mcp")


@dataclass
class Laptop:
    """A home directory with one instance that is not running, and what the processes in it inherit."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> Path:
        return self.home / "queues"

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"


Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def laptop(tmp_path: Path, model: Model) -> Iterator[Laptop]:
    sockets = tmp_path / "t"
    sockets.mkdir()
    (tmp_path / "key").write_text(f"{KEY}\n")
    made = Laptop(tmp_path)
    made.env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(sockets),
        "EFRIT_BACKEND": "local",
        "EFRIT_CONFIG": str(tmp_path / "config.json"),
        "EFRIT_MODEL_NAME": "claude-test",
        "EFRIT_MODEL_BASE_URL": model.url,
        "EFRIT_MODEL_API_KEY_FILE": str(tmp_path / "key"),
    }
    instance = {
        "queue_dir": str(made.queue),
        "daemon_name": NAME,
        "workspace_dir": str(made.workspace),
        "auto_start": True,
    }
    (tmp_path / "config.json").write_text(json.dumps({"instances": {"default": instance}}))
    made.workspace.mkdir()
    yield made
    end_daemons(tmp_path)


class Input:
    """The pipe to a server; what a client still sends after its end goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w")

    async def write(self, text: str) -> None:
        if not self._file.closed:
            self._file.write(text)

    async def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        self._file.close()


@asynccontextmanager
async def transport(laptop: Laptop, *words: str) -> AsyncIterator[Any]:
    """Fork a server, which imports for a second if it is started; it ends with its input, as its client goes."""
    (its_in, to), (its_from, out) = os.pipe(), os.pipe()
    try:
        command = [str(PROGRAM), *words]
        server = Forked(command, laptop.env, laptop.home, streams=(its_in, out, 2), start_new_session=False)
    finally:
        os.close(its_in)
        os.close(out)
    stdin: Any = Input(to)
    with closing(stdin), os.fdopen(its_from) as stdout:
        # What a server reads and writes its client writes and reads.
        async with stdio_server(anyio.wrap_file(stdout), stdin) as streams:
            try:
                yield streams
            finally:
                stdin.close()
        assert server.wait(TIMEOUT) == 0


@pytest.fixture
def serve(laptop: Laptop) -> Serve:
    @asynccontextmanager
    async def served(*words: str, **options: Any) -> AsyncIterator[Client]:
        async with Client(transport(laptop, *words), **options) as client:
            yield client

    return served
