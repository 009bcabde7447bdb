"""Opens the backend that is meant: the one place that knows there are two."""

from __future__ import annotations

import os
from collections.abc import Callable

from efrit.client.interface import Backend
from efrit.client.local.backend import LocalBackend
from efrit.client.place import Place, backend_of


async def open_backend(place: Place | None = None, notify: Callable[[str], None] = lambda text: None) -> Backend:
    """Open the backend meant by `place`; close it at the end. `notify` gets what a person has to know.

    Raises `WrongSettings`, `NoCluster`.
    """
    place = place or Place()
    if backend_of(place, os.environ) == "cluster":
        from efrit.client.cluster.backend import connect_cluster

        return await connect_cluster(place.kubeconfig, place.context, place.namespace)
    return LocalBackend.configured(place.config, notify)
