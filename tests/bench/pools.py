"""`python -m tests.bench.pools`: what a pool adds to a request, and how it shares its members. Simulated bridges.

No cluster: a real API server and controller. In one run, beside each other: requests that name an instance and
requests of a pool, one after the other in turns, with queues on storage and ephemeral ones, and in bursts; a flow of
REQUESTS beside one request a second of another flow; flows that are equal; a pool that goes from 0 to MEMBERS and
back; CLAIMS exclusive claims, RATE a second, what the controller writes for each, and what the refill takes. Of the
flow and the claims the floor as well (floor.py): the same creates and as many writes without the controller, which is
stopped for that, and what of a processor each of both took.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from efrit.errors import ApiError
from tests.bench.floor import Floor, Writes
from tests.bench.other_machines import Creators
from tests.bench.quantile import quantile
from tests.cluster.control_plane import ControlPlane
from tests.support.bench.flow_history import jain
from tests.support.command_line import parser
from tests.support.custom_resources import install_crds
from tests.support.fixtures import AUDIT_POLICY, audited
from tests.support.kube import Json, Kube, until
from tests.support.simulated_bridge import SimulatedBridge
from tests.support.site import EPHEMERAL, FINAL
from tests.support.tenants import Tenants

REQUESTS = int(os.environ.get("REQUESTS", "2000"))
PAIRS = int(os.environ.get("PAIRS", "100"))
SECONDS = int(os.environ.get("SECONDS", "20"))
BURST = int(os.environ.get("BURST", "300"))
CLAIMS = int(os.environ.get("CLAIMS", "135"))
RATE = float(os.environ.get("RATE", "45"))
MEMBERS = 5
FLOWS = 4
OF_EACH_FLOW = 100
TIMEOUT_SECONDS = 900.0
CREATORS = 4
PIECES = ("pairs", "bursts", "flow", "equal", "zero", "claims")
"""What may be measured, in this order; the floor of the flow and of the claims with them."""


class Watch:
    """When each request of a namespace was created, and its end seen; or each claim, and its member."""

    def __init__(
        self, plane: ControlPlane, namespace: str, plural: str = "efritrequests", ends: Container[str] = FINAL
    ) -> None:
        self._plural, self._ends = plural, ends
        self.created: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self._plane, self._namespace = plane, namespace
        self._watching = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()
        self._watching.wait()

    def _follow(self) -> None:
        # It is cut off with the API server.
        with suppress(ApiError), closing(Kube(self._plane)) as kube:
            seconds = round(4 * TIMEOUT_SECONDS)
            with kube.watch(self._plural, self._namespace, seconds=seconds) as events:
                self._watching.set()
                for event in events:
                    name, status = event["object"]["metadata"]["name"], event["object"].get("status", {})
                    if status.get("phase") in self._ends:
                        self.ended.setdefault(name, time.perf_counter())

    def until_ended(self, names: Iterable[str]) -> list[str]:
        """Wait until the end of each of these was seen, and return their names."""
        names = list(names)
        until(lambda: all(name in self.ended for name in names) or None, "requests are open", TIMEOUT_SECONDS)
        return names

    def seconds(self, names: Iterable[str]) -> list[float]:
        """Return the seconds from the create of each request to the sight of its end, once all have ended."""
        names = self.until_ended(names)
        return [self.ended[name] - self.created[name] for name in names]


class Crew:
    """The pool `crew` in the namespace of the quiet tenant, whose members' pods are played as they appear."""

    def __init__(self, tenants: Tenants, plane: ControlPlane) -> None:
        self.tenants, self.kube, self.namespace = tenants, tenants.kube, tenants.quiet.namespace
        self.watch = Watch(plane, self.namespace)
        self.bridges: dict[str, SimulatedBridge] = {}
        self._over = threading.Event()
        self._plane = plane
        threading.Thread(target=self._play, daemon=True).start()

    def _play(self) -> None:
        # Not lists: those of 135 members, five a second, take the API server a fifth of a processor. It is cut off
        # with the API server.
        seconds = round(4 * TIMEOUT_SECONDS)
        with suppress(ApiError), closing(Kube(self._plane)) as kube:
            with kube.watch("statefulsets", self.namespace, seconds=seconds) as events:
                for event in events:
                    if self._over.is_set():
                        return
                    name = event["object"]["metadata"]["name"].removeprefix("efrit-")
                    if event["type"] == "ADDED" and name not in ("one", *self.bridges):
                        self.bridges[name] = self.tenants.node.play(self.namespace, name)

    def close(self) -> None:
        """Play no more pods."""
        self._over.set()

    def apply(self, **spec: Any) -> None:
        """Create the pool, or change it."""
        manifest = {"metadata": {"name": "crew"}, "spec": spec}
        if self.kube.find("efritpools", self.namespace, "crew") is None:
            self.kube.create("efritpools", self.namespace, manifest)
        else:
            self.kube.patch("efritpools", self.namespace, "crew", {"spec": spec})

    def status(self) -> Json:
        """Return the pool's status."""
        status: Json = self.kube.get("efritpools", self.namespace, "crew").get("status", {})
        return status

    def until(self, **expected: Any) -> None:
        """Wait for a status of the pool."""
        until(lambda: expected.items() <= self.status().items() or None, f"not {expected}", TIMEOUT_SECONDS)

    def ask(self, name: str, target: Json, kube: Kube | None = None, **labels: str) -> str:
        """Create an eval and return its name."""
        spec = {"type": "eval", "content": "(+ 1 2)", "timeoutSeconds": 600, **target}
        self.watch.created[name] = time.perf_counter()
        manifest = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        (kube or self.kube).create("efritrequests", self.namespace, manifest)
        return name

    def burst(self, names: list[str], target: Json, flow: Callable[[int], str] = lambda _: "") -> None:
        """Create requests side by side."""

        def create(first: int) -> None:
            with closing(Kube(self._plane)) as kube:
                for number in range(first, len(names), CREATORS):
                    self.ask(names[number], target, kube, **({"flow": flow(number)} if flow(number) else {}))

        with ThreadPoolExecutor(CREATORS) as creators:
            list(creators.map(create, range(CREATORS)))


class Shares:
    """What of a processor the API server with its store, the controller and the bench with its bridges take."""

    def __init__(self, controller: psutil.Process) -> None:
        self._controller = controller

    @contextmanager
    def printed(self, what: str, count: int = 0) -> Iterator[None]:
        """Print what each took while this block ran, in processors, and in ms of one for each of `count`."""
        before, began = self._seconds(), time.perf_counter()
        yield
        took, seconds = time.perf_counter() - began, self._seconds()
        used = {name: seconds[name] - before[name] for name in seconds}
        shares = ", ".join(f"{name} {value / took:.2f}" for name, value in used.items())
        each = ", ".join(f"{name} {value / count * 1000:.1f}" for name, value in used.items()) if count else ""
        print(f"  processors, {what}: {shares}" + (f"; ms for each of {count}: {each}" if each else ""), flush=True)

    def _seconds(self) -> dict[str, float]:
        seconds = {"API server and etcd": 0.0, "controller": 0.0, "bench": _processor(psutil.Process())}
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                name = process.name()
                is_api = name.startswith(("kube-apiserver", "etcd"))
                kind = "API server and etcd" if is_api else "bench"
                seconds["controller" if process.pid == self._controller.pid else kind] += _processor(process)
        return seconds


POOL: Json = {"poolRef": {"name": "crew"}}
INSTANCE: Json = {"instanceRef": {"name": "one"}}


def milliseconds(values: list[float]) -> str:
    """Return p50 and p95 of seconds, as text."""
    return f"p50 {quantile(values, 0.5) * 1000:6.1f} ms, p95 {quantile(values, 0.95) * 1000:6.1f} ms"


def _pairs(crew: Crew, log: Path) -> None:
    pairs = {"": {"instance": INSTANCE, "pool": POOL}, ", ephemeral queue": _ephemeral(crew)}
    for queue, targets in pairs.items():
        seconds: dict[str, list[float]] = {kind: [] for kind in targets}
        before = len(log.read_text().splitlines())
        for number in range(PAIRS):
            for kind, target in targets.items():
                name = f"{kind}-{number}{'-ephemeral' if queue else ''}"
                seconds[kind] += crew.watch.seconds([crew.ask(name, target)])
        for kind, values in seconds.items():
            own = {("efritrequests", f"{kind}-{number}{'-ephemeral' if queue else ''}") for number in range(PAIRS)}
            writes = _writes(log, before, own, PAIRS)
            print(f"one after the other, of the {kind + queue:<25} {milliseconds(values)}, {writes}", flush=True)
        more = [pool - instance for pool, instance in zip(seconds["pool"], seconds["instance"], strict=True)]
        parts = ", ".join(f"{1000 * quantile(more, share):.1f}" for share in (0.25, 0.5, 0.75))
        print(f"  the pool above the instance, of each pair: quartiles {parts} ms", flush=True)


def _ephemeral(crew: Crew) -> dict[str, Json]:
    """Create an instance and a pool of one whose queues go with their pods, and return them as targets."""
    pool = {"metadata": {"name": "brief"}, "spec": {"replicas": 1, "template": {"spec": EPHEMERAL}}}
    crew.kube.create("efritinstances", crew.namespace, {"metadata": {"name": "short"}, "spec": EPHEMERAL})
    crew.kube.create("efritpools", crew.namespace, pool)
    crew.tenants.until_ready(crew.tenants.quiet, "short", status="True")

    def ready() -> bool | None:
        return crew.kube.get("efritpools", crew.namespace, "brief").get("status", {}).get("ready") == 1 or None

    until(ready, "the pool brief has no member", TIMEOUT_SECONDS)
    return {"instance": {"instanceRef": {"name": "short"}}, "pool": {"poolRef": {"name": "brief"}}}


def _bursts(crew: Crew, controller: psutil.Process) -> None:
    for attempt in range(2):
        for kind, target in (("instance", INSTANCE), ("pool", POOL)):
            names = [f"burst-{kind}-{attempt}-{number}" for number in range(BURST)]
            before, began = _processor(controller), time.perf_counter()
            crew.burst(names, target)
            crew.watch.seconds(names)
            took = (_processor(controller) - before) / BURST * 1000
            rate = BURST / (time.perf_counter() - began)
            print(
                f"a burst of {BURST} to the {kind:<9} {rate:5.0f}/s, {took:4.1f} ms of the controller each",
                flush=True,
            )


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _trickle(crew: Crew, prefix: str) -> list[float]:
    names = []
    for number in range(SECONDS):
        began = time.perf_counter()
        names.append(crew.ask(f"{prefix}-{number}", POOL, flow="quiet"))
        time.sleep(max(0.0, began + 1 - time.perf_counter()))
    return crew.watch.seconds(names)


def _beside_a_flow(crew: Crew, creators: Creators, shares: Shares, prefix: str = "") -> None:
    alone = _trickle(crew, f"{prefix}alone")
    print(f"{prefix}one request a second, alone           {milliseconds(alone)}", flush=True)
    wait = creators.begin(f"{prefix}loud-", REQUESTS)
    with shares.printed(f"{prefix}beside the flow"):
        beside = _trickle(crew, f"{prefix}beside")
    ratio = quantile(beside, 0.95) / quantile(alone, 0.95)
    print(f"{prefix}the same beside a flow of {REQUESTS:<11} {milliseconds(beside)}, {ratio:.1f} times", flush=True)
    wait()
    crew.watch.until_ended(f"{prefix}loud-{number}" for number in range(REQUESTS))


def _equal_flows(crew: Crew) -> None:
    crew.apply(replicas=0)
    crew.until(replicas=0, draining=0)
    names = [f"equal-{number}" for number in range(FLOWS * OF_EACH_FLOW)]
    # One flow after the other: whoever comes first must not be served first.
    crew.burst(names, POOL, lambda number: f"f{number // OF_EACH_FLOW}")
    crew.apply(replicas=MEMBERS)
    crew.watch.seconds(names)
    order = sorted(names, key=lambda name: crew.watch.ended[name])
    first = Counter(int(name.rpartition("-")[2]) // OF_EACH_FLOW for name in order[: len(order) // 2])
    print(f"{FLOWS} equal flows: Jain's index of the first half {jain(first[flow] for flow in range(FLOWS)):.3f}")


def _from_zero(crew: Crew) -> None:
    crew.apply(
        replicas=None,
        autoscaling={"maxReplicas": MEMBERS, "scaleDown": {"stabilizationSeconds": 2}, "targetLoadPerInstance": 2},
    )
    crew.until(desiredReplicas=0, replicas=0, draining=0)
    names = [f"zero-{number}" for number in range(REQUESTS)]
    began = time.perf_counter()
    crew.burst(names, POOL)
    crew.watch.seconds(names)
    took = time.perf_counter() - began
    crew.until(desiredReplicas=0, replicas=0, draining=0)
    requests = crew.kube.list("efritrequests", crew.namespace)
    phases = Counter(item["status"]["phase"] for item in requests if item["metadata"]["name"].startswith("zero-"))
    handed_over = Counter(uid for bridge in crew.bridges.values() for uid in bridge.handed_over)
    print(
        f"{REQUESTS} requests to a pool at 0, {MEMBERS} members at most: {took:.0f} s, {dict(phases)}, then 0 again"
    )
    again = sum(handed_over.values()) - len(handed_over)
    print(f"{len(handed_over)} requests were handed over to members, {again} of them once more")


def _claims(crew: Crew, plane: ControlPlane, log: Path, shares: Shares) -> None:
    crew.apply(replicas=CLAIMS, autoscaling=None)
    crew.until(ready=CLAIMS, idle=CLAIMS)
    before = len(log.read_text().splitlines())
    with shares.printed("claims", CLAIMS):
        _claim_all(crew, plane, "claim")
    with shares.printed("refill after the claims", CLAIMS):
        crew.until(ready=CLAIMS, idle=CLAIMS)
    claims = crew.kube.list("efritclaims", crew.namespace)
    own = {("efritinstances", claim["status"]["instanceName"]) for claim in claims}
    own |= {("efritclaims", claim["metadata"]["name"]) for claim in claims}
    print(f"writes of the controller for each: {_writes(log, before, own, CLAIMS)}")


def _writes(log: Path, before: int, own: Container[tuple[str, str]], count: int) -> dict[str, float]:
    """Return what service accounts have written of these objects, for each of `count`, after a line of the log."""
    writes: Counter[str] = Counter()
    for event in map(json.loads, log.read_text().splitlines()[before:]):
        of = event.get("objectRef", {})
        is_own = (of.get("resource"), of.get("name")) in own
        if is_own and event["user"]["username"].startswith("system:serviceaccount:"):
            kind = "/".join(filter(None, (of["resource"], of.get("subresource"))))
            writes[f"{event['verb']} {kind}"] += 1
    return {kind: round(number / count, 2) for kind, number in writes.items()}


def _claim_all(crew: Crew, plane: ControlPlane, prefix: str) -> None:
    watch, began = Watch(plane, crew.namespace, "efritclaims", ("Bound",)), time.perf_counter()
    names = [f"{prefix}-{number}" for number in range(CLAIMS)]

    def create(first: int) -> None:
        with closing(Kube(plane)) as kube:
            for number in range(first, CLAIMS, CREATORS):
                time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
                watch.created[names[number]] = time.perf_counter()
                manifest = {"metadata": {"name": names[number]}, "spec": POOL}
                kube.create("efritclaims", crew.namespace, manifest)

    with ThreadPoolExecutor(CREATORS) as creators:
        list(creators.map(create, range(CREATORS)))
    values = watch.seconds(names)
    rate = CLAIMS / (max(watch.created.values()) - min(watch.created.values()))
    # The first are given what is there; beside the last ones others may be started.
    first = 3 * CLAIMS // 4
    parts = {f"{CLAIMS} of {prefix} at {rate:.0f}/s": values, f"  the first {first}": values[:first]}
    for part, seconds in {**parts, f"  the last {CLAIMS - first}": values[first:]}.items():
        print(f"{part}: {milliseconds(seconds)}, p99 {quantile(seconds, 0.99) * 1000:.1f} ms", flush=True)


def _free_members(crew: Crew) -> list[Json] | None:
    """Return the members that the pool owns, None while fewer than the claims are Ready."""
    members = [
        member
        for member in crew.kube.list("efritinstances", crew.namespace)
        if member["metadata"].get("ownerReferences", [{}])[0].get("name") == "crew"
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in member.get("status", {}).get("conditions", ())
        )
    ]
    return members if len(members) >= CLAIMS else None


def _floors(
    crew: Crew, plane: ControlPlane, creators: Creators, shares: Shares, pieces: Container[str] = PIECES
) -> None:
    """Stop the controller, and have the same created and written without it."""
    members: list[Json] = []
    if "claims" in pieces:
        until(lambda: _free_members(crew), "the members were not replaced", TIMEOUT_SECONDS)
    crew.tenants.operator.kill()
    kubeconfig, kube = crew.tenants.operator.kubeconfig, crew.kube
    if "claims" in pieces:
        members = _free_members(crew) or members
        status = kube.get("efritclaims", crew.namespace, "claim-0")["status"]
        writes = Writes(kubeconfig, crew.namespace, [status], members)
        with closing(Floor(writes)), shares.printed("floor of claims", CLAIMS):
            _claim_all(crew, plane, "floor")
    if "flow" in pieces:
        final = kube.get("efritrequests", crew.namespace, "alone-0")["status"]
        given = {"phase": "Pending", "reason": "Pending", "instanceName": final["instanceName"]}
        with closing(Floor(Writes(kubeconfig, crew.namespace, [given, final]))):
            _beside_a_flow(crew, creators, shares, "floor-")


def main(pieces: Sequence[str]) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "policy.json").write_text(json.dumps(AUDIT_POLICY))
        log = Path(folder) / "audit.log"
        with audited(log) as plane, closing(Kube(plane)) as kube:
            _measure(plane, kube, log, Path(folder), pieces)


def _measure(plane: ControlPlane, kube: Kube, log: Path, folder: Path, pieces: Sequence[str]) -> None:
    install_crds(kube)
    with Tenants(plane, kube, log, folder) as tenants:
        crew = Crew(tenants, plane)
        controller = psutil.Process(tenants.operator.process.pid)
        crew.apply(replicas=1, fairness={"flowLabel": "flow"})
        crew.until(ready=1)
        spec = {"type": "eval", "content": "(+ 1 2)", "timeoutSeconds": 600, **POOL}
        creators = Creators(plane, crew.namespace, spec, {"flow": "loud"})
        shares = Shares(controller)
        print(f"load of the machine {os.getloadavg()[0]:.0f}")
        measure: dict[str, Callable[[], None]] = {
            "pairs": lambda: _pairs(crew, log),
            "bursts": lambda: _bursts(crew, controller),
            "flow": lambda: _beside_a_flow(crew, creators, shares),
            "equal": lambda: _equal_flows(crew),
            "zero": lambda: _from_zero(crew),
            "claims": lambda: _claims(crew, plane, log, shares),
        }
        for piece in PIECES:
            if piece in pieces:
                measure[piece]()
        _floors(crew, plane, creators, shares, pieces)
        creators.close()
        crew.close()


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("pieces", nargs="*", default=PIECES, help=f"some of {', '.join(PIECES)} (all)")
    main(arguments.parse_args().pieces)
