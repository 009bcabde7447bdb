"""What the engine of plans adds between two steps, on the cluster: with a small tree, and with one of 2,000 tasks.

The time from the sight of a model's answer to the sight of the next request for the model: the decision, the commit
in git by way of an eval, and the decision after it. The model's and the tasks' own time is not in it.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from efrit.kube.client import KubeClient
from efrit.resources import PLANS, REQUESTS
from tests.bench import cluster
from tests.bench.quantile import quantile
from tests.plans.script import Player, Script

PLAN_TASKS = 30
LARGE = 2_000
LARGE_VISITS = 12
GROUPS, GROUP = 37, 53
"""Parents, and the tasks of each; the root and a task of its own beside them."""
LIMITS = {"maxRequestBytes": 1_048_576}
NEXT = {"act": "assess", "adapt": "act"}
PART = re.compile(r"-(\d+)-(act|assess|adapt)\Z")

Row = tuple[str, str, str]


def written(model: Player) -> None:
    """Give the model what it says about both plans."""
    small = Script(model, "bench-small")
    small.act(r"t\d+", {"plans/small/environment/part.txt": "Written.\n"})
    small.done(r"t\d+", "root")
    large = Script(model, "bench-large")
    groups = [
        {"type": "parent", "description": f"Write chapter {group}.", "tasks": _atomic(f"{group}.", GROUP)}
        for group in range(GROUPS)
    ]
    parts = {"operation": "insert", "parent": "root", "tasks": [*_atomic("preface ", 1), *groups]}
    large.assess("root", {"observations": []})
    large.adapt("root", {"verdict": "open", "reason": "It has many parts.", "operations": [parts]})
    large.act(r"\d+\.\d+", {"plans/large/environment/part.txt": "Written.\n"})
    large.done(r"\d+\.\d+")


def _atomic(name: str, count: int) -> list[dict[str, str]]:
    return [{"type": "atomic", "description": f"Write part {name}{number}."} for number in range(count)]


async def measure(api: KubeClient, namespace: str, instance: str) -> list[Row]:
    """Run both plans on an instance whose model has what is `written`."""
    tasks = [{"name": f"t{number}", "description": f"Write part {number}."} for number in range(PLAN_TASKS)]
    small, _ = await gaps(api, namespace, _plan("small", instance, tasks=tasks))
    limits = {"maxSteps": 1 + LARGE_VISITS}
    large, statuses = await gaps(api, namespace, _plan("large", instance, limits=limits))
    most = max(statuses, key=lambda status: status["counts"]["tasks"])
    if most["counts"]["tasks"] != LARGE:
        raise RuntimeError(f"the tree has {most['counts']['tasks']} tasks: {json.dumps(most['conditions'])}")
    size = max(len(json.dumps(status, ensure_ascii=False).encode()) for status in statuses)
    return [
        (f"a plan: answer seen -> next request, commit included, p50 (n={len(small)})", "<= 150 ms", _ms(small, 0.5)),
        ("the same, p95", "", _ms(small, 0.95)),
        (f"the same with a tree of {LARGE:,} tasks, p50 (n={len(large)})", "", _ms(large, 0.5)),
        (f"status of a plan of {LARGE:,} tasks, at most", "<= 64 KiB", f"{size / 1024:.1f} KiB"),
    ]


def _ms(values: list[float], share: float) -> str:
    return f"{quantile(values, share) * 1000:.0f} ms"


def _plan(name: str, instance: str, **spec: Any) -> dict[str, Any]:
    intent = {"description": f"A book. (scenario=bench-{name})"}
    return PLANS.manifest({"name": name}, spec={"intent": intent, "instanceRef": {"name": instance}, **spec})


async def gaps(api: KubeClient, namespace: str, plan: dict[str, Any]) -> tuple[list[float], list[dict[str, Any]]]:
    """Run a plan to its end: seconds of each step from one question to the next, and every status it had."""
    name = plan["metadata"]["name"]
    plans = PLANS.path(namespace)
    requests = REQUESTS.path(namespace)
    statuses: list[dict[str, Any]] = []

    def over(obj: Any) -> bool:
        if obj["metadata"]["name"] != name:
            return False
        status = obj.get("status", {})
        if status.get("counts"):
            statuses.append(status)
        return cluster.is_final(obj)

    async with (
        cluster.watching(api, requests, lambda _: True) as made,
        cluster.watching(api, requests, cluster.is_final) as answered,
        cluster.watching(api, plans, over) as watch,
    ):
        await asyncio.sleep(0.5)
        await cluster.call(api, "POST", plans, plan)
        await watch.wait_for({name}, 600)
    return list(_gaps(name, made.seen, answered.seen)), statuses


def _gaps(plan: str, made: dict[str, float], answered: dict[str, float]) -> list[float]:
    begun = {_moment(name): at for name, at in made.items() if name.startswith(f"{plan}-")}
    spans = []
    for name, at in answered.items():
        moment = _moment(name) if name.startswith(f"{plan}-") else None
        if moment is None or moment[1] not in NEXT:
            continue
        after = begun.get((moment[0] + 1, NEXT[moment[1]]))
        # After a parent, and at the end, there is no such request.
        if after is not None:
            spans.append(after - at)
    return spans


def _moment(name: str) -> tuple[int, str] | None:
    match = PART.search(name)
    return (int(match[1]), match[2]) if match else None
