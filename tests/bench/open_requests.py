"""`python -m tests.bench.open_requests`: what events cost the controller that holds many open requests.

No cluster: the real store, work queue and decisions, without the actions. Prints, for each kind of event, how
many keys are reconciled because of it and how many milliseconds of a processor they take.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from efrit.api import EfritRequest
from efrit.controller.act.identity import new_identity
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.keys import WorkKey
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.protocol.events import Reset
from tests.support import factory
from tests.support.command_line import parser
from tests.support.factory import CONFIG, NAMESPACE, POD_UID, QUEUE_ID, Json

REQUESTS = 10_000
INSTANCES = (1, 100)
PENDING = 1000


class World:
    """So many instances with ready pods, and the open requests shared out among them; some bound to none."""

    def __init__(self, instances: int, unbound: int) -> None:
        self.queue = WorkQueue()
        self.store = Store(self.queue, CONFIG, _now)
        self.identity = new_identity()
        self.reconciliations = 0
        self.version = 1000
        self.names = [f"i{number}" for number in range(instances)]
        for name in self.names:
            self.store.instances.observe(self.instance(name))
            self.store.children.observe_statefulset(_statefulset(name))
            self.store.children.observe_pod(_pod(name))
        for number in range(REQUESTS):
            target = None if number < unbound else self.names[number % instances]
            chosen: Json = {} if target else {"selector": {"matchLabels": {"no": "such"}}}
            self.store.requests.observe(factory.request_json(f"r{number}", target=target, created=_now(), **chosen))
        for name in self.names:
            key = (NAMESPACE, name)
            self.store.bridges.event(key, POD_UID, Reset(queue_id=QUEUE_ID, epoch="e"))
            self.store.bridges.event(key, POD_UID, factory.stats(pending=PENDING))

    def instance(self, name: str, processed: int = 0, **more: object) -> Json:
        self.version += 1
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        status = {
            "observedGeneration": 1,
            "conditions": [{**ready, "lastTransitionTime": "2026-03-01T12:00:00Z"}],
            "queue": {"processed": processed},
            **more,
        }
        return factory.instance_json(name, version=str(self.version), status=status)

    async def settled(self) -> float:
        """Work off what waits, and return the seconds it took of a processor."""
        began = time.process_time()
        task = asyncio.create_task(self.queue.run(self._look, 32))
        while len(self.queue):  # noqa: ASYNC110 - a reconciliation awaits nothing: what is left is what waits
            await asyncio.sleep(0)
        took = time.process_time() - began
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return took

    async def _look(self, key: WorkKey) -> None:
        self.reconciliations += 1
        where = (key.namespace, key.name)
        if key.kind == EfritRequest.kind:
            request = self.store.requests.snapshot(where)
            if request is not None:
                decide_request(request, _now())
        elif (instance := self.store.instances.snapshot(where)) is not None:
            decide_instance(instance, self.identity, _now())


def _now() -> datetime:
    return datetime.now(UTC)


def _pod(name: str) -> Json:
    labels = {"efrit.dev/instance": name}
    owners = [{"uid": f"set-{name}", "controller": True}]
    meta = {"name": f"efrit-{name}-0", "namespace": NAMESPACE, "uid": POD_UID, "labels": labels}
    return {"metadata": {**meta, "ownerReferences": owners}, "status": {"phase": "Running", "podIP": "127.0.0.1"}}


def _statefulset(name: str) -> Json:
    owners = [{"uid": f"uid-{name}", "controller": True}]
    meta = {"name": f"efrit-{name}", "namespace": NAMESPACE, "uid": f"set-{name}"}
    return {"metadata": {**meta, "labels": {"efrit.dev/instance": name}, "ownerReferences": owners}}


def _events(world: World) -> Iterator[tuple[str, Callable[[], None]]]:
    def all_figures() -> None:
        for name in world.names:
            world.store.instances.observe(world.instance(name, processed=1))

    first = world.names[0]
    key = (NAMESPACE, first)
    yield "figures of all instances written", all_figures
    yield "figures of one instance written", lambda: world.store.instances.observe(world.instance(first, processed=2))
    yield (
        "figures of one bridge come",
        lambda: world.store.bridges.event(key, POD_UID, factory.stats(pending=PENDING, processed=3)),
    )
    yield (
        "one instance falls asleep",
        lambda: world.store.instances.observe(world.instance(first, suspendedIdle=True)),
    )


async def _run() -> None:
    print(f"{REQUESTS} open requests")
    print(f"{'instances':>9} {'unbound':>8}  {'event':<34} {'reconciled':>11} {'ms':>8}")
    for instances in INSTANCES:
        for unbound in (0, REQUESTS // 2):
            world = World(instances, unbound)
            await world.settled()
            for title, tell in _events(world):
                world.reconciliations = 0
                began = time.process_time()
                tell()
                elapsed = time.process_time() - began
                took = elapsed + await world.settled()
                print(f"{instances:>9} {unbound:>8}  {title:<34} {world.reconciliations:>11} {took * 1000:>8.1f}")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    asyncio.run(_run())
