"""A whole instance as processes: efrit-bridge and a real Emacs under run-emacs, on temporary directories."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from efrit.protocol import RequestState, Response
from efrit.protocol.view import RequestView, Stats
from tests.cluster.ports import free_port
from tests.support.certificates import TOKEN, make_secrets
from tests.support.forked_programs import Forked, can_be_forked
from tests.support.timeout import TIMEOUT, poll_interval

T = TypeVar("T")


def until(ask: Callable[[], T], seconds: float = TIMEOUT, diagnostics: Callable[[], str] = str) -> T:
    """Return the first true answer of `ask`; AssertionError with `diagnostics` after `seconds`."""
    began = time.monotonic()
    while not (answer := ask()):
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} s: {ask}\n{diagnostics()}"
        time.sleep(poll_interval(waited))
    return answer


@dataclass
class Instance:
    """As a context manager both run; else start with `start_bridge`, then `start_emacs`; `stop` ends both."""

    place: Path
    lisp: Path
    env: dict[str, str] = field(default_factory=dict)
    #: What both are started through, such as a tracer that becomes the program.
    wrap: tuple[str, ...] = ()
    #: TMPDIR of each run, for instances that have the same environment; default: one of its own for each.
    temporary: Path | None = None
    bridge: subprocess.Popen[bytes] | Forked | None = None
    emacs: subprocess.Popen[bytes] | None = None
    port: int = 0
    probe_port: int = 0

    def __post_init__(self) -> None:
        for name in ("home", "workspace", "tmp"):
            (self.place / name).mkdir(parents=True)
        self.secrets = make_secrets(self.place / "secrets")
        self.port, self.probe_port = free_port(), free_port()
        self.runs = 0
        #: What run-emacs was started as, one group each time.
        self._groups: list[subprocess.Popen[bytes]] = []
        # Sockets of daemons live in TMPDIR: each instance has its own.
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place / "tmp"),
            "LANG": "C.UTF-8",
            "EFRIT_QUEUE_DIR": str(self.queue),
            "EFRIT_WORKSPACE": str(self.workspace),
            "EFRIT_SHARED_DIR": str(self.place / "shared"),
            "EFRIT_LISP_SOURCE": str(self.lisp),
            "EFRIT_BRIDGE_SECRETS": str(self.secrets),
            "EFRIT_BRIDGE_HOST": "127.0.0.1",
            "EFRIT_BRIDGE_PORT": str(self.port),
            "EFRIT_BRIDGE_PROBE_PORT": str(self.probe_port),
            "EFRIT_INSTANCE_ID": "test/one",
            # Longer than a test takes, and than an Emacs needs to stop on a busy machine.
            "EFRIT_REQUEST_TIMEOUT": "3600",
            "EFRIT_KILL_GRACE_SECONDS": "30",
            **self.env,
        }
        context = ssl.create_default_context(cafile=str(self.secrets / "tls.crt"))
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=context,
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=TIMEOUT,
        )

    def __enter__(self) -> Instance:
        try:
            self.start_bridge()
            self.start_emacs()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def queue(self) -> Path:
        return self.place / "queue"

    @property
    def workspace(self) -> Path:
        return self.place / "workspace"

    # Processes

    def start_bridge(self) -> None:
        self.spawn_bridge()
        until(self.alive)

    def spawn_bridge(self) -> None:
        # It prints and sorts nothing that the locale decides.
        env = {name: value for name, value in self.environment.items() if name != "LANG"}
        command = [*self.wrap, str(Path(sys.executable).with_name("efrit-bridge"))]
        with (self.place / "bridge.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            if can_be_forked(command, env):
                streams = nothing.fileno(), log.fileno(), log.fileno()
                self.bridge = Forked(command, env, Path.cwd(), streams=streams, start_new_session=True)
            else:
                self.bridge = subprocess.Popen(command, env=env, stderr=log)

    def alive(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.client.get("/v1/requests").status_code == 200
        return False

    def ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.client.get("/readyz").status_code == 200
        return False

    def start_emacs(self) -> None:
        self.spawn_emacs()
        until(self.ready)

    def spawn_emacs(self) -> None:
        """Start run-emacs, each time as in a pod of its own: the socket of another's daemon is not in its TMPDIR."""
        self.runs += 1
        # No longer than the first: the name of a socket has 108 bytes at most.
        temporary = self.temporary or self.place / ("tmp" if self.runs == 1 else f"t{self.runs}")
        temporary.mkdir(exist_ok=True)
        with (self.place / "emacs.log").open("ab") as log:
            self.emacs = subprocess.Popen(
                [*self.wrap, "/bin/sh", str(self.place / "shared/run-emacs")],
                env={**self.environment, "TMPDIR": str(temporary)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._groups.append(self.emacs)

    def kill_bridge(self) -> None:
        assert self.bridge is not None
        self.bridge.kill()
        self.bridge.wait()

    def emacs_pid(self) -> int:
        """Of the Emacs that runs now; the bridge may tell of one that has just ended."""

        def running() -> int:
            pid = self.stats().emacs.pid or 0
            return pid if pid and Path(f"/proc/{pid}").exists() else 0

        return until(running)

    def stop(self, seconds: float = 10.0) -> None:
        """End all. seconds: what each process has for its end before it is killed."""
        for process in (*self._groups, self.bridge):
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.kill()
            process.wait()
        for process in self._groups:
            # The Emacs that run-emacs started does not end with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self.client.close()

    # Requests

    def put(self, rid: str, content: str, **fields: Any) -> httpx.Response:
        body = {"id": rid, "type": "eval", "content": content, **fields}
        return self.client.put(f"/v1/requests/{rid}", json=body)

    def view(self, rid: str) -> RequestView:
        answer = self.client.get(f"/v1/requests/{rid}")
        assert answer.status_code == 200, answer.text
        return RequestView.parse(answer.content)

    def answer(self, rid: str, seconds: float = TIMEOUT) -> Response:
        def answered() -> Response | None:
            return self.view(rid).response

        response = until(answered, seconds, lambda: self._diagnostics(rid))
        assert response is not None
        return response

    def _diagnostics(self, rid: str) -> str:
        """Return what is known of a request, and the ends of the logs."""
        files = (self.queue / f"progress/{rid}.ndjson", self.place / "emacs.log", self.place / "bridge.log")
        logs = [f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files if file.exists()]
        return "\n".join([str(self.view(rid)), *logs])

    def eval(self, rid: str, content: str, **fields: Any) -> Response:
        stored = self.put(rid, content, **fields)
        assert stored.status_code == 201, stored.text
        return self.answer(rid)

    def until_running(self, rid: str) -> None:
        until(lambda: self.view(rid).state is RequestState.RUNNING)

    def stats(self) -> Stats:
        return Stats.parse(self.client.get("/v1/stats").content)

    def metric(self, line: str) -> float:
        for text in self.client.get("/metrics").text.splitlines():
            if text.startswith(line + " "):
                return float(text.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {line}")

    def events(self, last_id: str | None = None) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(id, name, data) of each event; ends with the connection."""
        return self._stream("/v1/events", last_id)

    def work_log(self, rid: str, last_id: str | None = None) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(id, name, data) of each line of a request's work log, and of its end."""
        return self._stream(f"/v1/requests/{rid}/progress", last_id)

    def _stream(self, path: str, last_id: str | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
        headers = {} if last_id is None else {"last-event-id": last_id}
        with self.client.stream("GET", path, headers=headers, timeout=TIMEOUT) as stream:
            event: dict[str, str] = {}
            for line in stream.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                elif "data" in event:
                    yield event.get("id", ""), event.get("event", "message"), json.loads(event["data"])
                    event = {}
