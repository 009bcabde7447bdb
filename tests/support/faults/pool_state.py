"""Whether the pool of a workload and the claims on it are at rest: asks the API server."""

from __future__ import annotations

from efrit.errors import ApiError
from tests.support.faults.pool_workload import ROLLING_UPDATE, PoolSpec
from tests.support.kube import Kube

ENDED_CLAIMS = ("Expired", "Released", "Failed")


def pool_unsettled(kube: Kube, namespace: str, pool: PoolSpec | None) -> str:
    """Return how the pool or a claim is not at rest; empty where all are, or there is no pool."""
    if pool is None:
        return ""
    try:
        seen = kube.get("efritpools", namespace, pool.name)
    except ApiError:
        return f"EfritPool {pool.name} does not exist"
    status = seen.get("status", {})
    wanted, members = status.get("desiredReplicas"), status.get("replicas")
    is_current = status.get("observedGeneration") == seen["metadata"]["generation"]
    # A member that sleeps may still be counted as ready.
    serving = max(status.get("ready", 0), min(status.get("ready", 0) + status.get("suspended", 0), members or 0))
    # Otherwise members of a former template stay.
    updated = status.get("updated") if pool.update == ROLLING_UPDATE else members
    if not is_current or not (wanted == members == serving == updated) or status.get("draining"):
        return f"EfritPool {pool.name}: {status}"
    claims = kube.list("efritclaims", namespace)
    waiting = [claim for claim in claims if claim.get("status", {}).get("phase") not in ENDED_CLAIMS]
    return f"EfritClaim {waiting[0]['metadata']['name']}: {waiting[0].get('status')}" if waiting else ""
