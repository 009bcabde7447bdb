"""What can befall a watch, and the moments of an object's life at which it matters: the plans of test_watches.py.

A mode says what goes wrong when an event is due, a phase makes that event happen and sees that the controller gets
to where the event would have taken it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.chaos.proxied_cluster import CLAIMLESS, ONE, Stage, unbegun
from tests.chaos.write_faults import phase_of, remove
from tests.support.faults.api_proxy.calls import Json
from tests.support.faults.api_proxy.proxy import Armed, Fate, Fault
from tests.support.faults.api_proxy.rules import final_status
from tests.support.faults.history import End

HELD_SECONDS = 1.0
FOR_GOOD_SECONDS = 600.0
"""Longer than any plan: what is held so long is given only when the proxy is healed."""


@dataclass(frozen=True)
class Mode:
    """What goes wrong: with the event itself, and with what the controller does about it."""

    event: Fate
    seconds: float = HELD_SECONDS
    then: tuple[tuple[Fate, str, int], ...] = ()
    """Further faults of calls on the same resource: fate, verb, how often."""

    def fault(self, event: Fault) -> Fault:
        """Return the fault of a plan; `event` says which event is hit."""
        then = (Fault(fate, verb, event.resource, times=times, seconds=1) for fate, verb, times in self.then)
        return replace(event, fate=self.event, seconds=self.seconds, then=tuple(then))


MODES: Mapping[str, Mode] = {
    "delayed": Mode(Fate.EVENT_DELAYED),
    "dropped": Mode(Fate.EVENT_DROPPED),
    "duplicated": Mode(Fate.EVENT_DUPLICATED),
    "reordered": Mode(Fate.EVENT_REORDERED),
    "expired": Mode(Fate.STREAM_EXPIRED),
    "expired-and-list-500": Mode(Fate.STREAM_EXPIRED, then=((Fate.ERROR_500, "list", 2),)),
    "expired-and-list-429": Mode(Fate.STREAM_EXPIRED, then=((Fate.TOO_MANY_429, "list", 1),)),
    "ended-and-410": Mode(Fate.STREAM_ENDED, then=((Fate.GONE_410, "watch", 1),)),
    "cut-amid-a-line": Mode(Fate.STREAM_CUT),
    "silent-for-good": Mode(Fate.STREAM_SILENT, FOR_GOOD_SECONDS),
}


@dataclass(frozen=True)
class Phase:
    """A moment: which event is hit, and the play around it. `play` gets a word and what arms the plan's faults."""

    resource: str
    play: Callable[[Stage, str, Callable[..., Armed]], None]


Arm = Callable[..., Armed]
"""Arms the plan for the event of the object of this name, of this type, with this predicate."""


def _cancelled(obj: Json) -> bool:
    return bool(obj["spec"].get("cancel"))


def _created(stage: Stage, word: str, arm: Arm) -> None:
    armed = arm(word, "ADDED")
    asked = stage.ask(word)
    stage.struck(armed)
    stage.ended(asked)


def _queued(stage: Stage, word: str, arm: Arm) -> None:
    gate = stage.ask(f"{word}-gate", stage.gate(f"{word}-gate"))
    stage.until_runs(gate.word)
    asked = stage.ask(word, ends=(unbegun("Cancelled"),))
    stage.until(lambda: stage.on_queue(asked), f"{word} is not on the queue")
    armed = arm(word, "MODIFIED", _cancelled)
    stage.site.cancel(word)
    stage.struck(armed)
    stage.ended(asked)
    stage.open_gate(gate.word)
    stage.ended(gate)


def _running(stage: Stage, word: str, arm: Arm) -> None:
    asked = stage.ask(word, stage.gate(word), ends=(End("Cancelled"),))
    stage.until_runs(word)
    armed = arm(word, "MODIFIED", _cancelled)
    stage.site.cancel(word)
    stage.struck(armed)
    stage.ended(asked)


def _own_write(stage: Stage, word: str, arm: Arm) -> None:
    armed = arm(word, "MODIFIED", lambda obj: obj.get("status", {}).get("phase") == "Running")
    asked = stage.ask(word, stage.gate(word))
    stage.struck(armed)
    stage.open_gate(word)
    stage.ended(asked)


def _between_answer_and_status(stage: Stage, word: str, arm: Arm) -> None:
    """The user cancels while the final status is on its way: it is too late, and the answer stands."""
    writing = stage.proxy.arm(
        Fault(Fate.DELAYED, "patch", "efritrequests", "status", word, seconds=HELD_SECONDS, when=final_status)
    )
    armed = arm(word, "MODIFIED", _cancelled)
    asked = stage.ask(word)
    stage.struck(writing)
    stage.site.cancel(word)
    stage.struck(armed)
    assert stage.ended(asked)["result"] == f'"{word}"'


def _final(stage: Stage, word: str, arm: Arm) -> None:
    armed = arm(word, "DELETED")
    asked = stage.ask(word)
    stage.ended(asked)
    stage.struck(armed)


def _deleted(stage: Stage, word: str, arm: Arm) -> None:
    asked = stage.ask(word, stage.gate(word), deleted=True)
    stage.until_runs(word)
    armed = arm(word, "DELETED")
    stage.kube.delete("efritrequests", stage.namespace, word)
    stage.struck(armed)
    stage.until(lambda: not stage.on_queue(asked), f"{word} is not stopped")


def _instance_created(stage: Stage, word: str, arm: Arm) -> None:
    armed = arm(word, "ADDED")
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    stage.struck(armed)
    stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
    remove(stage, word)


def _instance_resumed(stage: Stage, word: str, arm: Arm) -> None:
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
    armed = arm(word, "MODIFIED", lambda obj: obj["spec"].get("operatingMode") == "Running")
    stage.kube.patch("efritinstances", stage.namespace, word, {"spec": {"operatingMode": "Running"}})
    stage.struck(armed)
    stage.until(lambda: phase_of(stage, word) == "Ready", f"{word} is not ready")
    remove(stage, word)


def _instance_deleted(stage: Stage, word: str, arm: Arm) -> None:
    """What was bound to it, and never ran, is told that it does not exist."""
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
    asked = stage.ask(f"{word}-work", to=word, ends=(unbegun("Rejected"), unbegun("Interrupted")))
    armed = arm(word, "DELETED")
    remove(stage, word)
    stage.struck(armed)
    assert "no EfritInstance" in stage.ended(asked)["error"]["message"]


def _of_pod(type_: str, when: Callable[[Json], bool] | None = None) -> Callable[[Stage, str, Arm], None]:
    def play(stage: Stage, word: str, arm: Arm) -> None:
        armed = arm(f"efrit-{word}-0", type_, when)
        stage.site.instance(word, ready=False, **CLAIMLESS)
        stage.struck(armed)
        stage.until(lambda: phase_of(stage, word) == "Ready", f"{word} is not ready")
        remove(stage, word)

    return play


def _pod_replaced(stage: Stage, word: str, arm: Arm) -> None:
    """The pod of ONE is deleted; what waits on its queue runs in the next one."""
    old = stage.site.node.pod(ONE)
    armed = arm(old.name, "DELETED")
    stage.kube.delete("pods", stage.namespace, old.name)
    stage.struck(armed)
    asked = stage.ask(word)
    stage.ended(asked)
    assert stage.site.node.pod(ONE).uid != old.uid


def _statefulset_deleted(stage: Stage, word: str, arm: Arm) -> None:
    """Somebody deletes it: it is made anew."""
    stage.site.instance(word, ready=False, operatingMode="Suspended", **CLAIMLESS)
    stage.until(lambda: phase_of(stage, word) == "Suspended", f"{word} is not suspended")
    uid = stage.kube.get("statefulsets", stage.namespace, f"efrit-{word}")["metadata"]["uid"]
    armed = arm(f"efrit-{word}", "DELETED")
    stage.kube.delete("statefulsets", stage.namespace, f"efrit-{word}")
    stage.struck(armed)

    def made_anew() -> bool:
        found = stage.kube.find("statefulsets", stage.namespace, f"efrit-{word}")
        return found is not None and found["metadata"]["uid"] != uid

    stage.until(made_anew, f"the StatefulSet of {word} is not made anew")
    remove(stage, word)


PHASES: Mapping[str, Phase] = {
    "request-created": Phase("efritrequests", _created),
    "request-cancelled-while-queued": Phase("efritrequests", _queued),
    "request-cancelled-while-running": Phase("efritrequests", _running),
    "request-told-running": Phase("efritrequests", _own_write),
    "request-cancelled-after-its-answer": Phase("efritrequests", _between_answer_and_status),
    "request-final": Phase("efritrequests", _final),
    "request-deleted-while-running": Phase("efritrequests", _deleted),
    "instance-created": Phase("efritinstances", _instance_created),
    "instance-resumed": Phase("efritinstances", _instance_resumed),
    "instance-deleted": Phase("efritinstances", _instance_deleted),
    "pod-created": Phase("pods", _of_pod("ADDED")),
    "pod-has-an-address": Phase("pods", _of_pod("MODIFIED", lambda obj: "podIP" in obj.get("status", {}))),
    "pod-replaced": Phase("pods", _pod_replaced),
    "statefulset-deleted": Phase("statefulsets", _statefulset_deleted),
}

FOR_OTHERS = ("dropped", "reordered", "expired", "ended-and-410", "silent-for-good")
"""What befalls the events of what is not a request, unless everything is asked for."""


def chosen(everything: bool) -> list[tuple[str, str]]:
    """Return which phase is played in which mode."""
    return [
        (name, mode)
        for name, phase in PHASES.items()
        for mode in (MODES if everything or phase.resource == "efritrequests" else FOR_OTHERS)
    ]
