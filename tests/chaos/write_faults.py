"""Which writes of the API a controller makes: what tells one kind from another, and how a plan brings each about.

A scene makes the controller do one kind of write. test_api_writes.py plays every scene under every fault, and fails
when a tour through everything the controller can do shows a write that has no scene.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.chaos.proxied_cluster import ASLEEP, CLAIMLESS, EPHEMERAL, ONE, Stage, unbegun
from tests.support.faults.api_proxy.calls import Call, Json
from tests.support.faults.api_proxy.proxy import Armed, Fate, Fault
from tests.support.faults.api_proxy.rules import FINAL
from tests.support.faults.history import Digest, End
from tests.support.kube import Refused


class Write(NamedTuple):
    """One kind of write: what RBAC would call it, and what of it matters to the protocol."""

    verb: str
    resource: str
    facet: str = ""

    def fault(self, fate: Fate, *, seconds: float) -> Fault:
        """Return the fault that befalls this kind of write, whoever it is about."""
        resource, _, sub = self.resource.partition("/")

        def is_it(body: Json) -> bool:
            return facet_of(self.verb, self.resource, body) == self.facet

        return Fault(fate, self.verb, resource, sub, when=is_it, seconds=seconds)


def kind_of(call: Call) -> Write:
    """Return which kind of write a call was."""
    what = call.target
    name = f"{what.resource}/{what.sub}" if what.sub else what.resource
    return Write(what.verb, name, facet_of(what.verb, name, call.body or {}))


def _of_request(body: Json) -> str:
    status = body.get("status", {})
    if status.get("phase") in FINAL:
        return "final" if status.get("startTime") else "never ran"
    if status.get("phase") == "Pending":
        return "bound" if status.get("reason") == "Pending" else "waiting"
    return str(status.get("phase"))


def _of_instance(body: Json) -> str:
    return str(body.get("status", {}).get("phase"))


def _of_secret(body: Json) -> str:
    return "result" if body.get("type") == "efrit.dev/result" else "identity"


def _of_lease(body: Json) -> str:
    holder = body.get("spec", {}).get("holderIdentity")
    return "held" if holder else "given back"


OF_WRITES = (
    Fate.KILL_BEFORE_SEND,
    Fate.KILL_AFTER_COMMIT,
    Fate.KILL_AFTER_REPLY,
    Fate.LOST_REPLY,
    Fate.RESET,
    Fate.CONFLICT_409,
    Fate.TOO_MANY_429,
    Fate.ERROR_500,
    Fate.DELAYED,
    Fate.STALE_AFTER_COMMIT,
)
"""What can befall a write."""


def facet_of(verb: str, resource: str, body: Json) -> str:
    """Return what tells this write from others of its verb and resource; empty where nothing does."""
    facet = FACETS.get((verb, resource))
    return facet(body) if facet is not None else ""


FACETS: Mapping[tuple[str, str], Callable[[Json], str]] = {
    ("patch", "efritrequests/status"): _of_request,
    ("patch", "efritinstances/status"): _of_instance,
    ("create", "secrets"): _of_secret,
    ("patch", "leases"): _of_lease,
}


@dataclass(frozen=True)
class Scene:
    """How to bring a write about, and to see that it came to what it should.

    `vital` marks what the promises rest on: it is played under every fault each time. The others share their code
    with their neighbours: each gets the faults that leave open what was committed, and one more in turn.
    """

    write: Write
    play: Callable[[Stage, str, Callable[[Fault], Armed], Fault], None]
    """Gets the stage, a word of its own, what arms, and the fault for its write."""
    vital: bool = False


Arm = Callable[[Fault], Armed]


def _named(fault: Fault, name: str) -> Fault:
    return replace(fault, name=name)


def _answered(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word)
    stage.struck(armed)
    assert stage.ended(asked)["phase"] == "Succeeded"


def _failed(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word, type="chat", ends=(unbegun("ModelNotConfigured"),))
    stage.struck(armed)
    assert stage.ended(asked)["phase"] == "Failed"


def _bound(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word, to=None, selector={"matchLabels": {"team": "a"}})
    stage.struck(armed)
    assert stage.ended(asked)["instanceName"] == ONE


def _queued(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word, to=EPHEMERAL)
    stage.struck(armed)
    assert stage.ended(asked)["queueID"]


def _running(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word, stage.gate(word))
    stage.until_runs(word)
    stage.struck(armed)
    stage.open_gate(word)
    stage.ended(asked)


def _waiting(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    asked = stage.ask(word, to=ASLEEP, ends=(unbegun("Cancelled"),))
    stage.struck(armed)
    stage.until(lambda: stage.status(asked).get("reason") == "InstanceSuspended", f"{word} is not told to wait")
    stage.site.cancel(word)
    stage.ended(asked)


LARGE = 50_000


def _result(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    content = f"(progn {stage.site.count(word)} (make-string {LARGE} ?x))"
    whole = '"' + "x" * LARGE + '"'
    armed = arm(fault)
    asked = stage.ask(word, content, ends=(End("Succeeded", Digest.of(whole)),))
    stage.struck(armed)
    reference = stage.ended(asked)["resultRef"]
    secret = stage.kube.get("secrets", stage.namespace, reference["secretName"])
    assert base64.b64decode(secret["data"]["result"]).decode() == whole


def _expired(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(_named(fault, word))
    stage.ask(word, ttlSecondsAfterFinished=0, deleted=True)
    stage.struck(armed)
    stage.until(lambda: stage.kube.find("efritrequests", stage.namespace, word) is None, f"{word} stays")


CHILDREN = {
    "serviceaccounts": "efrit-{}",
    "secrets": "efrit-{}-bridge",
    "networkpolicies": "efrit-{}",
    "persistentvolumeclaims": "efrit-{}-queue",
    "statefulsets": "efrit-{}",
}


def _applied(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(fault)
    stage.site.instance(word, ready=False, operatingMode="Suspended")
    stage.struck(armed)
    stage.until(lambda: stage.site.condition(word, "Suspended").get("status") == "True", f"{word} is not suspended")
    stage.until(lambda: len(_children(stage, word)) == len(CHILDREN), lambda: f"only {_children(stage, word)}")
    remove(stage, word)


def remove(stage: Stage, word: str) -> None:
    """Delete an instance and, as no collector runs here, its children."""
    stage.kube.delete("efritinstances", stage.namespace, word)

    def gone() -> bool:
        # A controller that has yet to hear of it makes a child anew.
        for plural, name in _children(stage, word):
            with suppress(Refused):
                stage.kube.delete(plural, stage.namespace, name)
        return stage.site.node.gone(word) and not _children(stage, word)

    stage.until(gone, lambda: f"of {word} stay {_children(stage, word)}")


def _children(stage: Stage, word: str) -> list[tuple[str, str]]:
    names = [(plural, pattern.format(word)) for plural, pattern in CHILDREN.items()]
    found = [(each, stage.kube.find(each[0], stage.namespace, each[1])) for each in names]
    # The finalizers of claims are lifted by a controller that does not run here.
    return [each for each, obj in found if obj is not None and "deletionTimestamp" not in obj["metadata"]]


def _made(phase: str) -> Callable[[Stage, str, Arm, Fault], None]:
    def play(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
        armed = arm(_named(fault, word))
        spec = dict(CLAIMLESS)
        if phase == "NotReady":
            spec["podTemplate"] = {"affinity": IMPOSSIBLE}
        if phase == "Suspended":
            spec["operatingMode"] = "Suspended"
        stage.site.instance(word, ready=False, **spec)
        stage.struck(armed)
        end = "Ready" if phase == "Pending" else phase
        stage.until(lambda: phase_of(stage, word) == end, lambda: f"{word} is {phase_of(stage, word)}, not {end}")
        remove(stage, word)

    return play


IMPOSSIBLE: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Nearly", "values": ["a"]}]}]
        }
    }
}


def phase_of(stage: Stage, name: str) -> str:
    return str(stage.kube.get("efritinstances", stage.namespace, name).get("status", {}).get("phase"))


def _told(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    armed = arm(fault)
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    stage.struck(armed)
    stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
    remove(stage, word)


def _told_again(stage: Stage, word: str, arm: Arm, fault: Fault) -> None:
    """Suspend an instance twice; a third time if the controller was started anew after the first."""
    armed = arm(fault)
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    for _ in range(3):
        stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
        if armed.struck.is_set():
            break
        _switch(stage, word, "Running")
        stage.until(lambda: phase_of(stage, word) != "Suspended", f"{word} is not resumed")
        _switch(stage, word, "Suspended")
    stage.struck(armed)
    remove(stage, word)


def _switch(stage: Stage, word: str, mode: str) -> None:
    stage.kube.patch("efritinstances", stage.namespace, word, {"spec": {"operatingMode": mode}})


STATUS = "efritrequests/status"
SCENES: Mapping[str, Scene] = {
    "bound": Scene(Write("patch", STATUS, "bound"), _bound, vital=True),
    "waiting": Scene(Write("patch", STATUS, "waiting"), _waiting),
    "queued": Scene(Write("patch", STATUS, "Queued"), _queued, vital=True),
    "running": Scene(Write("patch", STATUS, "Running"), _running, vital=True),
    "final": Scene(Write("patch", STATUS, "final"), _answered, vital=True),
    "never-ran": Scene(Write("patch", STATUS, "never ran"), _failed, vital=True),
    "result": Scene(Write("create", "secrets", "result"), _result, vital=True),
    "expired": Scene(Write("delete", "efritrequests"), _expired, vital=True),
    **{plural: Scene(Write("apply", plural), _applied) for plural in CHILDREN},
    **{
        f"instance-{phase.lower()}": Scene(Write("patch", "efritinstances/status", phase), _made(phase))
        for phase in ("Pending", "Ready", "Suspended", "NotReady")
    },
    "event": Scene(Write("create", "events"), _told),
    "event-again": Scene(Write("patch", "events"), _told_again),
}

AT_STARTUP: Mapping[str, Write] = {
    "lease-created": Write("create", "leases"),
    "identity": Write("create", "secrets", "identity"),
}
"""Played by test_startup_writes.py, as are those below."""
ELSEWHERE = {
    Write("patch", "leases", "held"),
    Write("patch", "leases", "given back"),
    Write("delete", "efritinstances"),
}
PLANNED = {*(scene.write for scene in SCENES.values()), *AT_STARTUP.values(), *ELSEWHERE}
"""Every kind of write there is; a tour through all that a controller does must show these, and no others."""

UNCERTAIN = (Fate.KILL_AFTER_COMMIT, Fate.LOST_REPLY, Fate.CONFLICT_409)


DISTINCT = tuple(each for each in OF_WRITES if each is not Fate.KILL_AFTER_REPLY)
"""To be killed after the reply leaves what being killed after the commit leaves: a write that took effect."""


def chosen(everything: bool) -> list[tuple[str, Fate]]:
    """Return which scene is played under which fault."""
    others = [each for each in DISTINCT if each not in UNCERTAIN]
    found = []
    for number, (name, scene) in enumerate(SCENES.items()):
        some = (*UNCERTAIN, others[number % len(others)])
        found += [(name, fate) for fate in (OF_WRITES if everything else DISTINCT if scene.vital else some)]
    return found
