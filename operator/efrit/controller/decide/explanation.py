"""When to ask Kubernetes' events why an instance does not start: soon at first, then less and less often.

Also once its status says why: the next thing may be wrong by then.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.api import ConditionStatus, EfritInstance, condition_of
from efrit.api.instance import EMACS_RESPONSIVE, READY, SUSPENDED
from efrit.controller.decide.readiness import NOT_CREATED
from efrit.controller.model.actions import Action, ReadWarningEvents, RequeueAfter
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.snapshots import InstanceSnapshot

SHORTEST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(seconds=60)
SHORTEST_PAUSE_REFUSED = timedelta(seconds=60)
LONGEST_PAUSE_REFUSED = timedelta(seconds=300)
"""Once it is known why there is no pod: a quota may refuse hundreds, and Kubernetes seldom tries again."""
LATE = timedelta(minutes=1)
"""How much later than what it is about a status may be, with the differences of clocks."""


def absent_since(instance: EfritInstance, now: datetime) -> datetime | None:
    """Return from when on events say why an instance has no pod, by the status that an earlier process wrote.

    Events of the StatefulSet outlive what they are about by an hour. None where nothing is known: all of them count.
    """
    status, ready = instance.status, condition_of(instance.status.conditions, READY)
    created = instance.metadata.creation_timestamp or now
    if status.start_time is not None:
        # Whoever may write a status may write any time, the first and the last there is.
        return status.start_time if created <= status.start_time <= now else None
    is_explained = ready is not None and ready.message.startswith(NOT_CREATED)
    if status.emacs_version is None or is_explained:
        # It has had no pod yet; or what the events say is told already.
        return None
    conditions = (condition_of(status.conditions, kind) for kind in (READY, EMACS_RESPONSIVE, SUSPENDED))
    ended = [
        condition.last_transition_time
        for condition in conditions
        if condition is not None
        and condition.status != ConditionStatus.TRUE
        and created <= condition.last_transition_time <= now
    ]
    return max(ended) - LATE if ended else None


def explanation(snapshot: InstanceSnapshot, now: datetime) -> list[Action]:
    """Return the question why an instance that is starting does not become ready, when it is due."""
    pod, facts = snapshot.pod, snapshot.facts
    if pod is None and snapshot.statefulset is not None and snapshot.statefulset.replicas == 0:
        # It wakes up: what there is says why there was no pod before it slept.
        return []
    began = (pod.created if pod else facts.pod_awaited or snapshot.instance.metadata.creation_timestamp) or now
    # A controller that has just started has received nothing of its bridge yet, however old the pod is.
    age = now - max(began, snapshot.controller_started or began)
    if age < snapshot.config.explain_after:
        return [RequeueAfter(snapshot.config.explain_after - max(age, timedelta()))]
    statefulset, explained_time = snapshot.statefulset, facts.explained_time
    question = ReadWarningEvents(
        snapshot.instance.key,
        pod_uid=pod.uid if pod is not None else None,
        statefulset_uid=statefulset.uid if statefulset is not None else None,
        claims=tuple((claim.name, claim.uid) for claim in snapshot.claims if claim.phase != "Bound"),
        after=pod.created if pod is not None else facts.events_after,
    )
    if explained_time is None:
        return [question, RequeueAfter(SHORTEST_PAUSE)]
    shortest, longest = SHORTEST_PAUSE, LONGEST_PAUSE
    if pod is None and facts.problem is not None:
        shortest, longest = SHORTEST_PAUSE_REFUSED, LONGEST_PAUSE_REFUSED
    # Half of the time it has lasted: a dozen questions in the first ten minutes, then one a minute.
    pause = min(max((explained_time - began) / 2, shortest), longest)
    remaining = pause_remaining(explained_time, pause, now)
    if remaining:
        return [RequeueAfter(remaining)]
    return [question, RequeueAfter(pause)]
