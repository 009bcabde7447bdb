"""Keys: how objects are named in the store, in actions and on the work queue."""

from __future__ import annotations

from typing import NamedTuple

from efrit.api import EfritRequest

Key = tuple[str, str]
"""Namespace and name."""


class WorkKey(NamedTuple):
    """What to reconcile: a kind of resource, a namespace, a name."""

    kind: str
    namespace: str
    name: str


RESYNC = "Resync"
"""Kind of the key that has the children of an instance applied again."""


def pool_key(request: EfritRequest) -> Key | None:
    """Return the pool that a request names."""
    pool = request.spec.pool_ref
    return (request.metadata.namespace, pool.name) if pool is not None else None


def target_of(request: EfritRequest) -> Key | None:
    """Return the instance a request is bound to, or None while none is chosen."""
    name = request.status.instance_name
    if name is None and request.spec.instance_ref is not None:
        name = request.spec.instance_ref.name
    return (request.metadata.namespace, name) if name else None
