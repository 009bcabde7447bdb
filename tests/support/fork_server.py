"""Forks our programs after it has imported them; see forked_programs.py.

    python -m tests.support.fork_server DESCRIPTOR

Each message on the socket is a program to start, with its standard streams and a pipe for how it ended; the answer is
its process id. Or it is ANOTHER, with a socket: a fork of this process, all programs imported, serves that. Or it is
DOOR, with a socket that listens: whoever connects to it may start programs, too.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

MAX_BYTES = 1 << 20
ANOTHER = b"another"
DOOR = b"door"
SHIM = "EFRIT_CHAOS_SHIM"
"""The variable with the library of FileShim that has to be loaded into what forks a program."""
_PR_SET_PDEATHSIG = 1

# What the programs import when they need it.
PRELOADED = {
    "efrit-operator": ("efrit.controller.app",),
    "efrit-bridge": ("efrit.bridge.app",),
    "efrit": ("efrit.cli", "efrit.backend", "efrit.client"),
    "efrit-mcp": ("efrit.mcp", "efrit.backend"),
    "pytest": ("_pytest", "xdist"),
}
# A few files start these: nobody else is to import them for those.
STARTED_BY_FEW = frozenset({"efrit-mcp", "pytest"})
# What libraries import when they first need it: 20 ms of a processor in each controller, 10 in each bridge.
USED_LATER = {
    "efrit-operator": ("anyio._backends._asyncio", "encodings.idna", "httpcore"),
    "efrit-bridge": ("anyio._backends._asyncio", "uvicorn.lifespan.off"),
    "efrit": ("encodings.idna",),
    "efrit-mcp": ("anyio._backends._asyncio", "uvicorn.lifespan.off"),
    "pytest": ("unittest.mock",),
}
# Modules that look into the environment when they are imported.
READ_WHEN_IMPORTED = frozenset({"kubernetes.config.kube_config", "kubernetes.aio.config.kube_config"})


@dataclass(frozen=True)
class Job:
    """One program to run in this process, which is a fork."""

    command: list[str]
    env: dict[str, str]
    cwd: str
    session: bool
    descriptors: list[int]


class Child(NamedTuple):
    """A fork, and the pipe for how it ended; None for one that serves."""

    pid: int
    pipe: int | None


def _readable(descriptors: Iterable[int]) -> list[int]:
    """Wait until some can be read; `select` would take none above 1,023, and who starts this may have many open."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll()]


def serve(connection: socket.socket) -> Job:
    """Fork for each message; return its job in the fork, and end this process when the other side has."""
    running: dict[int, Child] = {}
    door: socket.socket | None = None
    connections = {connection.fileno(): connection}
    while True:
        doors = {} if door is None else {door.fileno(): door}
        for ready in _readable([*connections, *running, *doors]):
            if ready in doors:
                client, _ = doors[ready].accept()
                connections[client.fileno()] = client
                continue
            if ready in running:
                _tell_end(ready, running.pop(ready))
                continue
            message, descriptors, _, _ = socket.recv_fds(connections[ready], MAX_BYTES, 4)
            if not message:
                if connections[ready] is connection:
                    os._exit(0)
                connections.pop(ready).close()
                continue
            if message == DOOR:
                door = socket.socket(fileno=descriptors[0])
                continue
            if message == ANOTHER:
                for program in PRELOADED.keys() - STARTED_BY_FEW:
                    _preload(program)
                pid = os.fork()
                if pid == 0:
                    connection.close()
                    for watched, child in running.items():
                        os.close(watched)
                        if child.pipe is not None:
                            os.close(child.pipe)
                    return serve(socket.socket(fileno=descriptors[0]))
                os.close(descriptors[0])
                running[os.pidfd_open(pid)] = Child(pid, None)
                continue
            job = Job(descriptors=descriptors, **json.loads(message))
            _preload(Path(job.command[0]).name)
            waiting, begun = os.pipe()
            pid = os.fork()
            if pid == 0:
                if job.session:
                    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                    os.setsid()
                os.close(begun)
                connection.detach()
                return job
            os.close(begun)
            # Answered before, a signal to its group would find none.
            os.read(waiting, 1)
            os.close(waiting)
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            running[os.pidfd_open(pid)] = Child(pid, descriptors[3])
            # A client that was killed meanwhile gets no answer.
            with suppress(BrokenPipeError):
                connections[ready].send(str(pid).encode())


def _tell_end(watched: int, child: Child) -> None:
    _, status = os.waitpid(child.pid, 0)
    if child.pipe is not None:
        with suppress(BrokenPipeError):
            os.write(child.pipe, str(status).encode())
        os.close(child.pipe)
    os.close(watched)


def _preload(program: str) -> None:
    _scripts()
    for name in PRELOADED.pop(program, ()):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            importlib.import_module(module.name)
        for module_name in USED_LATER[program]:
            importlib.import_module(module_name)
        # What is frozen is neither looked through nor written to by the collector of a fork.
        gc.freeze()


def prepare(job: Job) -> Callable[[], Any]:
    """Make this process the program's own; return its main function."""
    for number, descriptor in enumerate(job.descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, 4096)
    if job.session and os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(job.cwd)
    os.environ.clear()
    os.environ.update(job.env)
    if SHIM in job.env:
        # It looks at the environment when it is loaded, which was before there was this one.
        ctypes.CDLL(None).chaos_begin()
    for module_name in READ_WHEN_IMPORTED.intersection(sys.modules):
        vars(sys.modules[module_name])["KUBE_CONFIG_DEFAULT_LOCATION"] = job.env.get(
            "KUBECONFIG", str(Path.home() / ".kube/config")
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = list(job.command)
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin, "rb")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout, "wb")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr, "wb")  # type: ignore[misc]
    main: Callable[[], Any] = _scripts()[Path(job.command[0]).name].load()
    return main


@functools.cache
def _scripts() -> dict[str, EntryPoint]:
    """Return the programs of all that is installed, by name: 10 ms of a processor."""
    return {script.name: script for script in entry_points(group="console_scripts")}


def _stream(number: int, old: Any, mode: str) -> io.TextIOWrapper:
    buffer = open(number, mode, closefd=False)  # noqa: SIM115 - a descriptor that stays open
    return io.TextIOWrapper(
        buffer,
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=number == 2 or buffer.isatty(),
    )


def _end_at_once(codes: list[int]) -> None:
    """End a program that has called all it has to at its end.

    The interpreter would go through all objects to free them, and so copy every page that the forks share: 60 ms.
    """
    # What cannot be written is for the interpreter to tell.
    with suppress(OSError, ValueError):
        for code in codes:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code & 0xFF)


def main() -> None:
    """Serve; in a fork, be the program."""
    codes: list[int] = []
    # The first that is registered is called last.
    atexit.register(_end_at_once, codes)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        sys.exit(prepare(job)())
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise


if __name__ == "__main__":
    main()
