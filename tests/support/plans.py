"""Plans on a site: how they are begun and changed, and what came of them in the cluster and in git."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.support.kube import Json, until
from tests.support.site import FINAL, Site
from tests.support.timeout import TIMEOUT


def begin(site: Site, name: str, intent: Json, *tasks: str, to: str = "one", **spec: Any) -> None:
    """Create a plan, with these atomic tasks at its beginning."""
    fields: Json = {"intent": intent, "instanceRef": {"name": to}, **spec}
    if tasks:
        fields["tasks"] = [{"name": task, "description": f"Do {task}."} for task in tasks]
    manifest = {
        "metadata": {"name": name},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }
    site.kube.create("efritplans", site.namespace, manifest, fieldValidation="Strict")


def change(site: Site, name: str, **spec: Any) -> None:
    """Change fields of a plan's spec."""
    site.kube.patch("efritplans", site.namespace, name, {"spec": spec})


def status(site: Site, name: str) -> Json:
    """Return the status of a plan."""
    status: Json = site.kube.get("efritplans", site.namespace, name).get("status", {})
    return status


def until_plan(site: Site, name: str, seconds: float = TIMEOUT, **expected: Any) -> Json:
    """Wait for these fields in a plan's status, and return the status."""

    def reached() -> Json | None:
        plan_status = status(site, name)
        return plan_status if expected.items() <= plan_status.items() else None

    return until(reached, lambda: f"{name} is not {expected}: {describe_plan(site, name)}", seconds)


def end(site: Site, name: str, seconds: float = 2 * TIMEOUT) -> Json:
    """Wait for the end of a plan and return its status."""

    def reached() -> Json | None:
        plan_status = status(site, name)
        return plan_status if plan_status.get("phase") in FINAL else None

    return until(reached, lambda: f"{name} does not end: {describe_plan(site, name)}", seconds)


def describe_plan(site: Site, name: str) -> str:
    """Everything known of a plan, for messages."""
    rows = [f"{part['metadata']['name']}: {_short(part.get('status', {}))}" for part in parts(site, name)]
    return "\n".join([json.dumps(status(site, name)), *rows, *subjects(site, name), site.logs()])


def _short(status: Json) -> str:
    return " ".join(str(status.get(key, "")) for key in ("phase", "reason", "error", "result"))[:600]


def parts(site: Site, name: str) -> list[Json]:
    """Return the requests of a plan, oldest first."""
    uid = site.kube.get("efritplans", site.namespace, name)["metadata"]["uid"]
    requests = site.kube.list("efritrequests", site.namespace, labelSelector=f"efrit.dev/plan={uid}")
    return sorted(
        requests, key=lambda request: (request["metadata"]["creationTimestamp"], request["metadata"]["name"])
    )


def part(site: Site, name: str, what: str, step: int | None = None) -> Json | None:
    """Return a plan's request of this kind, if it is there."""
    for part in parts(site, name):
        labels = part["metadata"]["labels"]
        if labels["efrit.dev/plan-part"] == what and step in (None, int(labels["efrit.dev/plan-step"])):
            return part
    return None


def until_part(site: Site, name: str, what: str, *phases: str, step: int | None = None) -> Json:
    """Wait for a plan's request of this kind (in one of these phases), and return it."""

    def reached() -> Json | None:
        request = part(site, name, what, step)
        return request if request and (not phases or request.get("status", {}).get("phase") in phases) else None

    return until(reached, lambda: f"{name} has no {what} in {phases}: {describe_plan(site, name)}")


def git(site: Site, name: str, *words: str, instance: str = "one") -> str:
    """Return what git says in the repository of a plan, empty while there is none."""
    directory = site.node.pod(instance).workspace / "plans" / name
    if not (directory / ".git").exists():
        return ""
    done = subprocess.run(
        ["git", *words], cwd=directory, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    return done.stdout


def subjects(site: Site, name: str, instance: str = "one") -> list[str]:
    """Return the first lines of all commits, oldest first."""
    return git(site, name, "log", "--reverse", "--format=%s", instance=instance).splitlines()


def steps(site: Site, name: str) -> list[int]:
    """Return the number of each commit by its trailer, oldest first."""
    words = ("log", "--reverse", "--format=%(trailers:key=Efrit-Step,valueonly,separator=)")
    return [int(number) for number in git(site, name, *words).split()]
