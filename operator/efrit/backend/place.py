"""Where to work, and which backend that means: a cluster where one is named or where the program runs in one.

`--context`, `--namespace`, `--kubeconfig` or EFRIT_BACKEND=cluster name a cluster; otherwise it is this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from efrit.backend.errors import WrongSettings

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
