"""`efrit-mcp` as a client starts it: a process on this machine, a real Emacs behind it, a model from a script."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.model.running import KEY, Model, running
from tests.support.local_daemons import end_daemons

NAME = "efrit-mcp-test"


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


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with running() as server:
        yield server


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


@pytest.fixture
def serve(laptop: Laptop) -> Serve:
    @asynccontextmanager
    async def served(*words: str, **options: Any) -> AsyncIterator[Client]:
        program = StdioServerParameters(
            command=sys.executable, args=["-m", "efrit.mcp.app", *words], env=laptop.env, cwd=laptop.home
        )
        async with Client(program, **options) as client:
            yield client

    return served
