"""A watch that is left, on a real API server: its connection is closed before the program that left it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc

from efrit.kube.client import KubeClient
from efrit.kube.connection import load_connection
from efrit.resources import REQUESTS
from tests.cluster.control_plane import ControlPlane
from tests.support.custom_resources import new_namespace
from tests.support.kube import Kube


def test_a_watch_that_is_left_leaves_no_connection_behind(plane: ControlPlane, kube: Kube) -> None:
    """An open socket that is collected is a warning, and so an error."""
    namespace = new_namespace(kube)
    spec = {"instanceRef": {"name": "one"}, "type": "eval", "content": "1"}
    kube.create("efritrequests", namespace, {"metadata": {"name": "seen"}, "spec": spec})

    async def leave() -> str:
        client = KubeClient((await load_connection(plane.kubeconfig)).configuration, field_manager="test")
        try:
            async with contextlib.aclosing(client.watch(REQUESTS, namespace, "0")) as events:
                async for _, obj in events:
                    return str(obj["metadata"]["name"])
        finally:
            await client.close()
        return ""

    assert asyncio.run(leave()) == "seen"
    gc.collect()
