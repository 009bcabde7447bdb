"""Runs the server as a process of its own, for tests in Python: `with running() as model: ... model.url ...`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT

SERVER = Path(__file__).parent / "server.py"
KEY = "test-key"


@dataclass(frozen=True)
class Model:
    """A server that runs."""

    url: str

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Call the server beside the API, and return the JSON of its answer."""
        return (
            httpx.request(method, self.url + path, timeout=TIMEOUT, verify=NO_TLS, **more).raise_for_status().json()
        )

    def log(self, scenario: str | None = None) -> list[dict[str, Any]]:
        """Return the calls it got, or those of one scenario."""
        return list(self.ask("GET", f"/_log?scenario={scenario}" if scenario else "/_log"))

    def accept(self, *keys: str) -> None:
        """Take these keys only."""
        self.ask("POST", "/_keys", json={"accept": keys})

    def gates(self) -> list[str]:
        """Return the names of the gated scenarios at which an answer waits."""
        return list(self.ask("GET", "/_gates"))

    def open(self, scenario: str) -> None:
        """Let a gated scenario's answers out."""
        self.ask("POST", f"/_gates/{scenario}")

    def reset(self) -> None:
        """Forget every attempt, the log and the prompt cache."""
        self.ask("POST", "/_reset")

    def play(self, name: str, toml: str) -> None:
        """Take a scenario written in a test."""
        self.ask("PUT", f"/_scenarios/{name}", content=toml)


@contextmanager
def running(*words: str) -> Iterator[Model]:
    """Run a server on a free port of loopback, with more WORDS on its command line."""
    with subprocess.Popen([sys.executable, str(SERVER), *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"the model server ended with {process.wait(30)}")
            yield Model(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
