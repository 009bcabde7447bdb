"""Plans on a site: what the model says at each visit as a script, and what came of them in the cluster and in git."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.controller.site import FINAL, Site
from tests.integration.kube import DEADLINE_SECONDS, Json, until
from tests.model.running import Model

HEADS = {
    "act": "You carry out one task of a plan",
    "assess": "You assess the state of a plan's work",
    "adapt": "You navigate a plan",
}
FACT = {"perspective": "requirements", "statement": "What was asked for is there.", "evidence": "greeting.txt"}
DONE: Json = {"verdict": "done", "reason": "It is there."}


class Script:
    """What the model says about one plan. The first entry that fits a conversation is played."""

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self.name = name
        self._numbers = itertools.count(1)
        self._routes: list[Json] = []

    @property
    def intent(self) -> Json:
        """An intent whose conversations this script answers."""
        return {"description": f"A friendly greeting. (scenario={self.name})", "acceptanceCriteria": ["It is kind."]}

    def act(self, task: str, files: Mapping[str, str], *, when: Sequence[str] = (), first_ms: int = 0) -> None:
        """Write these files, by path in the workspace, and say so; the first answer comes after `first_ms`."""
        calls = [("todo_add", {"content": "Do it"})]
        calls += [("file_write", {"path": path, "content": content}) for path, content in files.items()]
        turns = [_call(tool, given) for tool, given in calls]
        turns[0] = f"pace = {{first_ms = {first_ms}}}\n{turns[0]}"
        turns.append(_call("todo_update", {"id": 1, "status": "completed"}))
        turns.append(_call("session_complete", {"message": "I wrote it."}))
        self._add("act", task, when, turns)

    def assess(self, task: str, *answers: Any, when: Sequence[str] = ()) -> None:
        """Say these texts or objects, one after the other; by default one fact."""
        self._add("assess", task, when, [_say(each) for each in answers or ({"observations": [FACT]},)])

    def adapt(self, task: str, *answers: Any, when: Sequence[str] = ()) -> None:
        """Say these texts or objects, one after the other; by default that it is done."""
        self._add("adapt", task, when, [_say(each) for each in answers or (DONE,)])

    def done(self, *tasks: str) -> None:
        """Find each of these tasks in order."""
        for task in tasks:
            self.assess(task)
            self.adapt(task)

    def _add(self, part: str, task: str, when: Sequence[str], turns: Sequence[str]) -> None:
        name = f"{self.name}-{next(self._numbers)}"
        self._model.play(name, "\n".join(f"[[turn]]\n{each}" for each in turns))
        self._routes.append({"when": [f"^{HEADS[part]}", rf"# The task {task} \(", *when], "play": name})
        routes = "\n".join(
            f"[[route]]\nwhen = {json.dumps(each['when'])}\nplay = {json.dumps(each['play'])}"
            for each in self._routes
        )
        self._model.play(self.name, routes)


def _say(answer: Any) -> str:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return f"[[turn.reply]]\ntext = {json.dumps(text)}"


def _call(tool: str, given: Json) -> str:
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
    return f"[[turn.reply]]\ntool = {json.dumps(tool)}\ninput = {{{fields}}}"


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


def until_plan(site: Site, name: str, seconds: float = DEADLINE_SECONDS, **wanted: Any) -> Json:
    """Wait for these fields in a plan's status, and return the status."""

    def reached() -> Json | None:
        found = status(site, name)
        return found if wanted.items() <= found.items() else None

    return until(reached, lambda: f"{name} is not {wanted}: {told(site, name)}", seconds)


def end(site: Site, name: str, seconds: float = 4 * DEADLINE_SECONDS) -> Json:
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
    done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout


def subjects(site: Site, name: str, instance: str = "one") -> list[str]:
    """Return the first lines of all commits, oldest first."""
    return git(site, name, "log", "--reverse", "--format=%s", instance=instance).splitlines()


def steps(site: Site, name: str) -> list[int]:
    """Return the number of each commit by its trailer, oldest first."""
    words = ("log", "--reverse", "--format=%(trailers:key=Efrit-Step,valueonly,separator=)")
    return [int(each) for each in git(site, name, *words).split()]
