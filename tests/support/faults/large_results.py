"""Which large results may be cut: those whose Secret the API server refused, or whose workspace had no space.

Pure functions of what was observed; collect.py calls them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.history import Allowance, Answer, Execution, RequestVersion, SubmittedRequest

SECRET_PREFIX = "efrit-result-"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class FullVolume:
    """A volume of an instance that had no space left, or failed. volume: queue or workspace."""

    instance: str
    volume: str
    begin: float
    end: float


def refused_secrets(audit_log: Path, namespace: str) -> frozenset[str]:
    """Return the names of the Secrets of a namespace whose creation the API server refused at least once."""
    if not audit_log.exists():
        return frozenset()
    names = set()
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        about, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        if about.get("namespace") == namespace and code in (403, 422):
            names.add(about.get("name", ""))
    return frozenset(names)


def allowances(
    submitted: Iterable[SubmittedRequest],
    final: dict[str, RequestVersion],
    answers: Iterable[Answer],
    ran: Iterable[Execution],
    *,
    refused: Collection[str],
    full_volumes: Collection[FullVolume],
) -> Iterator[Allowance]:
    """Yield an allowance for each request that may end Succeeded with a result that is cut.

    refused: names of Secrets that were refused. full_volumes: volumes that were full or failed.
    """
    cut_by_emacs = {answer.uid for answer in answers if answer.response.get("truncated") is True}
    begun: dict[str, float] = {}
    for execution in ran:
        begun[execution.marker] = min(execution.written, begun.get(execution.marker, execution.written))
    for request in submitted:
        status = last.status if (last := final.get(request.uid)) else {}
        if last is None or not status.get("truncated"):
            continue
        if request.uid in cut_by_emacs:
            why = "its workspace was full, or failed, while it ran"
            since = begun.get(request.marker, request.at)
            allowed = any(
                full_volume.instance in request.instances
                and full_volume.volume == "workspace"
                and full_volume.begin <= last.at
                and full_volume.end >= since
                for full_volume in full_volumes
            )
        elif status.get("resultRef"):
            continue
        else:
            why = "the Secret of its result was refused"
            allowed = f"{SECRET_PREFIX}{request.uid}" in refused
        if allowed:
            yield Allowance("Succeeded", why, request=request.name, runs=(1, 2, 3))
