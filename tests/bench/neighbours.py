"""`python -m tests.bench.neighbours`: one tenant's requests, one a second, while another does its worst.

No cluster: a real API server and controller, simulated bridges. Each figure is measured beside the idle system of the
same run: the seconds from the create to the sight of the end, p50 and p95, and p95 as a multiple of that when idle.
What would be on other machines in a cluster, the burst's clients and the loud tenant's bridges, yields to all others
(other_machines.py); the quiet tenant's client and bridge do not.
The floor, measured at the same time, is what the API server alone takes for as much: a client that follows a watch
ends each request by a patch of its status as soon as it is seen, in a namespace that the controller does not serve.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from efrit.errors import ApiError
from tests.bench.other_machines import Creators, OtherNode
from tests.bench.quantile import quantile
from tests.cluster.control_plane import ControlPlane
from tests.support.command_line import parser
from tests.support.custom_resources import install_crds, new_namespace
from tests.support.kube import Kube
from tests.support.simulated_bridge import Mode
from tests.support.site import FINAL
from tests.support.tenants import Tenants

SECONDS = int(os.environ.get("SECONDS", "20"))
BURST = int(os.environ.get("BURST", "3000"))
INSTANCES = int(os.environ.get("INSTANCES", "40"))
RESYNC_SECONDS = 30
SPEC = {"type": "eval", "content": "(+ 1 2)", "instanceRef": {"name": "one"}, "timeoutSeconds": 600}
TIMEOUT_SECONDS = 120.0
ENDED = {"phase": "Succeeded", "reason": "Succeeded", "result": "3"}


class Trickle:
    """The quiet tenant's requests."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._number = 0

    def measure(self, count: int = SECONDS) -> list[float]:
        """Send one request a second; seconds until the end of each is seen by a watch."""
        quiet, kube = self._tenants.quiet, self._tenants.kube
        created: dict[str, float] = {}
        observed_at: dict[str, float] = {}
        watching = threading.Event()
        over = threading.Event()

        def follow() -> None:
            # It is cut off with the API server.
            with (
                suppress(ApiError),
                kube.watch("efritrequests", quiet.namespace, seconds=SECONDS + round(TIMEOUT_SECONDS)) as events,
            ):
                watching.set()
                for event in events:
                    name, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
                    if status.get("phase") in FINAL:
                        observed_at.setdefault(name, time.perf_counter())
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
        while not created.keys() <= observed_at.keys() and time.perf_counter() < deadline:
            time.sleep(0.05)
        over.set()
        return [observed_at.get(name, float("inf")) - began for name, began in created.items()]


class Floor:
    """Requests that no controller has a part in, half a second after those of the trickle."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        with closing(Kube(plane)) as kube:
            self._namespace = new_namespace(kube)
        self._number = 0

    def measure(self, count: int = SECONDS) -> list[float]:
        """Return the seconds until the end of each of `count` requests is seen, one a second."""
        created: dict[str, float] = {}
        observed_at: dict[str, float] = {}
        over = threading.Event()
        watching = threading.Barrier(3, timeout=TIMEOUT_SECONDS)

        def follow(ends: bool) -> None:
            with (
                suppress(ApiError),
                closing(Kube(self._plane)) as kube,
                kube.watch("efritrequests", self._namespace, seconds=count + round(TIMEOUT_SECONDS)) as events,
            ):
                watching.wait()
                for event in events:
                    meta, status = event["object"]["metadata"], event["object"].get("status", {})
                    if over.is_set():
                        return
                    if ends and "phase" not in status:
                        identity = {name: meta[name] for name in ("uid", "resourceVersion")}
                        body = {"metadata": identity, "status": ENDED}
                        kube.patch("efritrequests", self._namespace, meta["name"], body, "status")
                    elif "phase" in status:
                        observed_at.setdefault(meta["name"], time.perf_counter())

        for ends in (True, False):
            threading.Thread(target=follow, args=(ends,), daemon=True).start()
        watching.wait()
        time.sleep(0.5)
        with closing(Kube(self._plane)) as kube:
            for _ in range(count):
                began = time.perf_counter()
                self._number += 1
                name = f"f{self._number}"
                created[name] = began
                kube.create("efritrequests", self._namespace, {"metadata": {"name": name}, "spec": SPEC})
                time.sleep(max(0.0, began + 1 - time.perf_counter()))
            deadline = time.perf_counter() + TIMEOUT_SECONDS
            while not created.keys() <= observed_at.keys() and time.perf_counter() < deadline:
                time.sleep(0.05)
            over.set()
            # What ends the watches.
            kube.create("efritrequests", self._namespace, {"metadata": {"name": f"over{self._number}"}, "spec": SPEC})
        return [observed_at.get(name, float("inf")) - began for name, began in created.items()]


class Row(NamedTuple):
    """One measurement: what the other tenant does, the trickle's seconds and those of the floor."""

    title: str
    trickle: list[float]
    floor: list[float]


class Pair:
    """The trickle and its floor."""

    def __init__(self, tenants: Tenants) -> None:
        self._trickle = Trickle(tenants)
        self._floor = Floor(tenants.site.plane)
        self.row("warm", 5)

    def row(self, title: str, count: int = SECONDS) -> Row:
        """Measure both at the same time."""
        with ThreadPoolExecutor(1) as beside:
            floor = beside.submit(self._floor.measure, count)
            return Row(title, self._trickle.measure(count), floor.result())


def _settle(tenants: Tenants) -> None:
    """Wait until the loud tenant's requests have ended."""
    deadline = time.perf_counter() + 10 * TIMEOUT_SECONDS
    while time.perf_counter() < deadline:
        requests = tenants.kube.list("efritrequests", tenants.loud.namespace)
        if all(request.get("status", {}).get("phase") in FINAL for request in requests):
            return
        time.sleep(1)


class Processors:
    """What the controller and the API server took of the processors."""

    def __init__(self, tenants: Tenants) -> None:
        server = tenants.site.plane.apiserver.pid()
        assert server is not None
        self._processes = {"controller": tenants.operator.process.pid, "API server": server}
        self._began = self._seconds()

    def _seconds(self) -> dict[str, float]:
        times = {name: psutil.Process(pid).cpu_times() for name, pid in self._processes.items()}
        return {name: usage.user + usage.system for name, usage in times.items()}

    def of_each(self, count: int) -> str:
        """Return what each of `count` answers took since the beginning."""
        took = {name: seconds - self._began[name] for name, seconds in self._seconds().items()}
        return ", ".join(f"{seconds / count * 1000:.1f} ms of the {name}" for name, seconds in took.items())


def _refuse_instances(tenants: Tenants) -> None:
    """Create instances of the loud tenant for which its quota allows no StatefulSet."""
    tenants.loud.use_up_quota()
    for number in range(INSTANCES):
        manifest = {"metadata": {"name": f"more{number}"}, "spec": {}}
        tenants.kube.create("efritinstances", tenants.loud.namespace, manifest)


def _measure(tenants: Tenants, loud: OtherNode) -> list[Row]:
    creators = Creators(tenants.site.plane, tenants.loud.namespace, SPEC)
    pair = Pair(tenants)
    rows = [pair.row("idle")]

    processors = Processors(tenants)
    wait = creators.begin("b", BURST)
    began = time.perf_counter()
    rows.append(pair.row(f"a burst of {BURST}"))
    wait()
    created = time.perf_counter() - began
    _settle(tenants)
    took = time.perf_counter() - began
    print(f"the burst of {BURST}: created after {created:.0f} s, answered after {took:.0f} s")
    print(f"processor for each answer: {processors.of_each(BURST + SECONDS)}")

    loud.set(flooding=True)
    rows.append(pair.row("a flood of events"))
    loud.set(flooding=False)

    for mode, prefix, title in ((Mode.HANGS, "h", "a disk that hangs"), (Mode.FULL, "f", "a disk without space")):
        loud.set(mode)
        wait = creators.begin(prefix, 130)
        rows.append(pair.row(f"{title}, 130 requests"))
        loud.set(Mode.ANSWERS)
        wait()
        _settle(tenants)
    creators.close()

    _refuse_instances(tenants)
    rows.append(pair.row(f"a used-up quota, {INSTANCES} instances more"))
    tenants.loud.drop_quota()
    rows.append(pair.row("idle again"))
    return rows


def _print(rows: list[Row]) -> None:
    idle, floor = quantile(rows[0].trickle, 0.95), quantile(rows[0].floor, 0.95)
    print(f"load of the machine {os.getloadavg()[0]:.0f}, {len(rows[0].trickle)} requests each")
    print(f"{'while the other tenant has':<38} {'p50':>9} {'p95':>9} {'of idle':>8}   floor: p50, p95, of idle")
    for row in rows:
        cells = []
        for values, of in ((row.trickle, idle), (row.floor, floor)):
            p50, p95 = quantile(values, 0.5), quantile(values, 0.95)
            cells.append(f"{p50 * 1000:>6.0f} ms {p95 * 1000:>6.0f} ms {p95 / of:>7.1f}x")
        print(f"{row.title:<38} {'  '.join(cells)}", flush=True)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        log = Path(folder) / "audit.log"
        with closing(OtherNode(plane)) as loud, Tenants(plane, kube, log, Path(folder), loud_node=loud) as tenants:
            _print(_measure(tenants, loud))
        names = ["one", *(f"i{number}" for number in range(1, INSTANCES))]
        rows = []
        for title, every, before in (
            ("idle", "86400", 0),
            (f"{INSTANCES} instances applied again", str(RESYNC_SECONDS), RESYNC_SECONDS),
        ):
            env = {"EFRIT_RESYNC_SECONDS": every, "EFRIT_SWEEP_SECONDS": "10"}
            with (
                closing(OtherNode(plane)) as loud,
                Tenants(plane, kube, log, Path(folder), instances=names, env=env, loud_node=loud) as tenants,
            ):
                time.sleep(before)
                rows.append(Pair(tenants).row(title))
        _print(rows)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
