"""How many writes an API server has carried out, by its own metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from efrit.kube.client import KubeClient

WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
NOT_STORED = ("authentication.k8s.io", "authorization.k8s.io")
"""API groups whose objects are reviews, and are never stored."""
SAMPLE = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')

Writes = Mapping[str, float]
"""By the resource."""


async def so_far(api: KubeClient) -> Writes:
    """Return the writes since the API server began."""
    return of_metrics((await api.read("GET", "/metrics", query=None, max_bytes=None, accept="*/*") or b"").decode())


def of_metrics(text: str) -> Writes:
    """Return the writes that the metrics of an API server count: those that succeeded, without dry runs."""
    writes: defaultdict[str, float] = defaultdict(float)
    for match in SAMPLE.finditer(text):
        labels = dict(LABEL.findall(match[1]))
        if (
            labels["verb"] in WRITES
            and labels["code"].startswith("2")
            and not labels["dry_run"]
            and labels["group"] not in NOT_STORED
        ):
            writes[labels["resource"]] += float(match[2])
    return writes


def between(before: Writes, after: Writes, count: int) -> dict[str, float]:
    """Return the writes for each of `count`, the resources with most first, without those that had none."""
    grown = {name: (value - before.get(name, 0.0)) / count for name, value in after.items()}
    return dict(sorted(((name, value) for name, value in grown.items() if value), key=lambda item: -item[1]))
