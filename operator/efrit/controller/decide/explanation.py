"""When to ask Kubernetes' events why an instance does not start: soon at first, then less and less often.

Also once its status says why: the next thing may be wrong by then.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from efrit.controller.model.actions import Action, ReadWarningEvents, RequeueAfter
from efrit.controller.model.snapshots import InstanceSnapshot

SHORTEST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(seconds=60)
SHORTEST_PAUSE_REFUSED = timedelta(seconds=60)
LONGEST_PAUSE_REFUSED = timedelta(seconds=300)
"""Once it is known why there is no pod: a quota may refuse hundreds, and Kubernetes seldom tries again."""


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
        after=pod.created if pod is not None else facts.last_pod_created,
    )
    if explained_time is None:
        return [question, RequeueAfter(SHORTEST_PAUSE)]
    shortest, longest = SHORTEST_PAUSE, LONGEST_PAUSE
    if pod is None and facts.problem is not None:
        shortest, longest = SHORTEST_PAUSE_REFUSED, LONGEST_PAUSE_REFUSED
    # Half of the time it has lasted: a dozen questions in the first ten minutes, then one a minute.
    pause = min(max((explained_time - began) / 2, shortest), longest)
    # The clock may have been set back since.
    remaining = min(explained_time + pause - now, pause)
    if remaining > timedelta(0):
        return [RequeueAfter(remaining)]
    return [question, RequeueAfter(pause)]
