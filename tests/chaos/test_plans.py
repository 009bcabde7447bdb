"""Every write of a plan, under what can befall a call: the same steps, each once, and an end that is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.model.running import Model, running
from tests.plans.script import Script
from tests.support import plans
from tests.support.faults.api_proxy.proxy import Proxy
from tests.support.faults.api_proxy.rules import Fate, Fault
from tests.support.kube import Json, Kube, until
from tests.support.model_access import secret, with_model
from tests.support.operator import Operator
from tests.support.plans import begin
from tests.support.site import FINAL, Site

pytestmark = pytest.mark.timeout(300)

FATES = (
    Fate.KILL_BEFORE_SEND,
    Fate.KILL_AFTER_COMMIT,
    Fate.LOST_REPLY,
    Fate.RESET,
    Fate.CONFLICT_409,
    Fate.TOO_MANY_429,
    Fate.ERROR_500,
)
HITS = 3


@dataclass
class Room:
    """A site whose controller sees the API server through a proxy, and a model."""

    site: Site
    proxy: Proxy
    operator: Operator
    model: Model

    def end(self, name: str) -> Json:
        """Wait for the end of a plan, and start a controller that has ended again, as the kubelet does."""

        def reached() -> Json | None:
            if self.operator.ended:
                self.operator.launch()
            found = plans.status(self.site, name)
            return found if found.get("phase") in FINAL else None

        return until(reached, lambda: f"{name} does not end: {plans.told(self.site, name)}", 180)


@pytest.fixture(scope="module")
def room(plane: ControlPlane, kube: Kube, audit_log: Path, lisp: Path) -> Iterator[Room]:
    site, proxy = Site(plane, kube, audit_log, lisp), Proxy(plane)
    proxy.start()
    try:
        operator = site.operator(server=proxy.url)
        proxy.victim = operator.kill
        operator.start()
        with running() as model:
            secret(kube, site.namespace, "key")
            site.instance("one", model=with_model(model))
            yield Room(site, proxy, operator, model)
    finally:
        site.close()
        proxy.close()


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize(
    ("verb", "resource", "sub"),
    [("create", "efritrequests", ""), ("patch", "efritplans", "status")],
    ids=["its requests", "its status"],
)
def test_a_plan_comes_to_its_end_whatever_befalls_its_writes(
    room: Room, verb: str, resource: str, sub: str, fate: Fate
) -> None:
    name = f"p-{resource[5:-1]}-{fate.value}"
    script = Script(room.model, name)
    script.act("write", {f"plans/{name}/environment/greeting.txt": "Good day.\n"})
    script.done("write", "root")
    armed = room.proxy.arm(Fault(fate, verb, resource, sub, skip=1, times=HITS, seconds=0.2))
    begin(room.site, name, script.intent, "write")
    status = room.end(name)
    room.proxy.heal()
    assert armed.struck.is_set()
    assert (status["phase"], status["reason"]) == ("Succeeded", "Succeeded"), plans.told(room.site, name)
    assert plans.steps(room.site, name) == [0, 1, 2, 3]
    names = [each["metadata"]["name"] for each in plans.parts(room.site, name)]
    assert len(names) == len(set(names)) == 9
