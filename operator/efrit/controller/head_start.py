"""Reads what the first requests need before the mass of a namespace is listed: each its own instance, no other.

At a start beside a thousand instances, their lists take seconds. Here a few open requests are read, and of a few of
their instances what a decision about them rests on: the object, its StatefulSet, pod and claims. Those are served
from then on (`store/early.py`), while the resync reads all the rest.

Which requests these are is by lot among namespaces, and by age within one: a list has the same names first each time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.keys import Key, target_of
from efrit.controller.model.selectors import SELECTORS
from efrit.controller.store.store import Store
from efrit.errors import ApiError, ApiNotFound
from efrit.kube.media_types import METADATA_LIST
from efrit.resources import INSTANCES, PODS, REQUESTS, STATEFULSETS, VOLUME_CLAIMS, Resource

log = logging.getLogger(__name__)

MAX_REQUESTS = 16
"""Requests that are read: of the largest as many fit into a page."""
PAGE_REQUESTS = 100
MAX_PAGES = 4
"""Pages of requests to choose from, their metadata alone."""
MAX_LEFT_OUT = 16
"""Namespaces that a page is read without, those with most requests so far: their names are in the URL."""
MAX_INSTANCES = 4
"""Instances that are read, each with five calls."""
READ_SECONDS = 5.0
"""How long the mass waits for what is read here, at most: where the API server is slow, there is no head start."""
HEAD_START_SECONDS = 2.0
"""How long the mass waits for the first answer, at most: reading it takes the processor that the answer needs."""

Observe = Callable[[Mapping[str, Any]], None]
Json = Mapping[str, Any]


async def read_first(
    kube: Kube,
    store: Store,
    scope: str | None,
    seconds: float = HEAD_START_SECONDS,
    shuffle: Callable[[list[str]], None] = random.shuffle,
) -> None:
    """Have the first open requests of a namespace served, of the whole cluster where `scope` is None.

    Returns after the first answer, or so many seconds later. What cannot be read, or not soon, waits for the lists,
    which say why: nothing here keeps them from beginning.
    """
    try:
        async with asyncio.timeout(READ_SECONDS):
            targets = await _first_targets(kube, store, scope, shuffle)
            served = await asyncio.gather(*(_serve(kube, store, key) for key in targets))
    except (ApiError, TimeoutError) as error:  # gate: head-start-fails
        log.info("the first requests wait for the lists: %r", error)
        return
    if any(served):
        await store.early.first_answer(seconds)  # gate: head-start


async def _first_targets(
    kube: Kube, store: Store, scope: str | None, shuffle: Callable[[list[str]], None]
) -> list[Key]:
    """Read some open requests, and return the instances of the first of them."""
    oldest = await _oldest(kube, scope)
    namespaces = sorted({namespace for namespace, _ in oldest})
    shuffle(namespaces)
    chosen = islice(in_turns(oldest, namespaces), MAX_REQUESTS)
    targets: dict[Key, None] = {}
    for obj in await asyncio.gather(*(_read(kube, key) for key in chosen)):
        if obj is None:
            continue
        store.requests.observe(obj)
        snapshot = store.requests.snapshot((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        target = target_of(snapshot.request) if snapshot is not None else None
        if target is not None and len(targets) < MAX_INSTANCES:
            targets[target] = None
    return list(targets)


def in_turns(requests: Iterable[Key], namespaces: Sequence[str]) -> Iterator[Key]:
    """Yield the first request of each namespace, then the second of each, and so on."""
    of: dict[str, list[Key]] = {namespace: [] for namespace in namespaces}
    for key in requests:
        of[key[0]].append(key)
    for turn in zip_longest(*of.values()):
        yield from (key for key in turn if key is not None)


async def _oldest(kube: Kube, scope: str | None) -> list[Key]:
    """Return open requests, the oldest first: of a namespace those of a page at most.

    A namespace with very many fills one page and no more.
    """
    ages: dict[Key, str] = {}
    left_out: list[str] = []
    for _ in range(MAX_PAGES if scope is None else 1):
        selector = ",".join([names.OPEN_SELECTOR, *(f"metadata.namespace!={namespace}" for namespace in left_out)])
        count = 0
        pages = kube.pages(REQUESTS, scope, accept=METADATA_LIST, fieldSelector=selector, limit=str(PAGE_REQUESTS))
        async for obj in pages:
            meta = obj["metadata"]
            ages[meta["namespace"], meta["name"]] = meta.get("creationTimestamp", "")
            count += 1
            if count == PAGE_REQUESTS:
                break
        if count < PAGE_REQUESTS:
            break
        most = Counter(namespace for namespace, _ in ages).most_common(MAX_LEFT_OUT)
        left_out = [namespace for namespace, _ in most]  # gate: head-start-turns
    return sorted(ages, key=lambda key: (ages[key], key))


async def _read(kube: Kube, key: Key) -> Json | None:
    """Return a request; None where it is gone since it was listed."""
    try:
        return await kube.get(REQUESTS, *key)
    except ApiNotFound:
        return None


async def _serve(kube: Kube, store: Store, key: Key) -> bool:
    """Read an instance with its children and have it served early; return whether it is."""
    namespace, name = key
    children = store.children
    pod, statefulset = names.pod_name(name), names.statefulset_name(name)
    lists: list[tuple[Resource, str, Observe]] = [
        (STATEFULSETS, statefulset, children.observe_statefulset),
        (PODS, pod, children.observe_pod),
        *((VOLUME_CLAIMS, claim, children.observe_claim) for claim in names.claim_names(name)),
    ]
    try:
        for resource, child, observe in lists:
            # The controller may get no pods and StatefulSets.
            async for obj in kube.named(resource, namespace, child, **SELECTORS[resource]):
                observe(obj)
        store.instances.observe(await kube.get(INSTANCES, namespace, name))
    except ApiError as error:
        log.debug("%s/%s waits for the lists: %s", namespace, name, error)
        return False
    return store.early.add(key)
