"""`python -m tests.bench.starts`: what only a cluster with a kubelet has, on the one of KUBECONFIG.

How soon an instance is Ready, memory, sizes of images, and the same eval as a Job, a pod for each: its time, and what
each part takes of the processors for it beyond what it takes at rest, beside an eval of an instance. What the pod and
those that start it take are "others". STARTS (5), JOBS (10).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from efrit import resources
from efrit.errors import ApiNotFound
from efrit.kube.client import KubeClient
from tests.bench import cluster, load, plans, processors
from tests.support import figures
from tests.support.bench import jobs
from tests.support.bench.jobs import Comparison
from tests.support.command_line import parser
from tests.support.figures import Figure
from tests.support.kube import Kube
from tests.support.kubeconfig import Kubeconfig
from tests.support.model_service import ModelService

NAMESPACE, PLANS_NAMESPACE = "efrit-bench", "efrit-bench-plans"
INSTANCE = "bench"
QUICK = bool(os.environ.get("QUICK"))
STARTS = int(os.environ.get("STARTS", "2" if QUICK else "5"))
JOBS = int(os.environ.get("JOBS", "3" if QUICK else "10"))
EVALS_BESIDE = 100
REST_SECONDS = 10.0
SETTLE_SECONDS = 2.0
EMACS_IMAGE = "localhost/efrit/emacs:30-dev"

INSTANCES = resources.INSTANCES.path(NAMESPACE)
JOBS_PATH = resources.JOBS.path(NAMESPACE)

Row = tuple[str, str, str]
T = TypeVar("T")


async def measure() -> list[Figure]:
    """Measure it in a namespace of its own."""
    rows: list[Row] = []
    async with cluster.client() as api:
        await fresh_namespace(api, NAMESPACE)
        starts = await apply_to_ready(api, INSTANCE)
        rows.append(("apply -> Ready, p50", "<= 5 s", f"{statistics.median(starts):.2f} s (n={len(starts)})"))
        bare = await apply_to_ready(api, "ephemeral", queue={"ephemeral": True}, workspace={"ephemeral": True})
        rows.append(("apply -> Ready without volumes", "", f"{statistics.median(bare):.2f} s (n={len(bare)})"))
        target = load.Target(api, NAMESPACE, (INSTANCE,))
        await load.burst(target, "burst", 500)
        rss = memory()
        rows.append(("bridge RSS after a burst of 500", "<= 60 MB", f"{rss['bridge'] / 1e6:.1f} MB"))
        rows.append(("controller RSS after the burst", "", f"{rss['controller'] / 1e6:.1f} MB"))
        rows.append(("operator image", "<= 180 MB", f"{image_size('efrit/operator') / 1e6:.0f} MB"))
        rows.append(("Emacs image", "<= 200 MB", f"{image_size(EMACS_IMAGE) / 1e6:.0f} MB"))
        comparison = await compare_with_jobs(api, target)
        seconds = comparison.jobs
        rows.append(("a Job per eval, p50", "", f"{statistics.median(seconds):.2f} s (n={len(seconds)})"))
        await cluster.call(api, "DELETE", resources.NAMESPACES.path(name=NAMESPACE))
        rows.append(("idle controller RSS", "<= 120 MB", f"{idle_controller() / 1e6:.1f} MB"))
    return [*figures.of_rows(rows), *jobs.figures_of(comparison)]


async def compare_with_jobs(api: KubeClient, target: load.Target) -> Comparison:
    """Run the same eval many times by an instance and a few times as a Job, one after the other."""
    await asyncio.sleep(SETTLE_SECONDS)
    before, began = processors.of_this_cluster(), time.perf_counter()
    await asyncio.sleep(REST_SECONDS)
    rest = jobs.share_of(before, processors.of_this_cluster(), time.perf_counter() - began)

    async def taken(count: int, work: Awaitable[T]) -> tuple[dict[str, float], T]:
        before, began = processors.of_this_cluster(), time.perf_counter()
        result = await work
        await asyncio.sleep(SETTLE_SECONDS)
        spent = processors.between(before, processors.of_this_cluster(), count)
        return jobs.above_rest(spent, rest, (time.perf_counter() - began) / count * 1000), result

    of_an_eval, _ = await taken(EVALS_BESIDE, load.serial(target, "beside", EVALS_BESIDE))
    of_a_job, seconds = await taken(JOBS, job_per_task(api))
    return Comparison(of_an_eval, of_a_job, seconds)


async def with_plans() -> list[Figure]:
    """Measure what plans take, in a namespace of its own."""
    async with cluster.client() as api:
        await fresh_namespace(api, PLANS_NAMESPACE)
        rows = await planned(api)
        await cluster.call(api, "DELETE", resources.NAMESPACES.path(name=PLANS_NAMESPACE))
    return list(figures.of_rows(rows))


async def fresh_namespace(api: KubeClient, name: str) -> None:
    """Make a namespace anew."""
    where = resources.NAMESPACES.path(name=name)
    with suppress(ApiNotFound):
        await cluster.call(api, "GET", where)
        await cluster.call(api, "DELETE", where)
        while await cluster.call(api, "GET", where):  # noqa: ASYNC110 - polls a remote server
            await asyncio.sleep(0.5)
    body = {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await cluster.call(api, "POST", resources.NAMESPACES.path(), body)


async def apply_to_ready(api: KubeClient, last: str, **spec: Any) -> list[float]:
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


async def planned(api: KubeClient) -> list[Row]:
    """Run plans on an instance of their own, whose model plays a script beside it."""
    instances = resources.INSTANCES.path(PLANS_NAMESPACE)
    spec = await asyncio.to_thread(scripted_model)
    async with cluster.watching(api, instances, cluster.is_ready) as watch:
        await cluster.call(api, "POST", instances, cluster.instance("planner", model=spec, limits=plans.LIMITS))
        await watch.wait_for({"planner"}, 120)
    return await plans.measure(api, PLANS_NAMESPACE, "planner")


def scripted_model() -> dict[str, Any]:
    """Start the model that plays what the plans need; `spec.model` of who asks it."""
    kube = Kube(Kubeconfig())
    try:
        operator = kube.get("Deployment", "efrit-system", "efrit-operator")
        image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
        model = ModelService.create(kube, PLANS_NAMESPACE, image)
        plans.written(model)
        return model.spec()
    finally:
        kube.close()


async def job_per_task(api: KubeClient) -> list[float]:
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
            job = resources.JOBS.manifest({"name": f"job-{number}"}, spec={"template": {"spec": pod}})
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


def image_size(name: str) -> int:
    """Return the size of an image on the node in bytes."""
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    images = [image for node in nodes for image in node["status"]["images"]]
    return max(int(image["sizeBytes"]) for image in images if any(name in tag for tag in image["names"] or ()))


def main() -> int:
    """Measure and print."""
    measured = asyncio.run(measure())
    print("\n".join(figures.table(measured, figures.load())))
    return 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
