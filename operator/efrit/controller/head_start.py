"""Reads what the first requests need before the mass of a namespace is listed: each its own instance, no other.

At a start beside a thousand instances, their lists take seconds. Here the first page of open requests is read, and
of a few of their instances what a decision about them rests on: the object, its StatefulSet, pod and claims. Those
are served from then on (`store/early.py`), while the resync reads all the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.keys import Key, target_of
from efrit.controller.store.store import Store
from efrit.errors import ApiError
from efrit.kube.resources import CLAIMS, INSTANCES, PODS, REQUESTS, STATEFULSETS, Resource

log = logging.getLogger(__name__)

MOST_REQUESTS = 16
"""Requests that are read: of the largest as many fit into a page."""
MOST_INSTANCES = 4
"""Instances that are read, each with five calls."""
READ_SECONDS = 5.0
"""How long the mass waits for what is read here, at most: where the API server is slow, there is no head start."""
HEAD_START_SECONDS = 2.0
"""How long the mass waits for the first answer, at most: reading it takes the processor that the answer needs."""

Observe = Callable[[Mapping[str, Any]], None]


async def read_first(kube: Kube, store: Store, scope: str | None, seconds: float = HEAD_START_SECONDS) -> None:
    """Have the first open requests of a namespace served, of the whole cluster where `scope` is None.

    Returns after the first answer, or so many seconds later. What cannot be read, or not soon, waits for the lists,
    which say why: nothing here keeps them from beginning.
    """
    try:
        async with asyncio.timeout(READ_SECONDS):
            targets = await _first_targets(kube, store, scope)
            served = await asyncio.gather(*(_serve(kube, store, key) for key in targets))
    except (ApiError, TimeoutError) as error:  # gate: head-start-fails
        log.info("the first requests wait for the lists: %r", error)
        return
    if any(served):
        await store.early.first_answer(seconds)  # gate: head-start


async def _first_targets(kube: Kube, store: Store, scope: str | None) -> list[Key]:
    """Read some open requests, and return the instances of the first of them."""
    targets: dict[Key, None] = {}
    pages = kube.pages(REQUESTS, scope, fieldSelector=names.OPEN_SELECTOR, limit=str(MOST_REQUESTS))
    read = 0
    async for obj in pages:
        store.requests.observe(obj)
        known = store.requests.snapshot((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        target = target_of(known.request) if known is not None else None
        if target is not None and len(targets) < MOST_INSTANCES:
            targets[target] = None
        read += 1
        if read == MOST_REQUESTS:
            break
    return list(targets)


async def _serve(kube: Kube, store: Store, key: Key) -> bool:
    """Read an instance with its children and have it served early; return whether it is."""
    namespace, name = key
    children = store.children
    pod, statefulset = names.pod_name(name), names.statefulset_name(name)
    wanted: list[tuple[Resource, str, Observe]] = [
        (STATEFULSETS, statefulset, children.observe_statefulset),
        (PODS, pod, children.observe_pod),
        *((CLAIMS, claim, children.observe_claim) for claim in names.claim_names(name)),
    ]
    try:
        for resource, child, observe in wanted:
            # A list of one: the controller may get no pods and StatefulSets, but list them.
            found = kube.pages(
                resource, namespace, fieldSelector=f"metadata.name={child}", labelSelector=names.CHILD_SELECTOR
            )
            async for obj in found:
                observe(obj)
        store.instances.observe(await kube.get(INSTANCES, namespace, name))
    except ApiError as error:
        log.debug("%s/%s waits for the lists: %s", namespace, name, error)
        return False
    return store.early.add(key)
