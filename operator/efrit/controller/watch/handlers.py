"""kopf's part: watches our resources and their children and hands every event to the store. Nothing else.

Only `on.event` is used: no finalizer, no annotation, no handler state in anybody's object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kopf

from efrit.api import GROUP, VERSION
from efrit.controller.decide.children import naming
from efrit.controller.watch.store import Store

OPEN = "status.phase!=Succeeded,status.phase!=Failed"


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings: watch, post nothing, scan nothing."""
    result = kopf.OperatorSettings()
    result.queueing.idle_timeout = 0.5
    result.posting.enabled = False
    result.posting.loggers = False
    result.scanning.disabled = True
    result.peering.standalone = True
    result.watching.chunk_size = 500
    result.watching.initial_streaming = False
    result.watching.connect_timeout = 10
    result.watching.server_timeout = 300
    result.watching.client_timeout = 330
    # kopf would kill the process so long after a watch was stopped, which here is one of several.
    result.process.ultimate_exiting_timeout = None
    result.networking.connect_timeout = 10
    result.networking.request_timeout = 60
    for plural in ("efritrequests", "efritplans"):
        result.watching.field_selectors[f"{plural}.{GROUP}"] = OPEN
    for plural in ("pods", "persistentvolumeclaims"):
        result.watching.label_selectors["", "v1", plural] = naming.POD_SELECTOR
    result.watching.label_selectors["apps", "v1", "statefulsets"] = naming.POD_SELECTOR
    return result


def registry(store: Store) -> kopf.OperatorRegistry:
    """Return kopf's registry with one event handler a kind."""
    result = kopf.OperatorRegistry()
    kopf.on.login(registry=result, id="service-account")(kopf.login_with_service_account)
    kopf.on.login(registry=result, id="kubeconfig")(kopf.login_with_kubeconfig)
    kinds: Sequence[tuple[tuple[str, str, str], Callable[[Any], None], Callable[[Any], None]]] = (
        ((GROUP, VERSION, "efritinstances"), store.observe_instance, store.instance_gone),
        ((GROUP, VERSION, "efritrequests"), store.observe_request, store.request_left),
        ((GROUP, VERSION, "efritplans"), store.plans.observe_plan, store.plans.plan_left),
        (("", "v1", "pods"), store.observe_pod, store.forget_pod),
        (("apps", "v1", "statefulsets"), store.observe_statefulset, store.forget_statefulset),
        (("", "v1", "persistentvolumeclaims"), store.observe_claim, store.forget_claim),
    )
    for resource, observe, forget in kinds:
        _watch(result, resource, observe, forget)
    return result


def _watch(
    into: kopf.OperatorRegistry,
    resource: tuple[str, str, str],
    observe: Callable[[Any], None],
    forget: Callable[[Any], None],
) -> None:
    @kopf.on.event(*resource, registry=into, id=resource[-1])
    async def on_event(event: Mapping[str, Any], **_: object) -> None:
        (forget if event["type"] == "DELETED" else observe)(event["object"])
