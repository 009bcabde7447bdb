"""`python -m tests.bench.api_server [VARIANT …]`: what the API server takes for a request, by what we make it do.

No cluster. A create and one final status, as the controller writes it, COUNT (40) times in each of TURNS (12) turns,
by a client that does nothing else. Variants: as it is; without rules (CEL); with the rules of another clone
(BEFORE=PATH); without managedFields; a PUT; with watches; with a result of 8 KiB; at last with the chart's policies.
Prints KB that the API server allocates for each (the median of the turns, to which other work of the machine does not
matter), and milliseconds of a processor, API server and etcd together: the median, and the median and the middle half
of what that is beside "as it is" in the same turn.
"""

from __future__ import annotations

import asyncio
import copy
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from efrit.api_group import GROUP
from efrit.kube.client import KubeClient
from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.resources import REQUESTS, Resource
from tests.bench import cluster, processors
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.support import chart, yaml_documents
from tests.support.command_line import parser
from tests.support.custom_resources import DEFINITIONS, install_crds, new_namespace
from tests.support.kube import Kube, until

COUNT = int(os.environ.get("COUNT", "40"))
TURNS = int(os.environ.get("TURNS", "12"))
BEFORE = os.environ.get("BEFORE")
AT_ONCE = 8
DEFINITION = f"charts/efrit-operator/crd-files/{GROUP}_{REQUESTS.plural}.yaml"
TIME = "2026-01-01T00:00:00.000000Z"
CONDITION = {"status": "True", "reason": "Succeeded", "message": "The work is done.", "observedGeneration": 1}
STATUS: Mapping[str, Any] = {
    "phase": "Succeeded",
    "reason": "Succeeded",
    "outcome": "Success",
    "result": "3",
    "instanceName": "one",
    "podUID": "00000000-0000-0000-0000-000000000000",
    "queueID": "00000000000000000000000000000000",
    "attempt": 1,
    "executionSeconds": 0.001,
    **dict.fromkeys(("queuedTime", "startTime", "completionTime"), TIME),
    "conditions": [
        {"type": kind, "lastTransitionTime": "2026-01-01T00:00:00Z", **CONDITION}
        for kind in ("Complete", "Succeeded")
    ],
}


class Variant(NamedTuple):
    """What is different. group: whose definition; fields: whether managedFields are kept."""

    group: str = GROUP
    fields: bool = True
    watches: int = 0
    result: str = "3"
    put: bool = False
    """Whether the status is put, not merged: the API server need not make JSON of what there is."""


USUAL, POLICIES = "as it is", "with the policies of the chart"
VARIANTS = {
    USUAL: Variant(),
    "without rules": Variant("without-rules.dev"),
    "without managedFields": Variant(fields=False),
    "a PUT of the status": Variant(put=True),
    "one watch": Variant(watches=1),
    "four watches": Variant(watches=4),
    "a result of 8 KiB": Variant(result="x" * 8192),
}


def definition(group: str, source: Path, *, rules: bool) -> dict[str, Any]:
    """Return the definition of a request under another group, perhaps without its rules."""
    text = (source / DEFINITION).read_text()
    made: dict[str, Any] = copy.deepcopy(yaml_documents.load(text))
    made["metadata"]["name"] = f"efritrequests.{group}"
    made["spec"]["group"] = group
    # Names of kubectl, which are one set for all groups.
    for name in ("shortNames", "categories"):
        made["spec"]["names"].pop(name, None)
    return made if rules else _without_rules(made)


def _without_rules(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [_without_rules(item) for item in node] if isinstance(node, list) else node


class Taken(NamedTuple):
    """Of each request: milliseconds of a processor, and KB that the API server has allocated."""

    processor: float
    allocated: float


def requests_of(group: str) -> Resource:
    """Return the requests of a group that has them as ours does."""
    return REQUESTS._replace(api_version=f"{group}/{REQUESTS.version}")


class Bench:
    """One API server and a namespace."""

    def __init__(self, plane: ControlPlane, kube: Kube, api: KubeClient) -> None:
        self._api = api
        self._namespace = new_namespace(kube)
        self._leaders = {"API server": plane.apiserver.pid() or 0, "etcd": plane.etcd.pid() or 0}
        self._number = 0

    async def taken(self, variant: Variant) -> Taken:
        """Return what each of COUNT requests takes."""
        where = requests_of(variant.group).path(self._namespace)
        async with AsyncExitStack() as stack:
            for _ in range(variant.watches):
                await stack.enter_async_context(cluster.watching(self._api, where, lambda _: False))
            await asyncio.sleep(0.5)
            # What telling it allocates is taken off.
            first, allocated = await self._allocated(), await self._allocated()
            before = processors.of_sessions(self._leaders)
            limit = asyncio.Semaphore(AT_ONCE)

            async def once(name: str) -> None:
                async with limit:
                    await self._write(where, name, variant)

            self._number += COUNT
            await asyncio.gather(*(once(f"r{self._number - number}") for number in range(COUNT)))
            await asyncio.sleep(0.5)
            processor = sum(processors.between(before, processors.of_sessions(self._leaders), COUNT).values())
            more = await self._allocated() - allocated - (allocated - first)
            return Taken(processor, more / COUNT / 1000)

    async def _allocated(self) -> float:
        metrics = await cluster.text(self._api, "/metrics")
        line = next(line for line in metrics.splitlines() if line.startswith("go_memstats_alloc_bytes_total "))
        return float(line.split()[1])

    async def _write(self, where: str, name: str, variant: Variant) -> None:
        reset: dict[str, Any] = {} if variant.fields else {"managedFields": [{}]}
        body = {
            **cluster.request(name, "one", timeoutSeconds=3600),
            "apiVersion": requests_of(variant.group).api_version,
            "metadata": {"name": name, **reset},
        }
        made = (await cluster.call(self._api, "POST", where, body))["metadata"]
        meta = {"uid": made["uid"], "resourceVersion": made["resourceVersion"], **reset}
        change: dict[str, Any] = {"metadata": meta, "status": {**STATUS, "result": variant.result}}
        method, kind = ("PUT", JSON) if variant.put else ("PATCH", MERGE_PATCH)
        if variant.put:
            change = {**body, "metadata": {"name": name, **meta}, "status": change["status"]}
        path = f"{where}/{name}/status?fieldManager=efrit-operator"
        await self._api.call(method, path, body=change, content_type=kind)


async def measure(chosen: Sequence[str], say: Callable[[str], None]) -> dict[str, list[Taken]]:
    """Return what each variant took in each turn."""
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        variants = {title: variant for title, variant in VARIANTS.items() if title in (USUAL, *(chosen or VARIANTS))}
        made = [definition("without-rules.dev", REPOSITORY, rules=False)]
        if BEFORE:
            made.append(definition("before.dev", Path(BEFORE), rules=True))
            variants["the rules of before"] = Variant("before.dev")
        for one in made:
            kube.call("POST", DEFINITIONS, one)
            listed = requests_of(one["spec"]["group"]).path()
            until(lambda listed=listed: plane.request(listed), f"{listed} is not served")  # type: ignore[misc]
        async with cluster.client(plane.kubeconfig) as api:
            bench = Bench(plane, kube, api)
            taken: dict[str, list[Taken]] = {title: [] for title in variants}
            for variant in variants.values():
                await bench.taken(variant)
            for turn in range(TURNS):
                first = turn % len(variants)
                for title in [*variants, *variants][first : first + len(variants)]:
                    taken[title].append(await bench.taken(variants[title]))
                say(f"turn {turn + 1} of {TURNS}, load {os.getloadavg()[0]:.1f}")
            if not chosen or POLICIES in chosen:
                chart.install_policies(kube, "efrit-system")
                taken[POLICIES] = [await bench.taken(VARIANTS[USUAL]) for _ in range(TURNS)]
        return taken


def main(chosen: Sequence[str]) -> int:
    """Measure and print."""
    taken = asyncio.run(measure(chosen, lambda line: print(line, file=sys.stderr, flush=True)))
    base = [each.processor for each in taken[USUAL]]
    print(f"a create and a final status, {TURNS} turns of {COUNT}: KB allocated; ms of a processor; beside {USUAL!r}")
    for title, values in taken.items():
        spent = [each.processor for each in values]
        differences = [value - usual for value, usual in zip(spent, base, strict=True)]
        low, middle, high = statistics.quantiles(differences, n=4)
        allocated = statistics.median(each.allocated for each in values)
        print(
            f"  {title:<32} {allocated:6.0f}  {statistics.median(spent):6.2f}  "
            f"{middle:+6.2f} ({low:+.2f} to {high:+.2f})"
        )
    return 0


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("variant", nargs="*", help=f"of {', '.join((*VARIANTS, POLICIES))}; all of them without")
    sys.exit(main(arguments.parse_args().variant))
