"""What works on a queue directory beside the bridge, for tests: an Emacs, a foreign client, and failing disks."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from efrit.protocol import Request, RequestId, request_id
from efrit.queue.durable import Disk
from efrit.queue.layout import Area


def a_request(rid: str, content: str = "(+ 1 1)", **fields: Any) -> Request:
    return Request.parse(json.dumps({"id": rid, "type": "eval", "content": content, **fields}))


@dataclass
class ScriptedEmacs:
    """Does to the files what Emacs does, one step at a time."""

    root: Path
    boot: str = "boot1"

    def claim(self, rid: str, attempt: int = 1) -> None:
        (self.root / f"requests/req_{rid}.json").rename(self.root / f"processing/req_{rid}.json")
        with (self.root / "claims.log").open("a") as journal:
            journal.write(f"{rid} {attempt} {self.boot}\n")

    def answer(self, rid: str, result: str = "2", **fields: Any) -> None:
        response = {
            "id": rid,
            "version": "1.0.0",
            "timestamp": "2026-01-03T18:30:00.000Z",
            "status": "success",
            "result": result,
            "error": None,
            "execution_time": 0.25,
            "context": None,
            "reason": "Succeeded",
            "outcome": "Success",
            "attempt": 1,
            **fields,
        }
        temporary = self.root / f"tmp/emacs_{rid}"
        temporary.write_text(json.dumps(response))
        os.link(temporary, self.root / f"responses/resp_{rid}.json")
        temporary.unlink()

    def archive(self, rid: str) -> None:
        (self.root / f"processing/req_{rid}.json").rename(self.root / f"archive/req_{rid}.json")

    def do(self, rid: str, result: str = "2", **fields: Any) -> None:
        self.claim(rid)
        self.answer(rid, result, **fields)
        self.archive(rid)

    def append_work_log(self, rid: str, kind: str, **fields: Any) -> int:
        """Add a line to the work log; return the size of the log then."""
        path = self.root / f"progress/{rid}.ndjson"
        line = {"time": "2026-01-03T18:30:00.000Z", "type": kind, **fields}
        with path.open("a") as log:
            log.write(json.dumps(line) + "\n")
        return path.stat().st_size

    def give_back(self, rid: str) -> None:
        (self.root / f"processing/req_{rid}.json").rename(self.root / f"requests/req_{rid}.json")


def tree(root: Path) -> set[str]:
    """Every file below `root` but those that are always there."""
    standing = {"identity", "claims.log", "totals", "results.log"}
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {name for name in names - standing if not name.startswith("tmp/reserve_")}


@dataclass
class Fault:
    """Raises `number` at the `at`-th call (from 0) of a method for which `when` holds; each call after too
    if `lasting`."""

    method: str
    number: int = errno.ENOSPC
    at: int = 0
    lasting: bool = False
    when: Callable[[tuple[Any, ...]], bool] = lambda args: True
    calls: int = field(default=0, init=False)

    def raise_if_due(self, method: str, args: tuple[Any, ...]) -> None:
        if method != self.method or not self.when(args):
            return
        self.calls += 1
        if self.calls == self.at + 1 or (self.lasting and self.calls > self.at):
            raise OSError(self.number, os.strerror(self.number))


class TestDisk(Disk):
    """A disk that records its steps, and fails where a `Fault` says so."""

    __test__ = False

    def __init__(self, root: Path, *faults: Fault) -> None:
        super().__init__(root)
        self.faults = list(faults)
        self.steps: list[str] = []

    def _step(self, method: str, *args: Any) -> None:
        self.steps.append(" ".join([method, *(str(arg) for arg in args if isinstance(arg, str | Area))]))
        for fault in self.faults:
            fault.raise_if_due(method, args)

    def read(
        self, area: Area, name: str, *, limit: int, start: int = 0, forbidden_is_empty: bool = True
    ) -> bytes | None:
        # It changes nothing, and is no step.
        for fault in self.faults:
            fault.raise_if_due("read", (area, name))
        return super().read(area, name, limit=limit, start=start, forbidden_is_empty=forbidden_is_empty)

    def create(self, area: Area, name: str, data: bytes, *, hurry: bool = True) -> int:
        self._step("create", area, name)
        return super().create(area, name, data, hurry=hurry)

    def sync_file(self, fd: int) -> None:
        try:
            self._step("sync_file")
        except OSError:
            os.close(fd)
            raise
        super().sync_file(fd)

    def sync_dir(self, area: Area) -> None:
        self._step("sync_dir", area)
        super().sync_dir(area)

    def link(self, area: Area, name: str, to_area: Area, to_name: str) -> None:
        self._step("link", area, name, to_area, to_name)
        super().link(area, name, to_area, to_name)

    def rename(self, area: Area, name: str, to_area: Area, to_name: str) -> bool:
        self._step("rename", area, name, to_area, to_name)
        return super().rename(area, name, to_area, to_name)

    def append(self, area: Area, name: str, data: bytes) -> None:
        self._step("append", area, name)
        super().append(area, name, data)


def rid(text: str) -> RequestId:
    return request_id(text)
