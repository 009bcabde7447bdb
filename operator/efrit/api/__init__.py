"""The custom resources as pydantic models: the single source of crds/, the chart's CRDs and the docs.

Nothing here does I/O or knows how a resource is acted on.
"""

from typing import TYPE_CHECKING

from efrit.lazily import attributes_of

if TYPE_CHECKING:
    from efrit.api.conditions import Condition, ConditionStatus, condition_of, with_condition
    from efrit.api.instance import EfritInstance, InstanceSpec, InstanceStatus, OperatingMode
    from efrit.api.meta import GROUP, VERSION, ObjectMeta
    from efrit.api.plan import EfritPlan, PlanSpec, PlanStatus
    from efrit.api.reasons import (
        FINAL_PHASES,
        InstanceReason,
        PlanPhase,
        PlanReason,
        QueueReason,
        RequestPhase,
        RequestReason,
        UpdateReason,
    )
    from efrit.api.request import (
        EfritRequest,
        Outcome,
        RequestSpec,
        RequestStatus,
        RequestType,
        RetryPolicy,
    )

__all__ = [
    "FINAL_PHASES",
    "GROUP",
    "VERSION",
    "Condition",
    "ConditionStatus",
    "EfritInstance",
    "EfritPlan",
    "EfritRequest",
    "InstanceReason",
    "InstanceSpec",
    "InstanceStatus",
    "ObjectMeta",
    "OperatingMode",
    "Outcome",
    "PlanPhase",
    "PlanReason",
    "PlanSpec",
    "PlanStatus",
    "QueueReason",
    "RequestPhase",
    "RequestReason",
    "RequestSpec",
    "RequestStatus",
    "RequestType",
    "RetryPolicy",
    "UpdateReason",
    "condition_of",
    "with_condition",
]

__getattr__ = attributes_of(
    __name__,
    {
        "conditions": "Condition ConditionStatus condition_of with_condition",
        "instance": "EfritInstance InstanceSpec InstanceStatus OperatingMode",
        "meta": "GROUP VERSION ObjectMeta",
        "plan": "EfritPlan PlanSpec PlanStatus",
        "reasons": "FINAL_PHASES InstanceReason PlanPhase PlanReason QueueReason RequestPhase RequestReason "
        "UpdateReason",
        "request": "EfritRequest Outcome RequestSpec RequestStatus RequestType RetryPolicy",
    },
)
