"""Which backend is meant, and opening it: the one place that knows there are two.

A cluster is meant where one is named (`--context`, `--namespace`, `--kubeconfig`, EFRIT_BACKEND=cluster) or where the
program runs in one; this machine otherwise. The cluster's side is imported only when it is used: it is heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from efrit.client.errors import WrongSettings
from efrit.client.interface import Backend

BACKEND_VARIABLE = "EFRIT_BACKEND"


class Place(Struct, frozen=True):
    """Where to work. `backend`: local, cluster, or None to find out; the rest None: the usual ones."""

    backend: str | None = None
    config: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None


def backend_of(place: Place, environment: Mapping[str, str]) -> str:
    """Return `local` or `cluster`. Raises `WrongSettings`."""
    named = place.backend or environment.get(BACKEND_VARIABLE) or None
    if named not in (None, "local", "cluster"):
        raise WrongSettings(f"there is no backend {named!r}", "use local or cluster")
    if named is not None:
        return named
    of_a_cluster = place.kubeconfig or place.context or place.namespace
    return "cluster" if of_a_cluster or "KUBERNETES_SERVICE_HOST" in environment else "local"


async def open_backend(place: Place | None = None, notify: Callable[[str], None] = lambda text: None) -> Backend:
    """Open the backend meant by `place`; close it at the end. `notify` is told what a person has to know.

    Raises `WrongSettings`, `NoCluster`.
    """
    place = place or Place()
    if backend_of(place, os.environ) == "cluster":
        from efrit.client.cluster.backend import connect_cluster

        return await connect_cluster(place.kubeconfig, place.context, place.namespace)
    from efrit.client.local.backend import LocalBackend

    return LocalBackend.configured(place.config, notify)
