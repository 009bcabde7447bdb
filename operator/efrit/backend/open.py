"""Opens the backend that is meant: the one place that knows there are two."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from efrit.backend.interface import Backend
from efrit.backend.local.backend import LocalBackend
from efrit.backend.place import Place, backend_of
from efrit.entry_point import load_entry_point


async def open_backend(place: Place | None = None, notify: Callable[[str], None] = lambda text: None) -> Backend:
    """Open the backend meant by `place`; close it at the end. `notify` gets what a person has to know.

    Raises `WrongSettings`, `NoCluster`.
    """
    place = place or Place()
    if backend_of(place, os.environ) == "cluster":
        connect: Callable[..., Awaitable[Backend]] = load_entry_point("efrit.backend.cluster.backend:connect_cluster")
        return await connect(place.kubeconfig, place.context, place.namespace)
    return LocalBackend.configured(place.config, notify)


def cluster_contexts(place: Place) -> list[str]:
    """Return the contexts of the kubeconfig that `place` names. Raises OSError, ValueError."""
    contexts: Callable[..., list[str]] = load_entry_point("efrit.backend.cluster.names:contexts")
    return contexts(place.kubeconfig)


async def cluster_namespaces(place: Place) -> list[str]:
    """Return the namespaces of the cluster. Raises `ClientError`, `Forbidden` without the right to list."""
    namespaces: Callable[..., Awaitable[list[str]]] = load_entry_point("efrit.backend.cluster.names:namespaces")
    return await namespaces(place.kubeconfig, place.context)
