"""The main job in one command: a cluster, the operator, an Emacs instance, two answers (`make demo`).

Runs the same steps a person would, says what it does and how long each took, and ends with what to try next.
Only the standard library: it is the first thing that runs on a fresh machine.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RIG = [sys.executable, "-m", "tests.cluster"]
NAMESPACE = "efrit-samples"
IMAGES = ("operator", "emacs")
REQUESTS = ("three", "check-sources")
READY_SECONDS = 180
ANSWER_SECONDS = 120
FIGURES_SECONDS = 15


class DemoError(Exception):
    """A step that failed, with what to look at."""


def main() -> int:
    """Run the demo; 0 when both answers are there."""
    began = time.monotonic()
    phases: list[tuple[str, float]] = []

    @contextmanager
    def phase(title: str) -> Iterator[None]:
        print(f"\n==> {title}", flush=True)
        start = time.monotonic()
        yield
        phases.append((title, time.monotonic() - start))

    try:
        with phase("Programs, and images beside them"):
            run_side_by_side([*RIG, "tools"], [*RIG, "images", *IMAGES])
        with phase("Cluster"):
            run([*RIG, "up"])
            environment = cluster_environment()
        with phase("Operator, by Helm"):
            run(["tests/cluster/install", "efrit-operator", "efrit-system"], environment)
        with phase("Samples: kubectl apply -k samples"):
            run(["kubectl", "delete", "efr", "--all", "-n", NAMESPACE, "--ignore-not-found"], environment, quiet=True)
            run(["kubectl", "apply", "-k", "samples"], environment)
        with phase("EfritInstance workshop becomes Ready"):
            wait_for(environment, "efi/workshop", "Ready", READY_SECONDS)
        with phase("The answers"):
            for name in REQUESTS:
                wait_for(environment, f"efr/{name}", "Complete", ANSWER_SECONDS)
            wait_for_figures(environment)
        print()
        run(["kubectl", "get", "efi,efr", "-n", NAMESPACE], environment)
        succeeded = [show_answer(environment, name) for name in REQUESTS]
    except (DemoError, KeyboardInterrupt) as error:
        print(f"\ndemo: {error or 'interrupted'}", file=sys.stderr)
        return 1
    print("\nTimes")
    for title, seconds in [*phases, ("Altogether", time.monotonic() - began)]:
        print(f"  {seconds:7.1f} s  {title}")
    print(NEXT)
    return 0 if all(succeeded) else 1


def run(command: list[str], environment: dict[str, str] | None = None, *, quiet: bool = False) -> None:
    """Run a step where the person sees it."""
    output = subprocess.DEVNULL if quiet else None
    if subprocess.run(command, cwd=ROOT, env=environment, stdout=output, check=False).returncode != 0:
        raise DemoError(f"this step failed: {shlex.join(command)}")


def run_side_by_side(*commands: list[str]) -> None:
    """Run steps that do not need each other at the same time; a failure of one ends the others."""
    with ExitStack() as until_ended:
        steps = []
        for command in commands:
            # A group of its own: the compilers it starts end with it.
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
            until_ended.callback(end, process)
            steps.append((process, command))
        while any(process.poll() is None for process, _ in steps):
            raise_if_failed(steps)
            time.sleep(0.1)
        raise_if_failed(steps)


def raise_if_failed(steps: Sequence[tuple[subprocess.Popen[bytes], list[str]]]) -> None:
    """Raise DemoError for a step that has failed."""
    for process, command in steps:
        if process.poll():
            raise DemoError(f"this step failed: {shlex.join(command)}")


def end(step: subprocess.Popen[bytes]) -> None:
    """Ask a step that still runs, with what it has started, to end, and wait until it has."""
    if step.poll() is None:
        os.killpg(step.pid, signal.SIGTERM)
    step.wait()


def read(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command prints; empty where it fails."""
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    ).stdout


def cluster_environment() -> dict[str, str]:
    """Return the environment in which kubectl and helm mean the test cluster."""
    lines = read([*RIG, "env"], dict(os.environ)).splitlines()
    words = [shlex.split(line.removeprefix("export "))[0] for line in lines]
    return {**os.environ, **dict(word.split("=", 1) for word in words)}


def wait_for(environment: dict[str, str], what: str, condition: str, seconds: float) -> None:
    """Wait for a condition of an object and print every new sentence it has for not being there yet."""
    deadline = time.monotonic() + seconds
    said = ""
    while time.monotonic() < deadline:
        text = read(["kubectl", "get", what, "-n", NAMESPACE, "-o", "json"], environment)
        conditions = json.loads(text).get("status", {}).get("conditions", []) if text else []
        found = next((each for each in conditions if each["type"] == condition), None)
        if found and f"{found['reason']}: {found['message']}" != said:
            said = f"{found['reason']}: {found['message']}"
            print(f"    {what}: {said}", flush=True)
        if found and found["status"] == "True":
            return
        time.sleep(0.3)
    raise DemoError(f"{what} has no {condition} after {seconds} s: kubectl describe {what} -n {NAMESPACE}")


def wait_for_figures(environment: dict[str, str]) -> None:
    """Wait until the figures of the instance count the answers: they are written a moment after the last one."""
    deadline = time.monotonic() + FIGURES_SECONDS
    while time.monotonic() < deadline:
        text = read(["kubectl", "get", "efi/workshop", "-n", NAMESPACE, "-o", "json"], environment)
        figures = json.loads(text).get("status", {}).get("queue", {}) if text else {}
        if are_all_counted(figures):
            return
        time.sleep(0.3)


def are_all_counted(figures: Mapping[str, int]) -> bool:
    """Return whether the figures of the queue count every request as processed and none as open."""
    open_requests = figures.get("pending", 0) + figures.get("processing", 0)
    return open_requests == 0 and figures.get("processed", 0) >= len(REQUESTS)


def show_answer(environment: dict[str, str], name: str) -> bool:
    """Print a request's answer; whether it succeeded."""
    status = json.loads(read(["kubectl", "get", f"efr/{name}", "-n", NAMESPACE, "-o", "json"], environment))["status"]
    print(f"\n--- {name}: {status['phase']} in {status.get('executionSeconds', 0):.3f} s")
    for field in ("output", "result"):
        if status.get(field):
            print(status[field].rstrip())
    if status.get("error"):
        print(f"{status['error']['code']}: {status['error']['message']}")
    return bool(status["phase"] == "Succeeded")


NEXT = f"""
Next
  python3 -m tests.cluster shell          a shell in which kubectl and helm mean this cluster; in it:
    kubectl explain efr.spec              what a request can say
    kubectl get efi,efr -n {NAMESPACE} -o wide -w
    kubectl create -n {NAMESPACE} -f - <<'YAML'
apiVersion: efrit.dev/v1alpha1
kind: EfritRequest
metadata: {{generateName: mine-}}
spec: {{instanceRef: {{name: workshop}}, type: eval, content: (emacs-version)}}
YAML
    kubectl patch efi workshop -n {NAMESPACE} --type merge -p '{{"spec":{{"operatingMode":"Suspended"}}}}'
  make cluster-down                       take everything away again
"""

if __name__ == "__main__":
    sys.exit(main())
