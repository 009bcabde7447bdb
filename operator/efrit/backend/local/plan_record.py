"""What this machine keeps of one plan: files in a directory of its own, each replaced in one step.

    plan.json      what is wanted (metadata and spec of an EfritPlan); written by whoever begins or changes the plan
    status.json    where it stands; written by its driver alone
    requests/      the plan's requests, each with its result once it is over; written by its driver alone
    driver.lock    held by the driver as long as it lives
    change.lock    held while plan.json is changed

A request is here before it is sent and its answer is here before the next is decided: whoever drives next finds it.
Blocking, for a millisecond or two.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from efrit.api import EfritPlan, EfritRequest, PlanStatus, RequestStatus
from efrit.backend.errors import NotReady, Refused

Json = dict[str, Any]

PLAN, STATUS, REQUESTS = "plan.json", "status.json", "requests"
_NEW = ".new"
_LONGEST_FILE = 32 << 20


class PlanRecord:
    """The files of the plan in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.name = directory.name

    # The plan

    @property
    def exists(self) -> bool:
        """Whether there is such a plan."""
        return (self.directory / PLAN).is_file()

    def create(self, plan: Json) -> bool:
        """Store a new plan; return False if there is one of this name. Raises `NotReady`."""
        with _as_client_errors(self.directory):
            self.directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self.directory.with_name(f".{self.name}-{plan['metadata']['uid']}")
            try:
                (new / REQUESTS).mkdir(parents=True, mode=0o700)
                _replace(new / PLAN, plan)
                # Onto a directory that is not empty no other is renamed: one of two that begin it wins.
                new.rename(self.directory)
            except OSError:
                shutil.rmtree(new, ignore_errors=True)
                if not self.exists:
                    raise
                return False
            _sync(self.directory.parent)
        return True

    def object(self) -> Json:
        """Return the plan with its status, as valid JSON in the form of an EfritPlan. Raises `Refused`."""
        return self._validated()[0]

    def plan(self) -> EfritPlan:
        """Return the plan with its status. Raises `Refused`."""
        return self._validated()[1]

    def _validated(self) -> tuple[Json, EfritPlan]:
        # Each file by itself: the one that somebody broke is named.
        plan_document = self._read(PLAN)
        with self.refuse_unreadable(PLAN):
            plan = EfritPlan.model_validate({**plan_document, "status": {}})
            if plan.metadata.name != self.name:
                raise ValueError(f"metadata.name is {plan.metadata.name}, and its directory {self.name}")
        status = self._read(STATUS) if (self.directory / STATUS).exists() else {}
        with self.refuse_unreadable(STATUS):
            plan = plan.model_copy(update={"status": PlanStatus.model_validate(status)})
        return {**plan_document, "status": status}, plan

    def version(self) -> int:
        """Return the number that grows with each change of what is wanted. Raises `Refused`."""
        plan = self._read(PLAN)
        with self.refuse_unreadable(PLAN):
            return int(plan["metadata"].get("generation", 1))

    def change(self, change: Callable[[Json], None]) -> None:
        """Apply `change` to the spec; of several at the same time each is kept. Raises `Refused`."""
        with _as_client_errors(self.directory), (self.directory / "change.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            plan = self._read(PLAN)
            change(plan["spec"])
            plan["metadata"]["generation"] = plan["metadata"].get("generation", 1) + 1
            with self.refuse_unreadable(PLAN, "the change"):
                EfritPlan.model_validate(plan)
            _replace(self.directory / PLAN, plan)

    def write_status(self, status: PlanStatus) -> None:
        """Store where the plan stands."""
        with _as_client_errors(self.directory):
            _replace(self.directory / STATUS, status.to_wire())

    # Its driver

    @contextlib.contextmanager
    def driver_lock(self) -> Iterator[bool]:
        """Be the plan's driver within this context; the value is False where another process is."""
        with _as_client_errors(self.directory):
            lock = (self.directory / "driver.lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    # Its requests

    def requests(self) -> tuple[dict[str, EfritRequest], dict[str, str]]:
        """Return the plan's requests, and their whole results, by name. Raises `Refused`."""
        requests, results = {}, {}
        with _as_client_errors(self.directory):
            names = sorted(path.name for path in (self.directory / REQUESTS).iterdir() if path.suffix == ".json")
        for name in names:
            stored = self._read(f"{REQUESTS}/{name}")
            with self.refuse_unreadable(f"{REQUESTS}/{name}"):
                request = EfritRequest.model_validate(stored["request"])
            requests[request.metadata.name] = request
            if stored.get("result") is not None:
                results[request.metadata.name] = str(stored["result"])
        return requests, results

    def store(self, request: EfritRequest, result: str | None = None) -> None:
        """Store a request, or what became of it."""
        stored = {"request": request.to_wire(), "result": result}
        with _as_client_errors(self.directory):
            _replace(self._path(request.metadata.name), stored)

    def forget(self, name: str) -> None:
        """Delete a request that no decision needs any more."""
        with _as_client_errors(self.directory):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.directory / REQUESTS / f"{name}.json"

    def _read(self, name: str) -> Json:
        with self.refuse_unreadable(name), _as_client_errors(self.directory):
            path = self.directory / name
            if path.stat().st_size > _LONGEST_FILE:
                raise ValueError(f"it is longer than {_LONGEST_FILE >> 20} MiB")
            document = json.loads(path.read_bytes())
            if not isinstance(document, dict):
                raise ValueError("it holds no object")
            return document

    @contextlib.contextmanager
    def refuse_unreadable(self, name: str, what: str = "") -> Iterator[None]:
        """Raise `Refused`, which names the file, for what cannot be understood of it within this context."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
            problem = f"{problem} is missing" if isinstance(error, KeyError) else problem
            subject = what or str(self.directory / name)
            raise Refused(f"{subject} cannot be read as part of a plan: {problem}", "correct it") from error


def first_problem(error: ValidationError) -> str:
    """Return the first problem in one line, as `spec.limits.maxSteps: Input should be …`."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def finished(request: EfritRequest, status: RequestStatus) -> EfritRequest:
    """Return the request with its final status."""
    return request.model_copy(update={"status": status})


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    """Write the file beside its place, durably, and put it there in one step."""
    new = path.with_name(f"{path.name}{_NEW}")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _as_client_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotReady(f"the record of a plan in {directory} cannot be used: {error}", "check the disk") from error
