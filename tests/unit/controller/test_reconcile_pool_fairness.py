"""Flows of a pool whose members, and not the processors, are what there is too little of: who gets the next place.

Through the real store and the real decisions. Members are played: each works on one request at a time, in the order
in which it got them, and all take as long, in a time of their own that no clock measures.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

import pytest

from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import Bind
from efrit.protocol.events import Reset
from tests.support.bench.flow_history import jain_of, windows
from tests.support.factory import NAMESPACE, POD_UID, QUEUE_ID, Json, statefulset_json, stats
from tests.unit.controller.store.test_pools import member_json, pool_json, pool_request
from tests.unit.controller.store.world import World, child

pytestmark = pytest.mark.virtual_time

MEMBERS = 5
FLOWS = ("f0", "f1", "f2", "f3")
EACH = 30
TURNS = 10


class Crew:
    """A pool of members that work, one request after the other, and its requests."""

    def __init__(self, world: World, places: int) -> None:
        self._world, self._requests = world, dict[str, Json]()
        self._versions = 100
        self._work: dict[str, deque[str]] = {f"m{number}": deque() for number in range(MEMBERS)}
        self._ends: list[tuple[float, str]] = []
        self.now = 0.0
        self.bound: list[str] = []
        """Requests that have got a member, in this order."""
        world.store.pools.observe(
            pool_json(replicas=MEMBERS, placement={"maxLoadPerInstance": places}, fairness={"flowLabel": "flow"})
        )
        world.store.first_list_complete(None)
        for name in self._work:
            self._show(name)

    def _show(self, name: str) -> None:
        """Show a member that is Ready, and what its bridge says."""
        self._world.store.instances.observe(member_json(name))
        self._world.store.children.observe_statefulset(statefulset_json(name))
        pod = child(of=name, name=f"efrit-{name}-0", phase="Running", podIP="127.0.0.1")
        self._world.store.children.observe_pod(pod)
        for event in (Reset(queue_id=QUEUE_ID, epoch="e"), stats()):
            self._world.store.bridges.event((NAMESPACE, name), POD_UID, event)

    def ask(self, name: str) -> None:
        """Create a request whose flow is its name up to the dash."""
        self._requests[name] = pool_request(name, labels={"flow": name.partition("-")[0]})
        self._world.store.requests.observe(self._requests[name])

    async def place(self) -> None:
        """Give members what they get now."""
        while True:
            due = await self._world.due_names("Request")
            bindings = [binding for name in sorted(due) for binding in self._bindings(name)]
            if not bindings:
                return
            for binding in bindings:
                self._bind(binding)

    def _bindings(self, name: str) -> Iterator[Bind]:
        """Yield what is decided about a request, and count it at once, as the controller does while writing it."""
        snapshot = self._world.store.requests.snapshot((NAMESPACE, name))
        for action in decide_request(snapshot, self._world.now()) if snapshot is not None else ():
            if isinstance(action, Bind):
                self._world.store.requests.assume(action.key, action.instance)
                yield action

    def _bind(self, action: Bind) -> None:
        name, member = action.key[1], action.instance[1]
        self._observe(name, {"instanceName": member, "phase": "Running"})
        self.bound.append(name)
        self._work[member].append(name)
        if len(self._work[member]) == 1:
            self._begin(member)

    def _begin(self, member: str) -> None:
        heapq.heappush(self._ends, (self.now + 1, member))

    def _observe(self, name: str, status: Json) -> None:
        self._versions += 1
        stored = self._requests[name]
        stored = {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(self._versions)}}
        self._world.store.requests.observe({**stored, "status": status})

    def end_next(self) -> str:
        """Have the request end that does next, and return its name."""
        self.now, member = heapq.heappop(self._ends)
        name = self._work[member].popleft()
        if self._work[member]:
            self._begin(member)
        self._observe(name, {"instanceName": member, "phase": "Succeeded"})
        return name


@pytest.mark.parametrize("places", [1, 2])
async def test_equal_flows_share_the_members_equally_all_the_time(world: World, places: int) -> None:
    crew = Crew(world, places)
    # One flow after the other: whoever comes first must not be served first.
    for flow in FLOWS:
        for number in range(EACH):
            crew.ask(f"{flow}-{number}")
    await crew.place()
    ends = []
    # Up to then each of them has some that wait.
    while len(crew.bound) < len(FLOWS) * (EACH - 1):
        ends.append(crew.end_next().partition("-")[0])
        await crew.place()

    assert jain_of(ends, FLOWS) >= 0.95
    assert min(jain_of(window, FLOWS) for window in windows(ends, TURNS * len(FLOWS))) >= 0.95


@pytest.mark.parametrize("places", [1, 2])
async def test_a_request_beside_a_long_flow_gets_the_next_place_that_becomes_free(world: World, places: int) -> None:
    crew = Crew(world, places)
    for number in range(40):
        crew.ask(f"loud-{number}")
    await crew.place()
    for number in range(8):
        # The flow has every place, and more that waits.
        for _ in range(3):
            crew.end_next()
            await crew.place()
        before = list(crew.bound)
        crew.ask(f"quiet-{number}")
        await crew.place()
        assert crew.bound == before, "a member had room though the flow waits"
        crew.end_next()
        await crew.place()
        assert crew.bound == [*before, f"quiet-{number}"]
