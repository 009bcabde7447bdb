"""An actor between a fake API server, a fake bridge and a store that listens; what its tests have it act on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from efrit import resources
from efrit.controller.act.actor import Actor
from efrit.controller.decide.queue_request import queue_request
from efrit.controller.model.actions import PatchStatus, Submit, Superseded
from efrit.controller.model.keys import WorkKey
from tests.support.factory import NOW, Json, instance, request, seconds
from tests.unit.controller.fake_api import FakeApi
from tests.unit.controller.fake_bridge import INSTANCE, FakeBridge
from tests.unit.controller.recorded_store import RecordedStore

REQUEST = ("team", "work")
UID = "uid-work"
ONE = f"/v1/requests/{UID}"
WORK = resources.REQUESTS.path("team", "work")
APP = resources.PLANS.path("team", "app")
APP_KEY = ("team", "app")
ALPHA = resources.INSTANCES.path("team", "alpha")


RECONCILED = WorkKey("EfritRequest", "team", "work")


@dataclass
class Rig:
    """An actor between a fake API server, a fake bridge and a sink that listens."""

    actor: Actor
    api: FakeApi
    bridge: FakeBridge
    recorded: RecordedStore
    lost: asyncio.Event
    """Set once the lease may be somebody else's."""

    async def does(self, action: Any) -> bool:
        """Carry out an action, and return whether the rest of its decision stands."""
        try:
            await self.actor.carry_out(RECONCILED, action)
        except Superseded:
            return False
        return True


def patch(status: Json, *, version: str, old: Json | None = None, kind: Any = "EfritRequest") -> PatchStatus:
    if kind == "EfritInstance":
        return PatchStatus(kind, INSTANCE, "uid-alpha", version, status, old or {})
    return PatchStatus(kind, REQUEST, UID, version, status, old or {}, NOW - seconds(1))


LATER = timedelta(hours=1)
SUBMIT = Submit(INSTANCE, REQUEST, queue_request(request(), instance()), "handover-1")
