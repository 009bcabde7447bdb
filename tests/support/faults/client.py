"""What users do in a run, and what is noted of it: the same on every tier.

`ask`, `make` and `wish` may block while the API server is away: they are called from a thread of their own. The stage
of each tier adds the faults.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import httpx

from tests.support.faults.history import Loss, Note, Submitted
from tests.support.faults.light.cluster import Ground
from tests.support.faults.schedule import Do, Plan, Step
from tests.support.faults.workload import InstancePlan, SuspendedPlan, Work
from tests.support.kube import Json, Refused

SUSPENDED = "suspended"
"""Resumed at once, an instance may keep its pod."""
TRY_AGAIN = (429, 500, 502, 503, 504)


class Clock:
    """Seconds since the run began; 0 until then."""

    def __init__(self) -> None:
        self._began: float | None = None
        self.epoch = 0.0

    def start(self) -> None:
        self._began, self.epoch = time.monotonic(), time.time()

    def __call__(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began


class Hand:
    """The hand of the users of one run, in `namespace`; everything here may be used from any thread."""

    ground: Ground
    namespace: str

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock()
        self.notes: list[Note] = []
        self.losses: list[Loss] = []
        self._open_losses: list[tuple[int, str]] = []
        self.submitted: list[Submitted] = []
        self.made_at: dict[str, float] = {}
        self.namespace_deleted = False
        self.hits: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, actor: str, event: str, *, request: str = "", instance: str = "", fault: bool = False) -> None:
        with self._lock:
            self.notes.append(Note(self.clock(), actor, event, request, instance, fault))

    # The user's hand: may block, in a thread of its own

    def make(self, instance: InstancePlan) -> None:
        """Create an instance."""
        if instance.name in self.made_at:
            return
        self.note("user", "creates the instance", instance=instance.name)
        self._insist(lambda: self._create("efritinstances", instance.manifest()))
        self.made_at[instance.name] = self.clock()

    def make_plan(self, plan: SuspendedPlan) -> None:
        """Create a plan that is suspended."""
        self.note("user", f"creates the suspended plan {plan.name}", instance=plan.instance)
        self._insist(lambda: self._create("efritplans", plan.manifest()))

    def ask(self, work: Work) -> None:
        """Create a request."""
        began = self.clock()
        made = self._insist(lambda: self._create("efritrequests", work.manifest()))
        if made is None:
            self.note("user", "could not create it: the namespace goes", request=work.name)
            return
        with self._lock:
            self.submitted.append(
                Submitted(
                    namespace=self.namespace,
                    name=work.name,
                    uid=made["metadata"]["uid"],
                    at=began,
                    word=work.word,
                    instances=work.instances(self.plan.instances),
                    ends=work.ends(),
                    attempts=work.attempts,
                    deleted=work.deleted,
                    goes=work.ttl is not None,
                )
            )

    def wish(self, step: Step) -> None:
        """Do what a user does to something that exists."""
        kube, where, name = self.ground.kube, self.namespace, step.target
        of_request = step.do in (Do.CANCEL, Do.DELETE)
        request, instance = (name, "") if of_request else ("", name)
        self.note("user", step.do.value, request=request, instance=instance)
        began = self.clock()

        def change(**spec: object) -> Json | None:
            return self._insist(lambda: kube.patch("efritinstances", where, name, {"spec": spec}))

        match step.do:
            case Do.CANCEL:
                body = {"spec": {"cancel": True}}
                self._insist(lambda: kube.patch("efritrequests", where, name, body))
            case Do.DELETE:
                self._delete("efritrequests", name)
            case Do.SUSPEND:
                self._lose(name, began, None, SUSPENDED, queue=True)
                change(operatingMode="Suspended")
            case Do.RESUME:
                change(operatingMode="Running")
            case Do.CHANGE:
                self._lose(name, began, None, "its pod template was changed", queue=True, held=True)
                change(emacs=self.other_emacs())
            case Do.DELETE_NAMESPACE:
                self.namespace_deleted = True
                self._insist(lambda: kube.call("DELETE", f"/api/v1/namespaces/{where}"))
        self.note("user", f"{step.do.value}: done", request=request, instance=instance)

    def _create(self, plural: str, manifest: Json) -> Json:
        try:
            return self.ground.kube.create(plural, self.namespace, manifest, fieldValidation="Strict")
        except Refused as error:
            # An earlier try that was not answered was heard.
            if error.status == 409:
                return self.ground.kube.get(plural, self.namespace, manifest["metadata"]["name"])
            raise

    def _delete(self, plural: str, name: str) -> None:
        path = self.ground.kube.path(plural, self.namespace, name)
        self._insist(lambda: self.ground.kube.call("DELETE", path))

    def _insist(self, call: Callable[[], Json]) -> Json | None:
        """Try until the API server has answered; None where what it is about is gone."""
        while True:
            try:
                return call()
            except Refused as error:
                gone = error.status == 404 or (error.status in (403, 409) and self.namespace_deleted)
                if gone:
                    return None
                if error.status not in TRY_AGAIN:
                    raise
            except httpx.TransportError:
                pass
            time.sleep(0.1)

    def other_emacs(self) -> Json:
        """Return a change of spec.emacs that needs a new pod."""
        return {"daemonName": f"d{round(self.clock() * 1000)}"}

    # What was lost

    def _lose(
        self,
        instance: str,
        begin: float,
        end: float | None,
        cause: str,
        *,
        queue: bool = False,
        held: bool = False,
    ) -> None:
        """Note that an Emacs ended; `queue`: a queue that lives in the pod went with it. No end: with the pod."""
        ephemeral = any(each.name == instance and each.ephemeral_queue for each in self.plan.instances)
        found = Loss(self.namespace, instance, begin, end or float("inf"), cause, queue and ephemeral, held=held)
        serving = self.serving(instance)
        with self._lock:
            self._open_losses += [(len(self.losses), serving)] if end is None else []
            self.losses.append(found)

    def serving(self, instance: str) -> str:
        """Return which pod's Emacs serves an instance, empty while none does or it is not known."""
        return ""

    @property
    def awaits_pods(self) -> bool:
        """Whether a pod is to be replaced that serves still: what that takes from a queue it has yet to put back."""
        with self._lock:
            return any(before and self.losses[index].cause != SUSPENDED for index, before in self._open_losses)

    def close_losses(self) -> None:
        """End those that wait for their pod to be replaced, where it has been."""
        with self._lock:
            waiting, self._open_losses = self._open_losses, []
        for index, before in waiting:
            now = self.serving(self.losses[index].instance)
            replaced = before and now and now != before
            with self._lock:
                if replaced:
                    self.losses[index] = replace(self.losses[index], end=self.clock())
                else:
                    self._open_losses.append((index, before))

    def _is_instance(self, name: str) -> bool:
        return any(each.name == name for each in self.plan.instances)

    def closed_losses(self, ended_at: float) -> tuple[Loss, ...]:
        return tuple(each if each.end < ended_at else replace(each, end=ended_at) for each in self.losses)
