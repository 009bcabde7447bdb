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
    given: Json = {"intent": intent, "instanceRef": {"name": to}, **spec}
    if tasks:
        given["tasks"] = [{"name": each, "description": f"Do {each}."} for each in tasks]
    manifest = {"metadata": {"name": name}, "spec": {key: each for key, each in given.items() if each is not None}}
    site.kube.create("efritplans", site.namespace, manifest, fieldValidation="Strict")


def change(site: Site, name: str, **spec: Any) -> None:
    """Change fields of a plan's spec."""
    site.kube.patch("efritplans", site.namespace, name, {"spec": spec})


def status(site: Site, name: str) -> Json:
    """Return the status of a plan."""
    found: Json = site.kube.get("efritplans", site.namespace, name).get("status", {})
    return found


def until_plan(site: Site, name: str, seconds: float = TIMEOUT, **wanted: Any) -> Json:
    """Wait for these fields in a plan's status, and return the status."""

    def reached() -> Json | None:
        found = status(site, name)
        return found if wanted.items() <= found.items() else None

    return until(reached, lambda: f"{name} is not {wanted}: {told(site, name)}", seconds)


def end(site: Site, name: str, seconds: float = 2 * TIMEOUT) -> Json:
    """Wait for the end of a plan and return its status."""

    def reached() -> Json | None:
        found = status(site, name)
        return found if found.get("phase") in FINAL else None

    return until(reached, lambda: f"{name} does not end: {told(site, name)}", seconds)


def told(site: Site, name: str) -> str:
    """Everything known of a plan, for messages."""
    rows = [f"{each['metadata']['name']}: {_short(each.get('status', {}))}" for each in parts(site, name)]
    return "\n".join([json.dumps(status(site, name)), *rows, *subjects(site, name), site.logs()])


def _short(found: Json) -> str:
    return " ".join(str(found.get(key, "")) for key in ("phase", "reason", "error", "result"))[:600]


def parts(site: Site, name: str) -> list[Json]:
    """Return the requests of a plan, oldest first."""
    uid = site.kube.get("efritplans", site.namespace, name)["metadata"]["uid"]
    found = site.kube.list("efritrequests", site.namespace, labelSelector=f"efrit.dev/plan={uid}")
    return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))


def part(site: Site, name: str, what: str, step: int | None = None) -> Json | None:
    """Return a plan's request of this kind, if it is there."""
    for each in parts(site, name):
        labels = each["metadata"]["labels"]
        if labels["efrit.dev/plan-part"] == what and step in (None, int(labels["efrit.dev/plan-step"])):
            return each
    return None


def until_part(site: Site, name: str, what: str, *phases: str, step: int | None = None) -> Json:
    """Wait for a plan's request of this kind (in one of these phases), and return it."""

    def reached() -> Json | None:
        found = part(site, name, what, step)
        return found if found and (not phases or found.get("status", {}).get("phase") in phases) else None

    return until(reached, lambda: f"{name} has no {what} in {phases}: {told(site, name)}")


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
    return [int(each) for each in git(site, name, *words).split()]
