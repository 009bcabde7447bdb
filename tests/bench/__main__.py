"""`make bench`: what the whole path costs on this cluster, beside a pod per task.

Prints one table (figure, what was aimed for, what was seen) and writes build/bench.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from efrit.kube import resources
from tests.bench import cluster, evals, laptop, mcp, plans, turns
from tests.bench.quantile import quantile
from tests.support.cluster_kube import Kube
from tests.support.command_line import parser
from tests.support.model_service import ModelService

NAMESPACE = "efrit-bench"
INSTANCE = "bench"
SERIAL = int(os.environ.get("SERIAL", "200"))
BURST = int(os.environ.get("BURST", "500"))
STARTS = int(os.environ.get("STARTS", "5"))
JOBS = int(os.environ.get("JOBS", "5"))
EMACS_IMAGE = os.environ.get("BENCH_EMACS_IMAGE", "localhost/efrit/emacs:30-dev")

REQUESTS = resources.REQUESTS.path(NAMESPACE)
INSTANCES = resources.INSTANCES.path(NAMESPACE)
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"

Row = tuple[str, str, str]


async def measure() -> tuple[list[Row], dict[str, Any]]:
    """Run every measurement; rows for people, figures for programs."""
    figures: dict[str, Any] = {**(here := await asyncio.to_thread(laptop.measure))}
    rows: list[Row] = laptop.rows(here)
    async with cluster.client() as api:
        await fresh_namespace(api)
        starts = await apply_to_ready(api, INSTANCE)
        figures["apply_to_ready_seconds"] = starts
        rows.append(("apply -> Ready, p50", "<= 5 s", f"{statistics.median(starts):.2f} s (n={len(starts)})"))
        bare = await apply_to_ready(api, "ephemeral", queue={"ephemeral": True}, workspace={"ephemeral": True})
        figures["apply_to_ready_ephemeral_seconds"] = bare
        rows.append(("the same without volumes to provision", "", f"{statistics.median(bare):.2f} s (n={len(bare)})"))
        warm = await serial(api, "warm", 20)
        del warm
        latencies = await serial(api, "serial", SERIAL)
        figures["serial_seconds"] = latencies
        p50, p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
        rows.append((f"create -> answer seen, {SERIAL} serial evals, p50", "<= 25 ms", f"{p50 * 1000:.1f} ms"))
        rows.append(("the same, p99", "<= 120 ms", f"{p99 * 1000:.1f} ms"))
        seconds = await burst(api)
        figures["burst_seconds"] = seconds
        rows.append((f"burst of {BURST}", ">= 80/s", f"{BURST / seconds:.0f}/s ({seconds:.2f} s)"))
        figures["rss"] = memory()
        rows.append(("bridge RSS", "<= 60 MB", f"{figures['rss']['bridge'] / 1e6:.1f} MB"))
        rows.append(("controller RSS after the burst", "", f"{figures['rss']['controller'] / 1e6:.1f} MB"))
        rows.append(("operator image", "<= 180 MB", f"{image_size() / 1e6:.0f} MB"))
        jobs = await job_per_task(api)
        figures["job_seconds"] = jobs
        job = statistics.median(jobs)
        rows.append((f"a Job per eval, p50 (n={len(jobs)})", "", f"{job:.2f} s = {job / p50:.0f} times ours"))
        more, of_plans = await planned(api)
        rows += more
        figures |= of_plans
        await cluster.call(api, "DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        figures["idle_controller_rss"] = idle_controller()
        rows.append(
            ("idle controller RSS, freshly started", "<= 120 MB", f"{figures['idle_controller_rss'] / 1e6:.1f} MB")
        )
    return rows, figures


async def fresh_namespace(api: httpx.AsyncClient) -> None:
    """Make the namespace anew."""
    where = f"/api/v1/namespaces/{NAMESPACE}"
    if (await api.get(where)).status_code == 200:
        await api.delete(where)
        while (await api.get(where)).status_code == 200:  # noqa: ASYNC110 - polls a remote server
            await asyncio.sleep(0.5)
    body = {"metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await cluster.call(api, "POST", "/api/v1/namespaces", body)


async def apply_to_ready(api: httpx.AsyncClient, last: str, **spec: Any) -> list[float]:
    """Create instances one after the other; seconds until each is Ready. The last one stays, as `last`."""
    seconds = []
    async with cluster.watching(api, INSTANCES, cluster.is_ready) as watch:
        for number in range(STARTS):
            name = last if number == STARTS - 1 else f"{last}-{number}"
            began = time.perf_counter()
            await cluster.call(api, "POST", INSTANCES, cluster.instance(name, **spec))
            await watch.wait_for({name}, 120)
            seconds.append(watch.seen[name] - began)
            if name != last:
                await cluster.call(api, "DELETE", f"{INSTANCES}/{name}")
    return seconds


async def serial(api: httpx.AsyncClient, prefix: str, count: int) -> list[float]:
    """Send evals one after the other; seconds from sending the create to the watcher's sight of the answer."""
    seconds = []
    async with cluster.watching(api, REQUESTS, cluster.is_final) as watch:
        await asyncio.sleep(0.5)
        for number in range(count):
            name = f"{prefix}-{number}"
            began = time.perf_counter()
            await cluster.call(api, "POST", REQUESTS, cluster.request(name, INSTANCE))
            await watch.wait_for({name}, 30)
            seconds.append(watch.seen[name] - began)
    return seconds


async def burst(api: httpx.AsyncClient) -> float:
    """Send many evals at once; seconds from the first create to the last answer."""
    names = {f"burst-{number}" for number in range(BURST)}
    limit = asyncio.Semaphore(16)

    async def create(name: str) -> None:
        async with limit:
            await cluster.call(api, "POST", REQUESTS, cluster.request(name, INSTANCE))

    async with cluster.watching(api, REQUESTS, cluster.is_final) as watch:
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await asyncio.gather(*map(create, names))
        await watch.wait_for(names, 120)
        return max(watch.seen[name] for name in names) - began


async def planned(api: httpx.AsyncClient) -> tuple[list[Row], dict[str, Any]]:
    """Run plans on an instance of their own, whose model plays a script beside it."""
    spec = await asyncio.to_thread(scripted_model)
    async with cluster.watching(api, INSTANCES, cluster.is_ready) as watch:
        await cluster.call(api, "POST", INSTANCES, cluster.instance("planner", model=spec, limits=plans.LIMITS))
        await watch.wait_for({"planner"}, 120)
    return await plans.measure(api, NAMESPACE, "planner")


def scripted_model() -> dict[str, Any]:
    """Start the model that plays what the plans need; `spec.model` of who asks it."""
    kube = Kube()
    try:
        operator = kube.get("Deployment", "efrit-system", "efrit-operator")
        image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
        model = ModelService.create(kube, NAMESPACE, image)
        plans.written(model)
        return model.spec()
    finally:
        kube.close()


async def job_per_task(api: httpx.AsyncClient) -> list[float]:
    """Run the same eval as a Job with the same image; seconds until each is complete."""
    seconds = []
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    async with cluster.watching(api, JOBS_PATH, cluster.is_complete) as watch:
        for number in range(JOBS):
            pod = {
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "emacs",
                        "image": EMACS_IMAGE,
                        "command": ["emacs", "-Q", "--batch", "--eval", "(princ (+ 1 2))"],
                        "securityContext": security,
                    }
                ],
            }
            job = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"job-{number}"},
                "spec": {"template": {"spec": pod}},
            }
            began = time.perf_counter()
            await cluster.call(api, "POST", JOBS_PATH, job)
            await watch.wait_for({f"job-{number}"}, 60)
            seconds.append(watch.seen[f"job-{number}"] - began)
    return seconds


def kubectl(*arguments: str) -> str:
    """Return what kubectl prints."""
    return subprocess.run(["kubectl", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


RSS = """
import glob, sys
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try:
        if sys.argv[1] in open(path).read() and 'import glob' not in open(path).read():
            lines = open(path.replace('cmdline', 'status')).read().splitlines()
            print(1024 * int(next(line for line in lines if line.startswith('VmRSS')).split()[1]))
    except OSError:
        pass
"""


def memory() -> dict[str, int]:
    """Return the resident memory of bridge and controller in bytes."""
    bridge = kubectl(
        "exec", "-n", NAMESPACE, f"efrit-{INSTANCE}-0", "-c", "bridge", "--", "python3", "-c", RSS, "efrit-bridge"
    )
    return {"bridge": int(bridge.split()[0]), "controller": controller_memory()}


def controller_memory() -> int:
    """Return the controller's resident memory in bytes."""
    text = kubectl(
        "exec", "-n", "efrit-system", "deploy/efrit-operator", "--", "python3", "-c", RSS, "efrit-operator"
    )
    return int(text.split()[0])


def idle_controller() -> int:
    """Restart the controller and return its resident memory in bytes once it has led for a while."""
    kubectl("rollout", "restart", "-n", "efrit-system", "deploy/efrit-operator")
    kubectl("rollout", "status", "-n", "efrit-system", "deploy/efrit-operator", "--timeout=120s")
    time.sleep(20)
    return controller_memory()


def image_size() -> int:
    """Return the size of the operator image on the node in bytes."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    images = [image for node in nodes for image in node["status"]["images"]]
    return max(
        int(image["sizeBytes"]) for image in images if any("efrit/operator" in name for name in image["names"] or ())
    )


def main() -> int:
    """Measure, print, keep."""
    rows, figures = asyncio.run(measure())
    more, of_turns = turns.measure()
    rows += more
    figures["turns"] = of_turns
    more, of_evals = evals.measure()
    rows += more
    figures["evals"] = of_evals
    more, of_mcp = asyncio.run(mcp.measure())
    rows += more
    figures |= of_mcp
    width = max(len(row[0]) for row in rows)
    print(f"\n{'figure'.ljust(width)}  {'aimed for':>10}  seen")
    for name, goal, measured in rows:
        print(f"{name.ljust(width)}  {goal:>10}  {measured}")
    Path("build").mkdir(exist_ok=True)
    Path("build/bench.json").write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
