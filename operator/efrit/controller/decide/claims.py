"""Decides about an exclusive claim: which member it gets, what it says, and what becomes of the member in the end.

A member is the claim's once the claim is its controlling owner. That is one write, on condition that the member has
not changed, so no two claims have the same; all else follows from it, whoever leads. In the end the member goes first
and the final status comes after: nobody has to come back to a claim that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from efrit.api import (
    ClaimPhase,
    ClaimReason,
    ClaimStatus,
    ConditionStatus,
    EfritClaim,
    ReleasePolicy,
    condition_of,
    with_condition,
)
from efrit.api.claim import CLAIM_READY
from efrit.api.instance import READY
from efrit.controller.decide.condition_state import ConditionState
from efrit.controller.decide.idle import last_activity
from efrit.controller.decide.placement import sleeps, takes_requests
from efrit.controller.decide.status_limits import cut, with_stop
from efrit.controller.model.actions import (
    Action,
    ConfirmMissing,
    Delete,
    DeleteLater,
    PatchStatus,
    Record,
    RequeueAfter,
    ReturnMember,
    TakeMember,
    Wake,
)
from efrit.controller.model.claims import STATUS_ATTEMPTS, ClaimSnapshot, StatusRefusal
from efrit.controller.model.names import EMACS_CONTAINER, REVISION_LABEL, pod_name
from efrit.controller.model.snapshots import InstanceSnapshot

RETRY_RELEASE = timedelta(seconds=1)
"""When the end of a claim is decided about again whose member has changed meanwhile."""
MAX_SENTENCE_BYTES = 256
MAX_REDUCED_BYTES = 128
"""Of a message where the object has no room for more: the beginning says what it is about."""

SAYS_WAITING_AFTER = timedelta(seconds=2)
"""A claim says that it waits after so long, for a member may come back. Its creation is known to the second."""
SAYS_WAITING_EVERY = timedelta(seconds=0.1)
"""Of many that wait one says so at a time: whoever gives a member back does not wait for that."""
SAYS_WAITING_LAST = timedelta(seconds=30)
"""All have said so after this time."""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=60)
"""Between API server and controller. Where it is more, the controller's clock was set back."""


def decide_claim(snapshot: ClaimSnapshot, now: datetime) -> list[Action]:
    """Return what to do about an exclusive claim."""
    claim, expires = snapshot.claim, expiration(snapshot.claim)
    if claim.final:
        return _retention(claim)
    if claim.metadata.deletion_timestamp is not None:
        return []
    if claim.spec.released:
        state = ConditionState(ConditionStatus.FALSE, ClaimReason.RELEASED, "The holder released it.")
        return _end(snapshot, ClaimPhase.RELEASED, state, now)
    if expires is not None and expires <= now:
        message = f"It was held for {claim.spec.ttl_seconds} s (spec.ttlSeconds)."
        state = ConditionState(ConditionStatus.FALSE, ClaimReason.EXPIRED, message)
        return _end(snapshot, ClaimPhase.EXPIRED, state, now)
    if expires is not None:
        return [*_hold(snapshot, now), RequeueAfter(expires - now)]
    if snapshot.status_refusal is not None and snapshot.status_refusal.lasts:
        return _give_up(snapshot, snapshot.status_refusal, now)
    if snapshot.member is not None:
        return _bind(snapshot, snapshot.member, now)
    return _take(snapshot, now)


def expiration(claim: EfritClaim) -> datetime | None:
    """Return when a claim ends; None while it has no member."""
    bound = claim.status.bound_time
    return bound + timedelta(seconds=claim.spec.ttl_seconds) if bound is not None else None


def _take(snapshot: ClaimSnapshot, now: datetime) -> list[Action]:
    """Return what makes the claim the owner of a member, or has it wait for one."""
    name = snapshot.claim.spec.pool_ref.name
    if snapshot.taking is not None:
        return _taken(snapshot, snapshot.taking, now)
    if snapshot.pool is None or snapshot.pool.metadata.deletion_timestamp is not None:
        message = f"There is no EfritPool {name}: waiting for one. Create it, or delete this claim."
        return _pending(snapshot, ClaimReason.POOL_MISSING, message, now)
    if not snapshot.listed:  # gate: claim-listed
        # Which members have work is not known yet.
        return []
    refusal = snapshot.refusal
    if refusal is not None and (remaining := refusal.remaining(now)):
        message = f"The API server does not let this claim have a member: {refusal.sentence}"
        return [*_pending(snapshot, ClaimReason.REFUSED, message, now), RequeueAfter(remaining)]
    free = [member for member in snapshot.candidates if is_free(member)]
    asleep = [member for member in snapshot.candidates if sleeps(member)]
    if snapshot.ahead < len(free):
        return _taken(snapshot, _first(free, snapshot.revision), now)
    if snapshot.ahead < len(free) + len(asleep):
        return _taken(snapshot, _first(asleep, snapshot.revision), now)
    silent = _silent_for(snapshot, now)
    if snapshot.pool.spec.replicas != 0 and silent > timedelta(0):  # gate: says-waiting
        return [RequeueAfter(silent)]
    if snapshot.pool.spec.replicas == 0:
        message = f"EfritPool {name} has spec.replicas 0: waiting until it has members."
    elif snapshot.ahead:
        message = f"No member of EfritPool {name} is free, and other claims came first: waiting for one."
    else:
        message = f"No member of EfritPool {name} is ready and without work: waiting for one."
    return _pending(snapshot, ClaimReason.WAITING, message, now)


def _silent_for(snapshot: ClaimSnapshot, now: datetime) -> timedelta:
    """Return for how long a claim that has said nothing yet does not say that it waits."""
    created = snapshot.claim.metadata.creation_timestamp
    if created is None or snapshot.claim.status.phase is not None:
        return timedelta(0)
    silence = min(SAYS_WAITING_AFTER + snapshot.ahead * SAYS_WAITING_EVERY, SAYS_WAITING_LAST)
    if created - now > MAX_CLOCK_DIFFERENCE:  # gate: silence-set-back
        return timedelta(0)
    return min(created + silence - now, silence)


def _taken(snapshot: ClaimSnapshot, member: InstanceSnapshot, now: datetime) -> list[Action]:
    meta, claim = member.instance.metadata, snapshot.claim
    take = TakeMember(claim.key, claim.metadata.uid, member.instance.key, meta.uid, meta.resource_version)
    return [take, *_bind(snapshot, member, now)]


def _first(members: Iterable[InstanceSnapshot], revision: str) -> InstanceSnapshot:
    """Return the member that is taken: of the current template if there is one, the least recently used of those."""

    def order(member: InstanceSnapshot) -> tuple[bool, float, str]:
        meta, used = member.instance.metadata, last_activity(member)
        return (
            meta.labels.get(REVISION_LABEL) != revision,
            used.timestamp() if used is not None else 0.0,
            meta.name,
        )

    return min(members, key=order)


def is_ready(member: InstanceSnapshot) -> bool:
    """Return whether the status of an instance says that it is Ready."""
    ready = condition_of(member.instance.status.conditions, READY)
    return ready is not None and ready.status == ConditionStatus.TRUE


def is_free(member: InstanceSnapshot) -> bool:
    """Return whether a claim can be Bound to a member without work at once."""
    return is_ready(member) and takes_requests(member)


def _bind(snapshot: ClaimSnapshot, member: InstanceSnapshot, now: datetime) -> list[Action]:
    """Return the status of a claim that owns a member, from now on Bound if that is ready."""
    meta, spec = member.instance.metadata, snapshot.claim.spec
    if not is_ready(member) or meta.deletion_timestamp is not None:
        message = f"EfritInstance {meta.name} is this claim's, and starts."
        return [*_pending(snapshot, ClaimReason.STARTING, message, now), Wake(member.instance.key)]
    bound = now.replace(microsecond=0)
    daemon = member.instance.spec.emacs.daemon_name
    container = f"{pod_name(meta.name)} -c {EMACS_CONTAINER}"
    attach = f"kubectl exec -it -n {meta.namespace} {container} -- emacsclient -t -s {daemon}"
    update = {
        "phase": ClaimPhase.BOUND,
        "instance_name": meta.name,
        "instance_uid": meta.uid,
        "bound_time": bound,
        "expiration_time": bound + timedelta(seconds=spec.ttl_seconds),
        "attach": attach,
    }
    return [
        *_patch(snapshot, _bound_state(member), update, now),
        RequeueAfter(timedelta(seconds=spec.ttl_seconds)),
    ]


def _bound_state(member: InstanceSnapshot) -> ConditionState:
    name = member.instance.metadata.name
    if is_ready(member):
        return ConditionState(ConditionStatus.TRUE, ClaimReason.BOUND, f"EfritInstance {name} is this claim's.")
    ready = condition_of(member.instance.status.conditions, READY)
    why = f": {ready.message}" if ready is not None else "."
    return ConditionState(
        ConditionStatus.FALSE, ClaimReason.MEMBER_NOT_READY, f"EfritInstance {name} is not Ready{why}"
    )


def _hold(snapshot: ClaimSnapshot, now: datetime) -> list[Action]:
    """Return what a claim that is Bound says of its member: whether it is Ready, or lost."""
    claim, member = snapshot.claim, snapshot.member
    status = claim.status
    if member is not None and member.instance.metadata.uid == status.instance_uid:
        return _patch(snapshot, _bound_state(member), {"expiration_time": expiration(claim)}, now)
    message = (
        f"EfritInstance {status.instance_name} is deleted or is no longer this claim's, and its state is gone: "
        "create a new EfritClaim."
    )
    state = ConditionState(ConditionStatus.FALSE, ClaimReason.MEMBER_LOST, message)
    lost = _patch(snapshot, state, {"phase": ClaimPhase.FAILED, "completion_time": now, "attach": None}, now)
    if snapshot.instance_seen or status.instance_name is None:
        return lost
    return [ConfirmMissing((claim.metadata.namespace, status.instance_name)), *lost]


def _end(snapshot: ClaimSnapshot, phase: ClaimPhase, state: ConditionState, now: datetime) -> list[Action]:
    """Return what ends a claim: its member goes, back to the pool if it is to, and then it is final."""
    claim, member, pool = snapshot.claim, snapshot.member, snapshot.pool
    # The member is gone, or works for others by now.
    patch = _patch(snapshot, state, {"phase": phase, "completion_time": now, "attach": None}, now)
    if snapshot.taking is not None and member is None:
        # What became of it is not known: it is taken first.
        return _taken(snapshot, snapshot.taking, now)
    if member is None or member.instance.metadata.deletion_timestamp is not None:
        return patch
    meta, key = member.instance.metadata, member.instance.key
    retry = RequeueAfter(RETRY_RELEASE)
    returns = claim.spec.release == ReleasePolicy.RETURN and pool is not None
    if returns and pool is not None and pool.metadata.deletion_timestamp is None:
        back = ReturnMember(key, meta.uid, meta.resource_version, pool.metadata.name, pool.metadata.uid)
        return [retry, back, *patch]
    return [retry, Delete("EfritInstance", key, meta.uid, meta.resource_version), *patch]


def _give_up(snapshot: ClaimSnapshot, refusal: StatusRefusal, now: datetime) -> list[Action]:
    """Return the end of a claim that cannot be Bound, as the API server refuses the status that would say so.

    Its time begins with that status: it would have its member for ever. An Event says so in case no status can.
    """
    claim = snapshot.claim
    message = (
        "The API server refuses the status of this claim, so it gets no member: "
        f"{with_stop(cut(refusal.sentence, MAX_SENTENCE_BYTES))} Create a new EfritClaim, with less in its "
        "metadata if this one is too large."
    )
    state = ConditionState(ConditionStatus.FALSE, ClaimReason.REFUSED, message)
    event = Record("EfritClaim", claim.key, claim.metadata.uid, "Warning", "StatusRefused", message)
    # Later ones would say the same.
    events = [event] if refusal.count == STATUS_ATTEMPTS else []
    return [*events, *_end(snapshot, ClaimPhase.FAILED, state, now)]


def _pending(snapshot: ClaimSnapshot, reason: ClaimReason, message: str, now: datetime) -> list[Action]:
    state = ConditionState(ConditionStatus.FALSE, reason, message)
    return _patch(snapshot, state, {"phase": ClaimPhase.PENDING}, now)


def _patch(snapshot: ClaimSnapshot, state: ConditionState, update: dict[str, object], now: datetime) -> list[Action]:
    """Return the write of a status, nothing where it says that already."""
    claim = snapshot.claim
    meta, old, message = claim.metadata, claim.status, state.message
    if snapshot.reduced_status:
        message = cut(message, MAX_REDUCED_BYTES)
        update = {**update, "attach": None}
    conditions = with_condition(
        old.conditions,
        CLAIM_READY,
        state.status,
        state.reason.value,
        message,
        generation=meta.generation,
        now=now,
    )
    new = ClaimStatus.model_validate(
        {**dict(old), **update, "observed_generation": meta.generation, "conditions": conditions}
    )
    if new.to_wire() == old.to_wire():
        return []
    return [PatchStatus("EfritClaim", claim.key, meta.uid, meta.resource_version, new.to_wire(), old.to_wire())]


def _retention(claim: EfritClaim) -> list[Action]:
    ended = claim.status.completion_time
    if ended is None:
        return []
    due = ended + timedelta(seconds=claim.spec.ttl_seconds_after_finished)
    # Also where that is by now: claims that wait for a member, or give theirs back, go first.
    return [DeleteLater("EfritClaim", claim.key, claim.metadata.uid, due)]
