"""Pools of one namespace of a cluster: read, scaled, and looked up before work is sent to one.

What a user may not do, the API server refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from efrit.backend.cluster.api import Api
from efrit.backend.errors import Forbidden, NotFound, PoolNotFound
from efrit.backend.pools import MAX_NAMES, POOL_LABEL, Pool, PoolCondition, PoolFlow, PoolScale, Scaled
from efrit.protocol.times import parse_time
from efrit.resources import EXCLUSIVE_CLAIMS, INSTANCES, POOLS

Json = Mapping[str, Any]

POOL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""What can be the name of a pool or the value of the label: it becomes a part of a URL."""


def pool_of(obj: Json) -> Pool:
    """Return the pool that an EfritPool describes. Pure."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    desired = status.get("desiredReplicas")
    last = status.get("lastScale")
    return Pool(
        meta["name"],
        spec.get("replicas") if desired is None else desired,
        autoscaled=spec.get("autoscaling") is not None,
        members=status.get("replicas") or 0,
        ready=status.get("ready") or 0,
        idle=status.get("idle") or 0,
        busy=status.get("busy") or 0,
        draining=status.get("draining") or 0,
        suspended=status.get("suspended") or 0,
        updated=status.get("updated") or 0,
        pending=status.get("pending") or 0,
        flows=tuple(
            PoolFlow(flow["name"], flow.get("running") or 0, flow.get("pending") or 0)
            for flow in status.get("flows") or ()
        ),
        revision=status.get("revision"),
        conditions=tuple(
            PoolCondition(
                entry["type"], entry.get("status") or "Unknown", entry.get("reason") or "", entry.get("message") or ""
            )
            for entry in status.get("conditions") or ()
        ),
        last_scale=None
        if not last
        else PoolScale(last["from"], last["to"], last.get("reason") or "", parse_time(last.get("time"))),
        created=parse_time(meta.get("creationTimestamp")),
        namespace=meta.get("namespace"),
    )


async def list_pools(api: Api, namespace: str) -> Sequence[Pool]:
    """Return the pools of the namespace, by name; none where the cluster does not know the kind."""
    try:
        return sorted([pool_of(obj) async for obj in api.pages(POOLS, namespace)], key=lambda pool: pool.name)
    except NotFound:
        return []


async def get_pool(api: Api, namespace: str, name: str) -> Pool:
    """Return one pool. Raises `PoolNotFound`."""
    try:
        return pool_of(await api.get(POOLS, namespace, name))
    except NotFound as error:
        raise no_pool(name, namespace) from error


async def scale_pool(api: Api, namespace: str, name: str, replicas: int) -> Scaled:
    """Set how many members the pool is to have. Raises `PoolNotFound`, `Refused` with the API server's sentence."""
    try:
        scale = await api.patch_scale(POOLS, namespace, name, replicas)
    except NotFound as error:
        raise no_pool(name, namespace) from error
    desired = (scale.get("spec") or {}).get("replicas", 0)
    members = (scale.get("status") or {}).get("replicas", 0)
    return Scaled(f"{name} is set to {_members(desired)}; it has {members}", name, desired, members)


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def no_pool(name: str, namespace: str) -> PoolNotFound:
    """Return the error for a pool that is not there."""
    return PoolNotFound(f"there is no pool {name!r} in the namespace {namespace}", "see `efrit pools`")


async def check_pool(api: Api, namespace: str, name: str) -> None:
    """Raise `PoolNotFound` if there is no EfritPool and no instance with its label: a request would wait for ever.

    Who may create requests and read neither is not held up.
    """
    if not await _is_pool(api, namespace, name):
        raise await _unknown_pool(api, namespace, name)


async def _is_pool(api: Api, namespace: str, name: str) -> bool:
    if POOL_NAME.fullmatch(name) is None:
        return False
    try:
        await api.get(POOLS, namespace, name)
    except Forbidden:
        return True
    except NotFound:
        try:
            async for obj in api.pages(INSTANCES, namespace, labelSelector=f"{POOL_LABEL}={name}"):
                if not _is_held(obj):
                    return True
        except Forbidden:
            return True
        return False
    return True


def _is_held(obj: Json) -> bool:
    """Return whether a claim has an instance: it may outlive the pool whose label it has, and takes no work of it."""
    return any(owner.get("kind") == EXCLUSIVE_CLAIMS.kind for owner in obj["metadata"].get("ownerReferences") or ())


async def _unknown_pool(api: Api, namespace: str, name: str) -> PoolNotFound:
    try:
        names = {pool.name for pool in await list_pools(api, namespace)}
        names |= {
            obj["metadata"]["labels"][POOL_LABEL]
            async for obj in api.pages(INSTANCES, namespace, labelSelector=POOL_LABEL)
            if not _is_held(obj)
        }
    except Forbidden:
        names = set()
    message = (
        f"there is no pool {name!r} in the namespace {namespace}, and no instance has the label {POOL_LABEL}={name}"
    )
    if not names:
        return PoolNotFound(message, "create an EfritPool, or leave the pool out")
    listed = sorted(names)
    more = f" and {len(listed) - MAX_NAMES} more" if len(listed) > MAX_NAMES else ""
    return PoolNotFound(message, f"name one of those there are: {', '.join(listed[:MAX_NAMES])}{more}")
