"""`python -m tests.bench.cluster_flows [quick] [long]`: how flows share the members of a pool on the bare cluster.

Real members, MEMBERS (5) of them, with evals that take no time (quick) and with evals that wait 0.2 s (long), where
the members and not the processors are the limit. With LOAD as placement.maxLoadPerInstance (2): one request a second
of one flow, alone and beside REQUESTS (2,000) of another, which wait when the members start; then FLOWS (4) equal
flows of EACH (150) requests, created one flow after the other before there is a member. Of the one request a second:
what it waited for, which is a place at a member, what runs there, or the processors (all beyond those and its own
work). Of equal flows: Jain's index over the time in which all of them have work, and the lowest of any ROUNDS (10)
turns in a row within it. As a watch sees it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from efrit.kube.client import KubeClient
from efrit.resources import POOLS, REQUESTS
from tests.bench import cluster, cluster_pools
from tests.bench.cluster_pools import NAMESPACE, POOL
from tests.bench.quantile import quantile
from tests.support.bench.flow_history import FlowHistory, Seen, Waits, jain_of, windows
from tests.support.command_line import parser

REQUEST_COUNT = int(os.environ.get("REQUESTS", "2000"))
MEMBERS = int(os.environ.get("MEMBERS", "5"))
LOAD = int(os.environ.get("LOAD", "2"))
SECONDS = int(os.environ.get("SECONDS", "40"))
FLOWS = int(os.environ.get("FLOWS", "4"))
EACH = int(os.environ.get("EACH", "150"))
ROUNDS = 10
CREATORS = 4
TIMEOUT_SECONDS = 600.0
EVALS = {"quick": "(+ 1 2)", "long": "(sleep-for 0.2)"}
"""Content by kind; what waits gives other programs the processors."""
LABEL = "flow"
"""The label by which the flows of the pool go."""


def _manifest(name: str, flow: str, content: str) -> Mapping[str, Any]:
    spec = {"poolRef": {"name": POOL}, "type": "eval", "content": content, "timeoutSeconds": 600}
    return REQUESTS.manifest({"name": name, "labels": {LABEL: flow}}, spec=spec)


class Run:
    """One kind of evals: what a watch sees of them."""

    def __init__(self, api: KubeClient, kind: str) -> None:
        self._api, self._kind, self._content = api, kind, EVALS[kind]
        self.history = FlowHistory(MEMBERS, LOAD)

    def _names(self, of: str, count: int) -> list[str]:
        return [f"{self._kind}-{of}-{number}" for number in range(count)]

    def note(self, obj: Mapping[str, Any]) -> bool:
        """Take in what the watch says, and return whether the request has ended."""
        now, meta, status = time.perf_counter(), obj["metadata"], obj.get("status", {})
        request = self.history.requests.setdefault(meta["name"], Seen(meta["labels"].get(LABEL, ""), now))
        if request.added is None:
            request.added = now
        if "instanceName" in status and request.bound is None:
            request.bound, request.member = now, status["instanceName"]
        if not cluster.is_final(obj):
            return False
        if request.ended is None:
            request.ended = now
            began, over = (datetime.fromisoformat(status[key]) for key in ("startTime", "completionTime"))
            request.work = float(status.get("executionSeconds", (over - began).total_seconds()))
        return True

    async def trickle(self, of: str) -> list[str]:
        """Create one request a second and return their names."""
        names = self._names(of, SECONDS)
        began = time.perf_counter()
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, began + number - time.perf_counter()))
            self.history.requests[name] = Seen("quiet", time.perf_counter())
            await cluster.call(self._api, "POST", REQUESTS.path(NAMESPACE), _manifest(name, "quiet", self._content))
        return names

    async def _create_all(self, names: Sequence[str]) -> None:
        """Have all of the flow wait before there is a member."""
        await _size(self._api, 0)

        async def create(first: int) -> None:
            for name in names[first::CREATORS]:
                self.history.requests[name] = Seen("loud", time.perf_counter())
                manifest = _manifest(name, "loud", self._content)
                await cluster.call(self._api, "POST", REQUESTS.path(NAMESPACE), manifest)

        await asyncio.gather(*map(create, range(CREATORS)))
        await _size(self._api, MEMBERS)

    async def beside_a_flow(self) -> None:
        """Measure one request a second alone, and beside a flow that was there before."""
        async with cluster.watching(self._api, REQUESTS.path(NAMESPACE), self.note) as watch:
            alone = await self.trickle("alone")
            await watch.wait_for(set(alone), TIMEOUT_SECONDS)
            loud = self._names("loud", REQUEST_COUNT)
            await self._create_all(loud)
            beside = await self.trickle("beside")
            await watch.wait_for({*beside, *loud}, TIMEOUT_SECONDS)
        # Where the flow is over before, what came afterwards was not beside it.
        over = max(self.history.requests[name].bound or 0.0 for name in loud)
        beside = [name for name in beside if self.history.requests[name].sent < over]
        found_busy = sum(self.history.found_all_taken(name) for name in beside)
        values = {
            title: [self.history.waits(name) for name in names]
            for title, names in (("alone", alone), (f"beside {REQUEST_COUNT}", beside))
        }
        for title, waits in values.items():
            print(f"{self._kind}, one request a second, {title}: {_text(waits)}", flush=True)
        ratio = _p95(values[f"beside {REQUEST_COUNT}"]) / _p95(values["alone"])
        took = over - min(self.history.requests[name].bound or over for name in loud)
        print(
            f"  p95 {ratio:.2f} times; {REQUEST_COUNT / took:.0f}/s of the flow; "
            f"{found_busy} of {len(beside)} found all places taken, load {os.getloadavg()[0]:.1f}"
        )

    async def equal_flows(self) -> None:
        """Measure flows of which each has as much to do."""
        await _size(self._api, 0)
        flows = [f"equal{number}" for number in range(FLOWS)]
        names = {flow: self._names(flow, EACH) for flow in flows}
        async with cluster.watching(self._api, REQUESTS.path(NAMESPACE), self.note) as watch:
            for flow in flows:
                for name in names[flow]:
                    self.history.requests[name] = Seen(flow, time.perf_counter())
                    manifest = _manifest(name, flow, self._content)
                    await cluster.call(self._api, "POST", REQUESTS.path(NAMESPACE), manifest)
            await _size(self._api, MEMBERS)
            await watch.wait_for({name for flow in flows for name in names[flow]}, TIMEOUT_SECONDS)
        ends = self.history.ends_while_all_wait(flows)
        lowest = min(jain_of(window, flows) for window in windows(ends, ROUNDS * FLOWS))
        print(
            f"{self._kind}, {FLOWS} equal flows of {EACH}: Jain's index {jain_of(ends, flows):.3f} of {len(ends)} "
            f"ends while all have work ({dict(Counter(ends))}), of {ROUNDS * FLOWS} in a row at least {lowest:.3f}",
            flush=True,
        )


def _p95(waits: Sequence[Waits]) -> float:
    return quantile([each.whole for each in waits], 0.95)


def _text(waits: Sequence[Waits]) -> str:
    whole = sum(each.whole for each in waits)
    shares = ", ".join(
        f"{name} {sum(getattr(each, name) for each in waits) / whole:.0%} "
        f"(p50 {quantile([getattr(each, name) for each in waits], 0.5) * 1000:.0f}, "
        f"p95 {quantile([getattr(each, name) for each in waits], 0.95) * 1000:.0f} ms)"
        for name in Waits._fields
    )
    p50 = quantile([each.whole for each in waits], 0.5)
    return f"p50 {p50 * 1000:.0f} ms, p95 {_p95(waits) * 1000:.0f} ms of {len(waits)}; {shares}"


async def _size(api: KubeClient, members: int) -> None:
    await cluster_pools.change(api, POOLS.path(NAMESPACE, POOL), {"replicas": members})
    await cluster_pools.until_status(api, replicas=members, ready=members, draining=0)


async def measure(kinds: Sequence[str]) -> None:
    """Measure and print."""
    async with cluster.client() as api, cluster_pools.pool_of(api):
        placement = {"placement": {"maxLoadPerInstance": LOAD}, "fairness": {"flowLabel": LABEL}}
        await cluster_pools.change(api, POOLS.path(NAMESPACE, POOL), placement)
        print(f"{MEMBERS} members with {LOAD} places each, load of the machine {os.getloadavg()[0]:.1f}", flush=True)
        for kind in kinds:
            run = Run(api, kind)
            await _size(api, MEMBERS)
            await run.beside_a_flow()
            await run.equal_flows()


def main(kinds: Sequence[str]) -> int:
    """Measure and print."""
    asyncio.run(measure(kinds or list(EVALS)))
    return 0


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("kind", nargs="*", choices=[*EVALS, []], help=f"of {', '.join(EVALS)}; both without")
    sys.exit(main(arguments.parse_args().kind))
