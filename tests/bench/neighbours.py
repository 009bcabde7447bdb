"""`python -m tests.bench.neighbours`: one tenant's requests, one a second, while another does its worst.

No cluster: a real API server and controller, simulated bridges. Each figure is measured beside the idle system of the
same run: the seconds from the create to the sight of the end, p50 and p95, and p95 as a multiple of that when idle.
"""

from __future__ import annotations

import multiprocessing
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import httpx

from efrit.kube.resources import REQUESTS
from tests.bench.quantile import quantile
from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import install_crds
from tests.support.kube import Kube
from tests.support.simulated_bridge import Mode
from tests.support.site import FINAL
from tests.support.tenants import Tenants

SECONDS = int(os.environ.get("SECONDS", "20"))
BURST = int(os.environ.get("BURST", "3000"))
INSTANCES = int(os.environ.get("INSTANCES", "40"))
RESYNC_SECONDS = 30
CREATORS = 2
SPEC = {"type": "eval", "content": "(+ 1 2)", "instanceRef": {"name": "one"}, "timeoutSeconds": 600}
TIMEOUT_SECONDS = 120.0


class Trickle:
    """The quiet tenant's requests."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._number = 0

    def measure(self, count: int = SECONDS) -> list[float]:
        """Send one request a second; seconds until the end of each is seen by a watch."""
        quiet, kube = self._tenants.quiet, self._tenants.kube
        created: dict[str, float] = {}
        seen: dict[str, float] = {}
        watching = threading.Event()
        over = threading.Event()

        def follow() -> None:
            # It is cut off with the API server.
            with (
                suppress(httpx.TransportError),
                kube.watch("efritrequests", quiet.namespace, seconds=SECONDS + round(TIMEOUT_SECONDS)) as events,
            ):
                watching.set()
                for event in events:
                    name, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
                    if status.get("phase") in FINAL:
                        seen.setdefault(name, time.perf_counter())
                    if over.is_set():
                        return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        watching.wait()
        for _ in range(count):
            began = time.perf_counter()
            self._number += 1
            name = f"t{self._number}"
            created[name] = began
            quiet.ask(name)
            time.sleep(max(0.0, began + 1 - time.perf_counter()))
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        while not created.keys() <= seen.keys() and time.perf_counter() < deadline:
            time.sleep(0.05)
        over.set()
        return [seen.get(name, float("inf")) - began for name, began in created.items()]


def create(url: str, tls: tuple[str, str, str], path: str, names: list[str]) -> None:
    """Create requests, one after the other: in a process of its own, as what measures must not wait for it."""
    verify = ssl.create_default_context(cafile=tls[0])
    verify.load_cert_chain(tls[1], tls[2])
    with httpx.Client(base_url=url, verify=verify, timeout=60, trust_env=False) as client:
        for name in names:
            client.post(path, json=REQUESTS.manifest({"name": name}, spec=SPEC)).raise_for_status()


class Creators:
    """Processes that create requests of the loud tenant: they are there before anything is measured."""

    def __init__(self, tenants: Tenants) -> None:
        plane = tenants.site.plane
        pki = plane.authority
        tls = (str(pki.ca), str(pki.certificate("admin")), str(pki.key("admin")))
        self._pool = ProcessPoolExecutor(CREATORS, mp_context=multiprocessing.get_context("spawn"))
        self._where = (plane.url, tls, REQUESTS.path(tenants.loud.namespace))
        self.begin("warm", CREATORS)()

    def begin(self, prefix: str, count: int) -> Callable[[], None]:
        """Begin to create requests; return what waits for the last create."""
        names = [f"{prefix}{number}" for number in range(count)]
        creates = [self._pool.submit(create, *self._where, names[first::CREATORS]) for first in range(CREATORS)]

        def wait() -> None:
            for each in creates:
                each.result()

        return wait

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


def _settle(tenants: Tenants) -> None:
    """Wait until the loud tenant's requests have ended."""
    deadline = time.perf_counter() + 10 * TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        found = tenants.kube.list("efritrequests", tenants.loud.namespace)
        if all(each.get("status", {}).get("phase") in FINAL for each in found):
            return
        time.sleep(1)


def _measure(tenants: Tenants) -> list[tuple[str, list[float]]]:
    loud, node, trickle, creators = tenants.loud.bridge, tenants.node, Trickle(tenants), Creators(tenants)
    trickle.measure(5)
    rows = [("idle", trickle.measure())]

    wait = creators.begin("b", BURST)
    rows.append((f"a burst of {BURST}", trickle.measure()))
    wait()
    _settle(tenants)

    node.do(lambda: loud.set(flooding=True))
    rows.append(("a flood of events", trickle.measure()))
    node.do(lambda: loud.set(flooding=False))

    for mode, prefix, title in ((Mode.HANGS, "h", "a disk that hangs"), (Mode.FULL, "f", "a disk without space")):
        node.do(lambda mode=mode: loud.set(mode))  # type: ignore[misc]
        wait = creators.begin(prefix, 130)
        rows.append((f"{title}, 130 requests", trickle.measure()))
        node.do(lambda: loud.set(Mode.ANSWERS))
        wait()
        _settle(tenants)
    creators.close()
    rows.append(("idle again", trickle.measure()))
    return rows


def _print(rows: list[tuple[str, list[float]]]) -> None:
    idle = quantile(rows[0][1], 0.95)
    print(f"{'while the other tenant has':<34} {'p50':>9} {'p95':>9} {'of idle':>8}")
    for title, values in rows:
        p50, p95 = quantile(values, 0.5), quantile(values, 0.95)
        print(f"{title:<34} {p50 * 1000:>6.0f} ms {p95 * 1000:>6.0f} ms {p95 / idle:>7.1f}x", flush=True)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        log = Path(folder) / "audit.log"
        with Tenants(plane, kube, log, Path(folder)) as tenants:
            _print(_measure(tenants))
        names = ["one", *(f"i{number}" for number in range(1, INSTANCES))]
        rows = []
        for title, every, before in (
            ("idle", "86400", 0),
            (f"{INSTANCES} instances applied again", str(RESYNC_SECONDS), RESYNC_SECONDS),
        ):
            env = {"EFRIT_RESYNC_SECONDS": every, "EFRIT_SWEEP_SECONDS": "10"}
            with Tenants(plane, kube, log, Path(folder), instances=names, env=env) as tenants:
                time.sleep(before)
                trickle = Trickle(tenants)
                trickle.measure(5)
                rows.append((title, trickle.measure()))
        _print(rows)


if __name__ == "__main__":
    main()
