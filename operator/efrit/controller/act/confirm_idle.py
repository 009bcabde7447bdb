"""The last check before an idle instance is deleted: the API server itself is asked for work of it.

The watch may lag. What is found goes to the sink as if the watch had told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from efrit.api import FINAL_PHASES, GROUP, VERSION, EfritPlan, EfritRequest
from efrit.controller.act.kube import Kube
from efrit.controller.act.sink import Sink
from efrit.controller.decide.views import Key

log = logging.getLogger(__name__)

API_VERSION = f"{GROUP}/{VERSION}"
OPEN = ",".join(f"status.phase!={phase}" for phase in sorted(FINAL_PHASES))
BOUND_BY = ("spec.instanceRef.name", "status.instanceName")
"""Selectable fields of requests and plans that name their instance."""


async def confirm_idle(kube: Kube, sink: Sink, instance: Key) -> bool:
    """Return whether no open request or plan names the instance, a suspended plan included.

    Costs four lists of at most one object each. Raises ApiError.
    """
    namespace, name = instance
    kinds: tuple[tuple[str, Callable[[Mapping[str, Any]], None]], ...] = (
        (EfritRequest.kind, sink.observe_request),
        (EfritPlan.kind, sink.plans.observe_plan),
    )
    for kind, observe in kinds:
        for field in BOUND_BY:
            selector = f"{field}={name},{OPEN}"
            async for obj in kube.pages(API_VERSION, kind, namespace, fieldSelector=selector, limit="1"):
                log.info("%s/%s is not idle: %s %s is open", *instance, kind, obj["metadata"]["name"])
                observe(obj)
                sink.not_idle(instance)
                return False
    return True
