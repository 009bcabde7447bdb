"""Exclusive claims of one namespace of a cluster: made, read, followed and released.

What a user may not do, the API server refuses.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from efrit.backend.claims import Claim, NewClaim
from efrit.backend.cluster.api import Api
from efrit.backend.cluster.pools import get_pool
from efrit.backend.cluster.watch_object import states_of
from efrit.backend.errors import ClaimNotFound, Conflict, Forbidden, NotFound, Refused
from efrit.backend.resource_fields import EnumReader, condition
from efrit.protocol.enums import ClaimPhase
from efrit.protocol.times import parse_time
from efrit.resources import EXCLUSIVE_CLAIMS

Json = Mapping[str, Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
"""What can be the name of a claim: it becomes a part of a URL and a label."""


def claim_of(obj: Json) -> Claim:
    """Return the claim that an EfritClaim describes. Pure."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    ready, enums = condition(obj, "Ready"), EnumReader()
    phase = enums.read(ClaimPhase, status.get("phase"), "phase")
    if phase is None:
        phase = ClaimPhase.BOUND if ready.get("status") == "True" else ClaimPhase.PENDING
    return Claim(
        meta["name"],
        spec["poolRef"]["name"],
        phase,
        ready=ready.get("status") == "True",
        reason=ready.get("reason") or "",
        message=enums.named_in(ready.get("message") or ""),
        instance=status.get("instanceName"),
        holder=spec.get("holder"),
        recycle=spec.get("release") != "Return",
        attach=status.get("attach"),
        bound=parse_time(status.get("boundTime")),
        expires=parse_time(status.get("expirationTime")),
        created=parse_time(meta.get("creationTimestamp")),
        namespace=meta.get("namespace"),
    )


def manifest(new: NewClaim, name: str) -> Json:
    """Return the EfritClaim of a claim to be. Pure."""
    spec = {
        "poolRef": {"name": new.pool},
        "holder": new.holder,
        "ttlSeconds": None if new.ttl is None else math.ceil(new.ttl),
        "release": None if new.recycle else "Return",
    }
    spec = {field: value for field, value in spec.items() if value is not None}
    return EXCLUSIVE_CLAIMS.manifest({"name": name}, spec=spec)


async def list_claims(api: Api, namespace: str) -> Sequence[Claim]:
    """Return the claims of the namespace, by name; none where the cluster does not know the kind."""
    try:
        return sorted(
            [claim_of(obj) async for obj in api.pages(EXCLUSIVE_CLAIMS, namespace)], key=lambda one: one.name
        )
    except NotFound:
        return []


async def get_claim(api: Api, namespace: str, name: str) -> Claim:
    """Return one claim. Raises `ClaimNotFound`."""
    if _NAME.fullmatch(name) is None:
        raise _no_claim(name, namespace)
    try:
        return claim_of(await api.get(EXCLUSIVE_CLAIMS, namespace, name))
    except NotFound as error:
        raise _no_claim(name, namespace) from error


async def claim_member(api: Api, namespace: str, new: NewClaim) -> Claim:
    """Create a claim, and return it as it is then. Raises `PoolNotFound`, `Refused`, `Conflict` for a name in use."""
    name = f"{new.pool[:54]}-{secrets.token_hex(4)}" if new.name is None else new.name
    if new.name is not None and _NAME.fullmatch(name) is None:
        raise Refused(f"{name!r} cannot be the name of a claim", "use at most 63 lower-case letters, digits, - and .")
    # Who may claim need not see pools.
    with contextlib.suppress(Forbidden):
        await get_pool(api, namespace, new.pool)
    try:
        return claim_of(await api.create(manifest(new, name), namespace))
    except Conflict:
        existing = await get_claim(api, namespace, name)
        if existing.pool == new.pool and not existing.final:
            return existing
        state = f"has ended ({existing.phase})" if existing.final else f"is of the pool {existing.pool}"
        raise Conflict(f"there is a claim {name} already, which {state}", "choose another name") from None


def watch_claim(api: Api, namespace: str, name: str) -> AsyncIterator[Claim]:
    """Yield the states of a claim as they change, the final one last. Raises `ClaimNotFound`."""
    return states_of(api, EXCLUSIVE_CLAIMS, namespace, name, claim_of, lambda: _no_claim(name, namespace))


async def release_claim(api: Api, namespace: str, name: str) -> Claim:
    """Set spec.released, and return the claim as it is then; one that has ended stays as it is."""
    claim = await get_claim(api, namespace, name)
    if claim.final:
        return claim
    try:
        return claim_of(await api.patch(EXCLUSIVE_CLAIMS, namespace, name, {"spec": {"released": True}}))
    except NotFound as error:
        raise _no_claim(name, namespace) from error


def _no_claim(name: str, namespace: str) -> ClaimNotFound:
    return ClaimNotFound(f"there is no claim {name!r} in the namespace {namespace}", "see `efrit claims`")
