"""The templates that a pool had: listed, and one of them made the current one again.

The operator keeps each as a ControllerRevision. What a user may not read or change, the API server refuses; it checks
a template that comes back like any other.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from efrit.api_group import LARGEST_REVISION, RESTORED_ANNOTATION, REVISION_LABEL, revision_name
from efrit.backend.cluster.api import Api
from efrit.backend.cluster.pools import POOL_NAME, no_pool
from efrit.backend.errors import Conflict, Forbidden, NotFound, NotLoggedIn, NotReady, Refused
from efrit.backend.pools import POOL_LABEL, PoolRevision, Undone
from efrit.kube.json_pointer import json_pointer
from efrit.protocol.times import parse_time
from efrit.resources import CONTROLLER_REVISIONS, INSTANCES, POOLS

Json = Mapping[str, Any]

READS, PAUSE_SECONDS = 50, 0.2
"""How often a pool is read until the operator has seen its last change, which takes it up to a second."""
HISTORY_READS = 10
"""How often the templates are read until the current one is among them: where none can be kept it never is."""
MAX_CHANGES = 10
"""Fields that an answer names."""
NOT_SEEN = (
    "is it running, and does it serve this namespace? "
    "`kubectl get pods -A -l app.kubernetes.io/name=efrit-operator` shows its pods; then try again"
)
MAY_NOT_LIST = (
    "ask for `list` of controllerrevisions (apps): the roles view, edit and admin of Kubernetes have it, "
    "a role of your own may lack it"
)
_DIGEST = re.compile(r"[0-9a-f]{1,64}")
_RESTORED = re.compile(r"([1-9][0-9]{0,15}) ([0-9a-f]{1,64})(?: ([1-9][0-9]{0,15}))?")


async def pool_history(api: Api, namespace: str, name: str) -> Sequence[PoolRevision]:
    """Return the templates of a pool that are kept, the oldest first. Raises `PoolNotFound`."""
    pool = await _pool(api, namespace, name)
    return await _revisions(api, namespace, pool, await _members(api, namespace, pool))


async def undo_pool(api: Api, namespace: str, name: str, to_revision: int | None) -> Undone:
    """Give a pool a former template again: that of `to_revision`, or the one before the current.

    A call that is repeated changes nothing, also without a number, as long as the current template is the one
    that was restored last; one that was applied again since, by hand, counts as any other. Raises `PoolNotFound`,
    `NotFound` where the template is not kept, `NotReady` while the operator has yet to see the last change,
    `Conflict` where somebody changes the pool meanwhile, `Refused` with the API server's sentence.
    """
    pool = await _seen_pool(api, namespace, name)
    meta = pool["metadata"]
    revisions, current = await _kept_revisions(api, namespace, pool)
    restored = _last_restored(pool)
    if restored is not None and _is_repeated(restored, pool, current, revisions, to_revision):  # gate: undo-repeated
        number = current.number if current is not None else None
        return Undone(_restored_message(name, restored.number, number), name, number or restored.number)
    target = _target(namespace, name, revisions, to_revision, restored)
    if target.current:
        return Undone(f"{name} has the template of revision {target.number} already", name, target.number)
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
        # Not the resourceVersion: with each status there is another one.
        {"op": "test", "path": "/metadata/generation", "value": meta["generation"]},
        {"op": "add", "path": "/spec/template", "value": target.template},
        *_record_restored(meta, target, _next_number(revisions, target) if current is not None else None),
    ]
    try:
        await api.json_patch(POOLS, namespace, name, operations)
    except Refused as error:
        now = (await _pool(api, namespace, name))["metadata"]
        if _guarded_parts(now) != _guarded_parts(meta):
            raise Conflict(f"{name} has changed meanwhile; nothing was done", "try again") from error
        raise
    changes = sorted(changed_fields(current.template, target.template)) if current is not None else []
    return Undone(_message(name, target.number, changes), name, target.number, changed=True, fields=tuple(changes))


def _guarded_parts(meta: Json) -> tuple[str, int, bool]:
    """Return what the patch tests before it changes anything."""
    return meta["uid"], meta["generation"], bool(meta.get("annotations"))


class _Restored(Struct, frozen=True):
    """A former template that was restored: `number` is the one that it had before, `became` the one that it got."""

    number: int
    digest: str
    became: int | None = None
    """None where that was not known."""


def _is_repeated(
    restored: _Restored,
    pool: Json,
    current: PoolRevision | None,
    revisions: Sequence[PoolRevision],
    to_revision: int | None,
) -> bool:
    """Return whether a call is the one that has restored the current template, made once more."""
    # Whether it is kept or not: where none can be kept any more, the one before would be the broken one.
    if restored.digest != (pool.get("status") or {}).get("revision"):
        return False
    if to_revision is not None:
        return to_revision == restored.number and all(revision.number != to_revision for revision in revisions)
    # Once another template and then this one were applied, it has a higher number than it got back then.
    was_applied_since = current is not None and restored.became is not None and current.number > restored.became
    return not was_applied_since  # gate: undo-applied-since


def _next_number(revisions: Sequence[PoolRevision], target: PoolRevision) -> int:
    """Return the number that the operator will give a former template once it is the current one."""
    others = (revision.number for revision in revisions if revision is not target)
    return max((number for number in others if number < LARGEST_REVISION), default=0) + 1


def _last_restored(pool: Json) -> _Restored | None:
    """Return what a client has restored last, as far as the pool says so."""
    text = str((pool["metadata"].get("annotations") or {}).get(RESTORED_ANNOTATION, ""))
    match = _RESTORED.fullmatch(text)
    return _Restored(int(match[1]), match[2], int(match[3]) if match[3] else None) if match is not None else None


def _record_restored(meta: Json, target: PoolRevision, becomes: int | None) -> list[dict[str, Any]]:
    """Return the operations that record on the pool which template is restored."""
    value = f"{target.number} {target.digest}{f' {becomes}' if becomes is not None else ''}"
    if meta.get("annotations"):
        path = json_pointer("metadata", "annotations", RESTORED_ANNOTATION)
        return [{"op": "add", "path": path, "value": value}]
    # Those that somebody else adds meanwhile are not to be lost: for the API server, null is where there are none.
    return [
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {RESTORED_ANNOTATION: value}},
    ]


def _restored_message(name: str, before: int, number: int | None) -> str:
    place = f", as revision {number}" if number is not None else ""
    return (
        f"{name} has the template of revision {before} again already{place}; nothing was changed: "
        "to go to another template, name its revision"
    )


def _target(
    namespace: str, name: str, revisions: Sequence[PoolRevision], number: int | None, restored: _Restored | None
) -> PoolRevision:
    former = [revision for revision in revisions if not revision.current]
    correct = (
        "apply a corrected template; where templates could not be kept, "
        f"`kubectl describe efp -n {namespace} {name}` shows the Event HistoryRefused"
    )
    if number is None:
        if not former:
            raise NotFound(f"{name} has no former template to go back to", correct)
        return former[-1]
    named = next((revision for revision in revisions if revision.number == number), None)
    if named is None:
        same = next((each for each in revisions if restored is not None and each.digest == restored.digest), None)
        if restored is not None and restored.number == number and same is not None:
            # Somebody has applied another one since: it is not replaced by a call that is repeated.
            raise NotFound(
                f"{name} has no revision {number} any more: its template was restored as revision {same.number}, "
                "and another one was applied since",
                f"to restore it once more, name {same.number}",
            )
        numbers = ", ".join(str(revision.number) for revision in revisions)
        advice = f"name one of those there are: {numbers}" if former else correct
        raise NotFound(f"{name} has no revision {number}", advice)
    return named


def _message(name: str, number: int, changes: Sequence[str]) -> str:
    more = f" and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
    listed = f"; changed: {', '.join(changes[:MAX_CHANGES])}{more}" if changes else ""
    return f"{name} has the template of revision {number} again{listed}"


def changed_fields(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the paths at which two templates differ; a list counts as one value. Pure."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from changed_fields(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield path


async def _seen_pool(api: Api, namespace: str, name: str) -> Json:
    """Return the pool once the operator has seen its last change: before, it does not say which template it has."""
    for _ in range(READS):
        pool = await _pool(api, namespace, name)
        if (pool.get("status") or {}).get("observedGeneration") == pool["metadata"]["generation"]:
            return pool
        await asyncio.sleep(PAUSE_SECONDS)
    raise NotReady(f"the operator has not seen the last change of {name} yet", NOT_SEEN)


async def _kept_revisions(api: Api, namespace: str, pool: Json) -> tuple[Sequence[PoolRevision], PoolRevision | None]:
    """Return the templates of a pool, and the current one of them: the operator keeps it after its status says it."""
    for reads_left in reversed(range(HISTORY_READS)):
        revisions = await _revisions(api, namespace, pool, {})
        current = next((revision for revision in revisions if revision.current), None)
        if current is not None or not reads_left:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    return revisions, current


async def _pool(api: Api, namespace: str, name: str) -> Json:
    if POOL_NAME.fullmatch(name) is None:
        raise no_pool(name, namespace)
    try:
        return await api.get(POOLS, namespace, name)
    except NotFound as error:
        raise no_pool(name, namespace) from error


async def _revisions(
    api: Api, namespace: str, pool: Json, members: Mapping[str, int] | None
) -> Sequence[PoolRevision]:
    # The StatefulSets of members have some with the first label alone.
    selector = f"{POOL_LABEL}={pool['metadata']['name']},{REVISION_LABEL}"
    try:
        revisions = [
            revision
            async for obj in api.pages(CONTROLLER_REVISIONS, namespace, labelSelector=selector)
            if (revision := revision_of(obj, pool, members)) is not None
        ]
    except NotLoggedIn:
        raise
    except Forbidden as error:
        raise Forbidden(error.message, MAY_NOT_LIST) from error
    return sorted(revisions, key=lambda revision: revision.number)


def revision_of(obj: Json, pool: Json, members: Mapping[str, int] | None) -> PoolRevision | None:
    """Return what a ControllerRevision keeps; None for one of another owner, whatever its labels say. Pure."""
    meta, of_pool = obj["metadata"], pool["metadata"]
    digest, number = (meta.get("labels") or {}).get(REVISION_LABEL, ""), obj.get("revision", 0)
    is_owned = POOLS.owner_of(meta) == (of_pool["name"], of_pool["uid"]) and meta.get("deletionTimestamp") is None
    is_named = _DIGEST.fullmatch(digest) is not None and meta["name"] == revision_name(of_pool["name"], digest)
    data = obj.get("data") or {}
    template = (data.get("spec") or {}).get("template") if isinstance(data, Mapping) else None
    if not (is_owned and is_named and 0 < number <= LARGEST_REVISION and isinstance(template, Mapping)):
        return None
    return PoolRevision(
        number,
        digest,
        current=digest == (pool.get("status") or {}).get("revision"),
        members=None if members is None else members.get(digest, 0),
        created=parse_time(meta.get("creationTimestamp")),
        template=dict(template),
    )


async def _members(api: Api, namespace: str, pool: Json) -> Mapping[str, int] | None:
    """Return how many members have each template, None for who may not see instances."""
    meta, counts = pool["metadata"], Counter[str]()
    try:
        async for obj in api.pages(INSTANCES, namespace, labelSelector=f"{POOL_LABEL}={meta['name']}"):
            owners = obj["metadata"].get("ownerReferences") or ()
            if any(owner.get("uid") == meta["uid"] for owner in owners):
                counts[obj["metadata"]["labels"].get(REVISION_LABEL, "")] += 1
    except Forbidden:
        return None
    return counts
