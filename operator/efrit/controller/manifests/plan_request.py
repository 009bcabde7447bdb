"""The EfritRequest of one step of a plan, owned by the plan."""

from __future__ import annotations

from typing import Any

from efrit.api import EfritPlan
from efrit.api.plan import PLAN_PART_LABEL, PLAN_STEP_LABEL, PLAN_UID_LABEL
from efrit.api.pool import MAX_FLOW_CHARS, REQUESTER
from efrit.plan import engine
from efrit.resources import PLANS, REQUESTS


def plan_request(plan: EfritPlan, instance: str | None, create: engine.Create) -> dict[str, Any]:
    """Return the EfritRequest, bound to the instance of this name; None leaves the choice to the plan's pool."""
    if instance is not None:
        target: dict[str, Any] = {"instanceRef": {"name": instance}}
    else:
        target = {"poolRef": plan.spec.pool_ref.to_wire() if plan.spec.pool_ref is not None else {}}
    return REQUESTS.manifest(
        {
            "name": create.name,
            "namespace": plan.metadata.namespace,
            "labels": {
                PLAN_UID_LABEL: plan.metadata.uid,
                PLAN_STEP_LABEL: str(create.step),
                PLAN_PART_LABEL: create.attempt,
            },
            "ownerReferences": [
                PLANS.reference(plan.metadata.name, plan.metadata.uid, controller=True),
            ],
            **_requester(plan),
        },
        spec={**create.spec, **target},
    )


def _requester(plan: EfritPlan) -> dict[str, Any]:
    """Return the annotation that has the plan's requests count as those of whoever made the plan."""
    requester = plan.metadata.annotations.get(REQUESTER)
    return {"annotations": {REQUESTER: requester[:MAX_FLOW_CHARS]}} if requester else {}
