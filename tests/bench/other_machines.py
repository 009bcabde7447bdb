"""Processes that stand for other machines: they get what this machine's processors have left.

A burst's creators and the bridges that it keeps busy would not share two processors with the controller and the API
server. So they run as SCHED_IDLE. Where the kernel groups processes by session, that orders those of one session
alone, and each session has as much as any other: they lead one of their own, whose group is the last in line.
With OTHERS_NICE=0 they have the rights of all others, where other work of the machine would leave them nothing.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import signal
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from efrit.resources import REQUESTS
from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, Kube
from tests.support.simulated_bridge import Mode, SimulatedBridge, SimulatedNode

SPAWN = multiprocessing.get_context("spawn")
AUTOGROUP = Path("/proc/self/autogroup")
LAST_IN_LINE = 19
NICE = int(os.environ.get("OTHERS_NICE", str(LAST_IN_LINE)))
PR_SET_PDEATHSIG = 1
CREATORS = 2
PER_SECOND = 50.0
AT_ONCE = 300
"""The limits of kubectl, which each creator keeps: a burst is a file of requests that somebody applies."""


def stand_aside() -> None:
    """Have this process yield to all others; it ends with the one that made it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    if NICE == LAST_IN_LINE:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(NICE)
    if AUTOGROUP.exists():
        AUTOGROUP.write_text(str(NICE))


class Rate:
    """A client's own limit: a token bucket."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = self._burst
        self._filled = time.monotonic()

    def wait(self) -> None:
        """Wait for a token and take it."""
        while True:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_second)
            self._filled = now
            if self._tokens >= 1:
                self._tokens -= 1
                return
            time.sleep((1 - self._tokens) / self._per_second)


def _create(url: str, tls: tuple[str, str, str], path: str, manifests: list[Json]) -> None:
    """Create requests, one after the other: in a process of its own, as what measures must not wait for it."""
    rate = Rate(PER_SECOND, AT_ONCE)
    verify = ssl.create_default_context(cafile=tls[0])
    verify.load_cert_chain(tls[1], tls[2])
    with httpx.Client(base_url=url, verify=verify, timeout=60, trust_env=False) as client:
        for manifest in manifests:
            rate.wait()
            client.post(path, json=manifest).raise_for_status()


class Creators:
    """Processes that create requests of a namespace: they are there before anything is measured. Close them."""

    def __init__(
        self, plane: ControlPlane, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
    ) -> None:
        pki = plane.authority
        tls = (str(pki.ca), str(pki.certificate("admin")), str(pki.key("admin")))
        self._pool = ProcessPoolExecutor(CREATORS, mp_context=SPAWN, initializer=stand_aside)
        self._where = (plane.url, tls, REQUESTS.path(namespace))
        self._spec, self._labels = spec, dict(labels or {})
        self.begin("warm", CREATORS)()

    def begin(self, prefix: str, count: int) -> Callable[[], None]:
        """Begin to create requests, named by the prefix and a number; return what waits for the last create."""
        names = [f"{prefix}{number}" for number in range(count)]
        manifests = [REQUESTS.manifest({"name": name, "labels": self._labels}, spec=self._spec) for name in names]
        creates = [self._pool.submit(_create, *self._where, manifests[first::CREATORS]) for first in range(CREATORS)]

        def wait() -> None:
            for future in creates:
                future.result()

        return wait

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


class OtherNode:
    """A node of simulated bridges on another machine. Close it: it is a process."""

    def __init__(self, plane: ControlPlane) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_run, args=(plane, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def serve(self, namespace: str, names: Sequence[str]) -> list[SimulatedBridge]:
        """Create instances, once, and play their pods and bridges; none of those can be reached from here."""
        self._pipe.send(("serve", namespace, list(names)))
        self._pipe.recv()
        return []

    def set(self, mode: Mode | None = None, flooding: bool | None = None) -> None:
        """Say what the first bridge is to do."""
        self._pipe.send(("set", mode, flooding))
        self._pipe.recv()

    def close(self) -> None:
        """End the bridges."""
        self._pipe.close()
        self._process.join()


def _run(plane: ControlPlane, pipe: Connection) -> None:
    stand_aside()
    with closing(Kube(plane)) as kube, SimulatedNode(kube) as node, suppress(EOFError):
        _, namespace, names = pipe.recv()
        first = node.serve(namespace, names)[0]
        pipe.send(None)
        while True:
            _, mode, flooding = pipe.recv()
            node.do(functools.partial(first.set, mode, flooding))
            pipe.send(None)
