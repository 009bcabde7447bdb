"""Writes thousands of requests and claims into etcd, as the API server had stored them, many in one transaction."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx

from efrit.api.meta import rfc3339
from efrit.protocol import RequestReason
from efrit.resources import EXCLUSIVE_CLAIMS, REQUESTS, Resource
from tests.support.timeout import TIMEOUT

Json = dict[str, Any]
TRANSACTION_BYTES = 1_000_000
"""etcd takes a megabyte and a half."""
MAX_OPERATIONS = 100
PLURALS = {resource.kind: resource.plural for resource in (REQUESTS, EXCLUSIVE_CLAIMS)}


def request(name: str, namespace: str, target: str, size: int, **spec: Any) -> Json:
    """Return an open eval with a content of so many bytes."""
    content = f'"{"x" * (size - 2)}"'
    return _stored(name, namespace, {"instanceRef": {"name": target}, "type": "eval", "content": content, **spec})


def waiting(name: str, namespace: str, target: str, size: int, reason: RequestReason) -> Json:
    """Return an open eval that has said why it waits."""
    phase = "Queued" if reason is RequestReason.QUEUED else "Pending"
    status = {"phase": phase, "reason": reason.value, "instanceName": target, "attempt": 0}
    return {**request(name, namespace, target, size), "status": status}


def finished(name: str, namespace: str, target: str, ttl: int) -> Json:
    """Return a small eval that has just succeeded and is to be deleted after `ttl` seconds."""
    spec = {"instanceRef": {"name": target}, "type": "eval", "content": "(+ 1 2)", "ttlSecondsAfterFinished": ttl}
    now = rfc3339(datetime.now(UTC))
    status = {"phase": "Succeeded", "reason": "Succeeded", "result": "3", "completionTime": now}
    return {**_stored(name, namespace, spec), "status": {**status, "instanceName": target}}


def of_pool(name: str, namespace: str, pool: str, **labels: str) -> Json:
    """Return an open eval of a pool."""
    stored = _stored(name, namespace, {"poolRef": {"name": pool}, "type": "eval", "content": "(+ 1 2)"})
    stored["metadata"]["labels"] = labels
    return stored


def claim(name: str, namespace: str, pool: str) -> Json:
    """Return an exclusive claim of a member of a pool."""
    return _stored(name, namespace, {"poolRef": {"name": pool}}, EXCLUSIVE_CLAIMS)


def affinity(size: int, *, random: bool) -> Json:
    """Return an affinity of about so many bytes of JSON: labels with two values each, whose names may be random."""
    expressions: list[Json] = []
    remaining = size
    while remaining > 0:
        name = secrets.token_hex(30) if random else f"example.org/label-{len(expressions)}"
        expressions.append({"key": name, "operator": "In", "values": ["yes", "true"]})
        remaining -= len(json.dumps(expressions[-1], separators=(",", ":"))) + 1
    terms = [{"matchExpressions": expressions[first : first + 60]} for first in range(0, len(expressions), 60)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _stored(name: str, namespace: str, spec: Json, resource: Resource = REQUESTS) -> Json:
    meta = {"name": name, "namespace": namespace, "uid": str(uuid.uuid4()), "generation": 1}
    meta["creationTimestamp"] = rfc3339(datetime.now(UTC))
    return resource.manifest(meta, spec=spec)


def store(etcd_port: int, objects: Iterable[Json]) -> int:
    """Store requests and claims; return how many they were."""
    count = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{etcd_port}", timeout=TIMEOUT, trust_env=False) as client:
        for operations in _transactions(objects):
            client.post("/v3/kv/txn", json={"success": operations}).raise_for_status()
            count += len(operations)
    return count


def _transactions(objects: Iterable[Json]) -> Iterator[list[Json]]:
    operations: list[Json] = []
    size = 0
    for obj in objects:
        value = json.dumps(obj).encode()
        if operations and (size + len(value) > TRANSACTION_BYTES or len(operations) == MAX_OPERATIONS):
            yield operations
            operations, size = [], 0
        meta = obj["metadata"]
        plural = PLURALS[obj["kind"]]
        key = f"/registry/{REQUESTS.group}/{plural}/{meta['namespace']}/{meta['name']}"
        put = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}
        operations.append({"requestPut": put})
        size += len(value)
    if operations:
        yield operations
