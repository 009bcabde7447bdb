"""kopf's part: watches instances and hands every event to the store. Nothing else.

Only `on.event` is used: no finalizer, no annotation, no handler state in anybody's object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import kopf

from efrit.controller.store.store import Store
from efrit.controller.watch.kopf_session import session
from efrit.resources import INSTANCES, Resource

CHUNK_SIZE = 16
"""Instances of a page: each may have more than a megabyte, and all of them are decoded at once."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing of what an object was like before: nobody asks what has changed.

    kopf's own copies the object of each event twice, which may have more than a megabyte.
    """

    def build(self, **_: object) -> kopf.BodyEssence:
        """Return that there is nothing to compare."""
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> None:
        """Return that nothing was stored."""

    def store(self, **_: object) -> None:
        """Store nothing."""


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings: watch, post nothing, scan nothing, compare nothing."""
    result = kopf.OperatorSettings()
    result.persistence.diffbase_storage = NoDiffBase()
    # kopf holds the objects of a page, and the last one of each worker, whole until the worker ends.
    result.queueing.idle_timeout = 0.05
    result.posting.enabled = False
    result.posting.loggers = False
    result.scanning.disabled = True
    result.peering.standalone = True
    result.watching.chunk_size = CHUNK_SIZE
    result.watching.initial_streaming = False
    result.watching.connect_timeout = 10
    result.watching.server_timeout = 300
    result.watching.client_timeout = 330
    # kopf would kill the process so long after a watch was stopped, which here is one of several.
    result.process.ultimate_exiting_timeout = None
    result.networking.connect_timeout = 10
    result.networking.request_timeout = 60
    return result


def registry(store: Store) -> kopf.OperatorRegistry:
    """Return kopf's registry with one event handler."""
    result = kopf.OperatorRegistry()
    for name, login in (("service-account", login_with_service_account), ("kubeconfig", kopf.login_with_kubeconfig)):
        kopf.on.login(registry=result, id=name)(_with_session(login))
    _watch(result, INSTANCES, store.instances.observe_event, store.instances.observe_left)
    return result


def login_with_service_account(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Return the connection of the pod's service account, None outside of a pod.

    At the address that the kubelet gives to each container, as every other client does: kopf's own is a name, and a
    new leader would not watch instances as long as nobody answers for names, as after an outage of the node.
    """
    info = kopf.login_with_service_account(**arguments)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if info is None or not host or not port:
        return info
    return replace(info, server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")


def _with_session(login: Callable[..., kopf.ConnectionInfo | None]) -> Callable[..., kopf.AiohttpSession | None]:
    def connection(**arguments: Any) -> kopf.AiohttpSession | None:
        return session(login(**arguments))

    return connection


def _selector(resource: Resource) -> tuple[str, str, str]:
    """Return group, version and plural, by which kopf knows a resource."""
    return resource.group, resource.version, resource.plural


def _watch(
    into: kopf.OperatorRegistry,
    resource: Resource,
    observe: Callable[[Any], None],
    forget: Callable[[Any], None],
) -> None:
    @kopf.on.event(*_selector(resource), registry=into, id=resource.plural)
    async def on_event(event: Mapping[str, Any], **_: object) -> None:
        (forget if event["type"] == "DELETED" else observe)(event["object"])
