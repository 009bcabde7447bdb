"""Our own Python programs, started as forks of a process that has imported them: a start costs a tenth of the time.

A controller computes for a second before it does anything, `efrit` for a third of one; the tests start thousands.
A fork has an environment, a working directory, descriptors, a session and signals of its own. What the interpreter or
the loader reads at its very start it cannot change: with such a variable a program is started the usual way.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from pathlib import Path
from tempfile import TemporaryFile

from tests.cluster.paths import REPOSITORY
from tests.support.fork_server import ANOTHER, DOOR, SHIM

PROGRAMS = frozenset({"efrit-operator", "efrit-bridge", "efrit", "efrit-mcp"})
MAX_BYTES = 100_000
"""What a program's words and environment may have; a message on a local socket has twice that."""

_READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "COVERAGE", "TZ")
"""What the names of variables begin with that only a new interpreter goes by."""
_lock = threading.Lock()
_firsts: dict[str, _Server] = {}
_servers: dict[str, _Server] = {}
"""By the library that is loaded before them; empty without one."""


def can_be_forked(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return whether a fork would behave as the program does that is started the usual way."""
    program = Path(shutil.which(command[0], path=env.get("PATH")) or command[0])
    return (
        program.name in PROGRAMS
        and program.parent == Path(sys.executable).parent
        and _at_the_start(env).items() <= os.environ.items()
        and len(_message(command, env, Path(), session=False)) <= MAX_BYTES
    )


def _at_the_start(env: Mapping[str, str]) -> dict[str, str]:
    # What forks for the shim has loaded it: a fork takes part from then on.
    others = {"PYTHONHASHSEED", "LD_PRELOAD"} if SHIM in env else {"PYTHONHASHSEED"}
    names = (name for name in env if name.startswith(_READ_AT_THE_START) and name not in others)
    return {name: env[name] for name in names}


_STAND_IN = """#!{python} -SE
# A program of ours, as a fork of the tests' server; started the usual way where a fork would not do.
import json, os, select, signal, socket, sys

program = os.path.join({programs!r}, os.path.basename(sys.argv[0]))
env = dict(os.environ)
names = [name for name in env if name.startswith({prefixes!r}) and name != "PYTHONHASHSEED"]
job = {{"command": [program, *sys.argv[1:]], "env": env, "cwd": os.getcwd(), "session": False}}
message = json.dumps(job).encode()
if len(message) > {most} or any(env[name] != {start!r}.get(name) for name in names):
    os.execv(program, job["command"])
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({door!r})
ending, end = os.pipe()
socket.send_fds(server, [message], [0, 1, 2, end])
os.close(end)
pid = int(server.recv(16))
# A signal that comes just before a wait for the end would be passed on after the end.
signalled, waking = os.pipe()
os.set_blocking(waking, False)
signal.set_wakeup_fd(waking)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
while ending not in select.select([ending, signalled], [], [])[0]:
    os.read(signalled, 512)
code = os.waitstatus_to_exitcode(int(os.read(ending, 16) or signal.SIGKILL))
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def stand_ins(directory: Path) -> Path:
    """Return a directory for PATH whose programs are forks of ours: a shell starts them in a sixth of the time."""
    door = f"\0efrit-tests-{os.getpid()}-{secrets.token_hex(4)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(door)
        listening.listen()
        _send(DOOR, [listening.fileno()])
    text = _STAND_IN.format(
        python=Path(sys.executable).resolve(),
        programs=str(Path(sys.executable).parent),
        prefixes=_READ_AT_THE_START,
        most=MAX_BYTES,
        start=_at_the_start(os.environ),
        door=door,
    )
    directory.mkdir()
    for name in ("efrit", "efrit-mcp", "kubectl-efrit"):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


class Forked:
    """A program that runs, with the part of Popen's interface that the tests use."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        *,
        streams: tuple[int, int, int],
        start_new_session: bool,
    ) -> None:
        self.returncode: int | None = None
        self._status, status = os.pipe()
        try:
            message = _message(command, env, cwd, session=start_new_session)
            self.pid = _start(message, [*streams, status], env.get(SHIM, ""))
        finally:
            os.close(status)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; TimeoutExpired where it does not end in time."""
        if self.returncode is None:
            # It stays readable: another thread may wait as well.
            if not connection.wait([self._status], timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            with _lock:
                if self.returncode is None:
                    status = os.read(self._status, 16)
                    self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL
        return self.returncode

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._status)

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Piped(Forked):
    """A program whose standard output and error come through pipes, with the part of Popen that the tests use."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)
        try:
            with Path(os.devnull).open("rb") as nothing:
                streams = nothing.fileno(), its_out, its_err
                super().__init__(command, env, cwd, streams=streams, start_new_session=False)
        finally:
            os.close(its_out)
            os.close(its_err)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Return what is left of its output once it has ended; TimeoutExpired where it does not end in time."""
        with self, ThreadPoolExecutor(2) as pool:
            texts = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return texts[0].result(), texts[1].result()

    def __enter__(self) -> Piped:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


def run(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, *, stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does; TimeoutExpired where it does not end in time."""
    with TemporaryFile("w+b") as input_file, TemporaryFile("w+b") as out, TemporaryFile("w+b") as err:
        input_file.write(stdin.encode())
        input_file.seek(0)
        streams = input_file.fileno(), out.fileno(), err.fileno()
        program = Forked(command, env, cwd, streams=streams, start_new_session=False)
        try:
            code = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())


def _message(command: Sequence[str], env: Mapping[str, str], cwd: Path, *, session: bool) -> bytes:
    return json.dumps({"command": list(command), "env": dict(env), "cwd": str(cwd), "session": session}).encode()


class _Server:
    """The process that forks; it ends with this one."""

    def __init__(self, first: _Server | None, preload: str) -> None:
        """Start it, with a library loaded before all others, or, which costs nothing, have the first one fork it."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process: subprocess.Popen[bytes] | None = None
        with theirs:
            if first is not None:
                socket.send_fds(first.socket, [ANOTHER], [theirs.fileno()])
                return
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
                cwd=REPOSITORY,
                env={**os.environ, "LD_PRELOAD": preload} if preload else None,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        self.socket.close()
        if self._process is not None:
            self._process.wait()


@contextlib.contextmanager
def for_all_forks(preload: str = "") -> Iterator[None]:
    """Have the forks of this process have servers that are forks of one, which imports the programs once."""
    first = _firsts[preload] = _Server(None, preload)
    try:
        yield
    finally:
        del _firsts[preload]
        first.close()


def _send(message: bytes, descriptors: list[int], preload: str = "") -> socket.socket:
    if preload not in _servers:
        _servers[preload] = _Server(_firsts.get(preload), preload)
    socket.send_fds(_servers[preload].socket, [message], descriptors)
    return _servers[preload].socket


def _start(message: bytes, descriptors: list[int], preload: str) -> int:
    with _lock:
        answer = _send(message, descriptors, preload).recv(16)
    if not answer:
        raise RuntimeError("what forks the programs has ended")
    return int(answer)
