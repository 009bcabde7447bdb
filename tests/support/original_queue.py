"""The two ends of a queue as the original Efrit has them: its TypeScript client and its Emacs, step by step.

Their code is not copied, and `make upstream`, which runs it, needs a network: what they do to the files was read off
version 1.0.0 of the client and 0.4.1 of the Lisp, and is written anew here. Directories, names, order of steps,
modes, what each demands of the other's files and the form of answers are theirs; how long they wait is not.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.timeout import TIMEOUT

VERSION = "1.0.0"
DIRECTORIES = ("requests", "processing", "responses", "archive")
TYPES = ("command", "chat", "eval", "status")
LONGEST = 1 << 20


@dataclass
class OriginalClient:
    """Writes a request beside its name and renames it, then looks for the answer until it is there."""

    queue: Path

    def submit(self, kind: str, content: str, *, timeout: int = 600, return_context: bool = False) -> str:
        """Store a request; return its id."""
        for directory in ("", *DIRECTORIES):
            (self.queue / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
        rid = f"efrit_{uuid.uuid4()}"
        request = {
            "id": rid,
            "version": VERSION,
            "type": kind,
            "content": content,
            "instance_id": "default",
            "options": {"timeout": timeout, "return_context": return_context},
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "metadata": {"client_id": "efrit-mcp-server", "source": "mcp"},
        }
        path = self._request(rid)
        beside = path.with_name(f"{path.name}.tmp")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(request, indent=2))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
        return rid

    def answer(self, rid: str) -> dict[str, Any]:
        """Return the answer once it is there; the answer and the request are deleted."""
        path = self.queue / f"responses/resp_{rid}.json"
        limit = time.monotonic() + TIMEOUT
        while not path.exists():
            assert time.monotonic() < limit, f"no answer to {rid}"
            time.sleep(0.02)
        response: dict[str, Any] = json.loads(path.read_text())
        assert response["id"] == rid
        assert response["version"]
        assert response["status"] in ("success", "error", "timeout")
        path.unlink(missing_ok=True)
        self.give_up(rid)
        return response

    def execute(self, kind: str, content: str, **options: Any) -> dict[str, Any]:
        """Store a request and return its answer."""
        return self.answer(self.submit(kind, content, **options))

    def give_up(self, rid: str) -> None:
        """Delete the request where it still waits, as the client does at its timeout."""
        self._request(rid).unlink(missing_ok=True)

    def _request(self, rid: str) -> Path:
        return self.queue / f"requests/req_{rid}.json"


@dataclass
class OriginalEmacs:
    """Takes requests by a rename, writes answers in place, archives the request some time after its answer."""

    queue: Path
    evaluate: Callable[[str], str]
    answered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for directory in DIRECTORIES:
            (self.queue / directory).mkdir(parents=True, exist_ok=True)

    def work(self) -> None:
        """Do all requests that wait, in the order of their names."""
        for path in sorted((self.queue / "requests").glob("*.json")):
            self._process(path)

    def clean_up(self) -> None:
        """Archive the requests that were answered: minutes later, by then others may have."""
        while self.answered:
            name = self.answered.pop()
            path = self.queue / "processing" / name
            if path.exists():
                path.replace(self.queue / "archive" / name)

    def _process(self, path: Path) -> None:
        if path.stat().st_size >= LONGEST:
            return
        request = json.loads(path.read_text())
        problem = self._problem(request)
        if problem is None:
            path.rename(self.queue / "processing" / path.name)
            self.answered.append(path.name)
        self._answer(request, problem)

    def _problem(self, request: dict[str, Any]) -> str | None:
        if not request.get("id") or not request.get("content"):
            return "Request lacks a field"
        if request.get("version") != VERSION:
            return f"Incompatible schema version: {request.get('version')}"
        return None if request.get("type") in TYPES else "Unknown type"

    def _answer(self, request: dict[str, Any], problem: str | None) -> None:
        response: dict[str, Any] = {"id": request["id"], "version": VERSION}
        response["timestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if problem is None:
            try:
                result = self.evaluate(request["content"])
            except ArithmeticError as error:
                result = f"Error evaluating {request['content']}: {error}"
            # It prints the text once more, and the context is JSON in a string.
            response |= {"status": "success", "result": json.dumps(result), "execution_time": 0.25}
            if request.get("options", {}).get("return_context"):
                response["context"] = json.dumps({"buffer": {"buffer-name": "*scratch*", "point": 7}})
        else:
            response |= {"status": "error", "error": problem}
        (self.queue / f"responses/resp_{request['id']}.json").write_text(json.dumps(response, indent=2))
