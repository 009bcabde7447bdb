"""Whose requests a controller reads before its lists: not those of one namespace alone. The API server is real."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

from efrit.controller.act.kube import Kube as ControllerKube
from efrit.controller.head_start import PAGE_REQUESTS, read_first
from efrit.controller.model.config import ControllerConfig
from efrit.controller.store.store import Store
from efrit.controller.work_queue import WorkQueue
from efrit.kube.connection import load_connection
from tests.cluster.control_plane import ControlPlane
from tests.support.crowd import objects
from tests.support.custom_resources import new_namespace
from tests.support.kube import Kube
from tests.support.timeout import TIMEOUT


async def test_a_namespace_full_of_requests_keeps_none_of_another_from_being_read_at_first(
    plane: ControlPlane, kube: Kube
) -> None:
    loud, quiet = sorted(new_namespace(kube) for _ in range(2))
    many = (objects.request(f"r{number:04}", loud, "one", 1000) for number in range(3 * PAGE_REQUESTS))
    objects.store(plane.ports.etcd, [*many, objects.request("one", quiet, "one", 1000)])
    api = ControllerKube((await load_connection(plane.kubeconfig)).configuration)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(api.close)
        first: list[tuple[str, str]] = []
        async with asyncio.timeout(TIMEOUT):
            # Of a busy API server it reads for five seconds what it can.
            while (loud, "r0000") not in first:
                store = Store(WorkQueue(), ControllerConfig("bridge", "emacs"), lambda: datetime.now(UTC))
                await read_first(api, store, None, shuffle=lambda names: names.sort(key=lambda name: name != quiet))
                first = list(store.requests.open_uids())
                assert first[:1] in ([], [(quiet, "one")])
