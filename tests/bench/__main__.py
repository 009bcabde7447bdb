"""`make bench`: what the whole path costs on this cluster, beside its floor and beside a pod per task.

One table of all figures with what was aimed for and what was kept from the last release (figures.json), then what has
become worse by more than the noise; build/bench.json has the figures, build/bench.svg a picture of the costs of each
part. Each piece also runs alone: `python -m tests.bench.NAME`. With QUICK=1 sizes are smaller; no piece is begun once
MINUTES (25) are over, and the table says so. KEEP=RELEASE writes the run into figures.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from efrit.kube import resources
from tests.bench import cluster, crowded, evals, laptop, load, mcp, path, plans, turns
from tests.support import figures, plot
from tests.support.cluster_kube import Kube
from tests.support.command_line import parser
from tests.support.figures import Figure
from tests.support.model_service import ModelService

NAMESPACE = "efrit-bench"
INSTANCE = "bench"
QUICK = bool(os.environ.get("QUICK"))
STARTS = int(os.environ.get("STARTS", "2" if QUICK else "5"))
JOBS = int(os.environ.get("JOBS", "2" if QUICK else "5"))
MINUTES = float(os.environ.get("MINUTES", "25"))
EMACS_IMAGE = os.environ.get("BENCH_EMACS_IMAGE", "localhost/efrit/emacs:30-dev")

REQUESTS = resources.REQUESTS.path(NAMESPACE)
INSTANCES = resources.INSTANCES.path(NAMESPACE)
JOBS_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"

Row = tuple[str, str, str]
BEGAN = time.monotonic()


def say(line: str) -> None:
    """Tell whoever waits how far it is."""
    print(f"[{time.monotonic() - BEGAN:6.0f} s] {line}", file=sys.stderr, flush=True)


class Report:
    """What all pieces found."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.panels: list[plot.Bars | plot.Curves] = []
        self.left_out: list[str] = []
        self.failed: list[str] = []

    def piece(self, title: str, measure: Callable[[], None]) -> None:
        """Run a piece that adds to this report, if there is time left; the figures of the others stay if it fails."""
        if time.monotonic() - BEGAN > MINUTES * 60:
            self.left_out.append(title)
            return
        say(title)
        try:
            measure()
        except Exception:  # noqa: BLE001 - whatever it is, it is reported
            traceback.print_exc()
            self.failed.append(title)

    def add(self, rows: list[Row]) -> None:
        """Add the rows of a piece."""
        self.figures += figures.of_rows(rows)


def pieces(report: Report) -> Mapping[str, Callable[[], None]]:
    """Return every piece, in its order."""

    def whole_path() -> None:
        result = asyncio.run(path.run(say))
        report.figures += result.figures
        report.panels += result.panels()

    def beside() -> None:
        rows, curves = crowded.measure(say)
        report.figures += rows
        report.panels += curves

    return {
        "an eval on this machine, without a cluster": lambda: report.add(laptop.rows(laptop.measure())),
        "starts, memory, plans, a Job for each eval": lambda: report.add(asyncio.run(on_cluster())),
        "evals one after the other, bursts, rates, and their floor": whole_path,
        "beside many instances and requests": beside,
        "turns of a model": lambda: report.add(turns.measure()[0]),
        "an eval by way of the MCP server": lambda: report.add(asyncio.run(mcp.measure())[0]),
        "hostile evals": lambda: report.add(evals.measure()[0]),
    }


async def on_cluster() -> list[Row]:
    """Measure what only a cluster with a kubelet has."""
    rows: list[Row] = []
    async with cluster.client() as api:
        await fresh_namespace(api)
        starts = await apply_to_ready(api, INSTANCE)
        rows.append(("apply -> Ready, p50", "<= 5 s", f"{statistics.median(starts):.2f} s (n={len(starts)})"))
        bare = await apply_to_ready(api, "ephemeral", queue={"ephemeral": True}, workspace={"ephemeral": True})
        rows.append(("apply -> Ready without volumes", "", f"{statistics.median(bare):.2f} s (n={len(bare)})"))
        target = load.Target(api, NAMESPACE, (INSTANCE,))
        await load.burst(target, "burst", 500)
        rss = memory()
        rows.append(("bridge RSS after a burst of 500", "<= 60 MB", f"{rss['bridge'] / 1e6:.1f} MB"))
        rows.append(("controller RSS after the burst", "", f"{rss['controller'] / 1e6:.1f} MB"))
        rows.append(("operator image", "<= 180 MB", f"{image_size() / 1e6:.0f} MB"))
        jobs = await job_per_task(api)
        rows.append(("a Job per eval, p50", "", f"{statistics.median(jobs):.2f} s (n={len(jobs)})"))
        rows += (await planned(api))[0]
        await cluster.call(api, "DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        rows.append(("idle controller RSS", "<= 120 MB", f"{idle_controller() / 1e6:.1f} MB"))
    return rows


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


def against_jobs(found: list[Figure]) -> Iterator[Figure]:
    """Yield how many times as long a Job takes as an eval."""
    values = {figure.name: figure.value for figure in found}
    job, ours = values.get("a Job per eval, p50"), values.get("create -> answer seen, one after the other, p50")
    if job and ours:
        yield Figure("a Job per eval beside an eval", job * 1000 / ours, "times")


def main() -> int:
    """Measure, print, keep."""
    report = Report()
    for title, measure in pieces(report).items():
        report.piece(title, measure)
    report.figures += against_jobs(report.figures)
    kept = figures.load()
    print("\n".join(figures.table(report.figures, kept)))
    print(f"\n{figures.machine()}, load {os.getloadavg()[1]:.1f}, {(time.monotonic() - BEGAN) / 60:.0f} minutes")
    for title in report.failed:
        print(f"failed, as said above: {title}")
    for title in report.left_out:
        print(f"left out, as {MINUTES:g} minutes were over: {title}")
    worse = list(figures.worse(report.figures, kept))
    print(f"\nworse than {kept.get('release', 'nothing kept')} by more than the noise: {len(worse) or 'nothing'}")
    print("\n".join(worse))
    Path("build").mkdir(exist_ok=True)
    Path("build/bench.json").write_text(json.dumps([figure._asdict() for figure in report.figures], indent=1))
    plot.write(Path("build/bench.svg"), report.panels)
    if release := os.environ.get("KEEP"):
        if report.failed or report.left_out:
            print(f"not kept as {release}: the run is not whole")
            return 1
        figures.keep(report.figures, release)
    return 1 if report.failed else 0


if __name__ == "__main__":
    parser(__doc__).parse_args()
    sys.exit(main())
