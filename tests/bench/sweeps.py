"""`python -m tests.bench.sweeps`: what answers take while the controller lists what has finished. A simulated bridge.

A real API server, which keeps an audit log of lists, and a real controller beside FINISHED (14000) finished requests,
which sweeps once in SWEEP_SECONDS (2, a minute by default), so that each tenth sweep, which lists all that has
finished, comes while RATE (30) evals a second are sent for SECONDS (60); OPEN (0) open requests are there as well.
Prints what the pages of each list took, and the latency of the evals that were on their way during each sweep of what
has finished, and of all others.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from efrit.resources import REQUESTS
from tests.bench import cluster, processors
from tests.bench.crowded import HOLDING, Size, stored, until_rests, until_stored
from tests.bench.load import TIMEOUT_SECONDS, Target
from tests.bench.quantile import quantile
from tests.support.command_line import parser
from tests.support.crowd import objects
from tests.support.crowd.crowd import Crowd, crowd

FINISHED = int(os.environ.get("FINISHED", "14000"))
OPEN = int(os.environ.get("OPEN", "0"))
SWEEP_SECONDS = os.environ.get("SWEEP_SECONDS", "2")
RATE = float(os.environ.get("RATE", "30"))
SECONDS = float(os.environ.get("SECONDS", "60"))
GAP_SECONDS = 3.0
"""Between two sweeps of what has finished, at least: the pages of one are closer to each other."""
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}],
}


class Span(NamedTuple):
    """Seconds since the epoch."""

    began: float
    ended: float

    def overlaps(self, other: Span) -> bool:
        return self.began < other.ended and other.began < self.ended


class List(NamedTuple):
    """A page that the API server has served."""

    what: str
    span: Span


def lists(log: Path, namespace: str) -> list[List]:
    """Return the pages that service accounts of a namespace were given, by an audit log."""
    served = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if not event["user"]["username"].startswith(f"system:serviceaccount:{namespace}:"):
            continue
        selector = parse_qs(urlsplit(event["requestURI"]).query).get("fieldSelector", [""])[0]
        times = (event[name] for name in ("requestReceivedTimestamp", "stageTimestamp"))
        began, ended = (datetime.fromisoformat(time).timestamp() for time in times)
        served.append(List(f"{event['objectRef']['resource']} {selector}".strip(), Span(began, ended)))
    return sorted(served, key=lambda page: page.span)


def sweeps(pages: Iterable[Span]) -> list[Span]:
    """Return the spans of what belongs together: pages with short pauses between them."""
    joined: list[Span] = []
    for page in pages:
        if joined and page.began - joined[-1].ended < GAP_SECONDS:
            joined[-1] = Span(joined[-1].began, max(joined[-1].ended, page.ended))
        else:
            joined.append(page)
    return joined


async def evals(target: Target) -> list[Span]:
    """Send evals at the rate; from the create of each until its answer was seen."""
    created: dict[str, float] = {}

    async def create(number: int) -> None:
        created[f"sweeps-{number}"] = time.perf_counter()
        await target.create(f"sweeps-{number}", number)

    async with cluster.watching(target.api, target.where, cluster.is_final) as watch:
        since, began, tasks = time.time() - time.perf_counter(), time.perf_counter(), []
        for number in range(round(RATE * SECONDS)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            tasks.append(asyncio.create_task(create(number)))
        await asyncio.gather(*tasks)
        await watch.wait_for(set(created), TIMEOUT_SECONDS)
        return [Span(at + since, watch.seen[name] + since) for name, at in created.items()]


def _shown(name: str, spans: Sequence[Span]) -> str:
    seconds = [span.ended - span.began for span in spans] or [0.0]
    p50, p99, most = quantile(seconds, 0.5), quantile(seconds, 0.99), max(seconds)
    return f"{name:<52} {len(spans):6} {p50 * 1000:8.1f} {p99 * 1000:8.1f} {most * 1000:8.1f}"


def _report(sent: Sequence[Span], served: Sequence[List]) -> None:
    kinds: Mapping[str, list[Span]] = defaultdict(list)
    during = Span(sent[0].began, max(span.ended for span in sent))
    for page in served:
        if page.span.overlaps(during):
            kinds[page.what].append(page.span)
    print(f"{'ms':<52} {'count':>6} {'p50':>8} {'p99':>8} {'most':>8}")
    for what, spans in sorted(kinds.items()):
        print(_shown(f"pages of {what}", spans))
    final = sorted(span for what, spans in kinds.items() if _is_final(what) for span in spans)
    found = sweeps(final)
    for span in found:
        print(
            _shown(f"evals during a sweep of {span.ended - span.began:.2f} s", [x for x in sent if x.overlaps(span)])
        )
    print(_shown("evals during sweeps", [x for x in sent if any(x.overlaps(span) for span in found)]))
    print(_shown("evals at other times", [x for x in sent if not any(x.overlaps(span) for span in found)]))
    print(_shown("evals", sent))


def _is_final(what: str) -> bool:
    return what.startswith(REQUESTS.plural) and "status.phase=" in what and "!=" not in what


async def measured(made: Crowd, log: Path) -> None:
    """Measure and print."""
    holding = HOLDING if OPEN else []
    await made.add_instances(["answers0"], holds=False)
    await made.add_instances(holding, holds=True)
    objects.store(made.plane.ports.etcd, stored(Size(finished=FINISHED, open=OPEN), made.namespace))
    await until_stored(made, FINISHED + OPEN)
    async with cluster.client(made.plane.kubeconfig) as api:
        target = Target(api, made.namespace, ("answers0",))
        made.operator.configure(EFRIT_SWEEP_SECONDS=SWEEP_SECONDS)
        await made.launch()
        await made.until_connected(1 + len(holding))
        await until_rests(made)
        pids = {"API server": made.plane.apiserver.pid(), "controller": made.operator.process.pid}
        leaders = {name: pid for name, pid in pids.items() if pid}
        before = processors.of_sessions(leaders)
        sent = await evals(target)
        taken = processors.between(before, processors.of_sessions(leaders), len(sent))
        _report(sent, lists(log, made.namespace))
        print("ms of a processor for each eval:", ", ".join(f"{name} {ms:.2f}" for name, ms in taken.items()))


async def main() -> None:
    """Bring it up, measure and print."""
    print(f"{FINISHED} finished, {OPEN} open requests, {RATE:g} evals a second, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory:
        policy, log = Path(directory) / "policy.json", Path(directory) / "audit.log"
        policy.write_text(json.dumps(POLICY))
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
        async with crowd(Path(directory), flags) as made:
            await measured(made, log)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    asyncio.run(main())
