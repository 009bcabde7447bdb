"""The custom resources as pydantic models: the single source of the chart's CRDs and the docs.

Nothing here does I/O or knows how a resource is acted on.
"""

from efrit.api.claim import ClaimSpec, ClaimStatus, EfritClaim, ReleasePolicy
from efrit.api.conditions import Condition, ConditionStatus, condition_of, with_condition
from efrit.api.instance import EfritInstance, InstanceSpec, InstanceStatus, OperatingMode
from efrit.api.meta import ObjectMeta
from efrit.api.plan import EfritPlan, PlanSpec, PlanStatus
from efrit.api.pool import EfritPool, PoolSpec, PoolStatus
from efrit.api.reasons import (
    FINAL_PHASES,
    ClaimPhase,
    ClaimReason,
    InstanceReason,
    ModelReason,
    PlanPhase,
    PlanReason,
    PoolReason,
    QueueReason,
    RequestPhase,
    RequestReason,
    SelfCheckReason,
    UpdateReason,
)
from efrit.api.request import (
    EfritRequest,
    RequestSpec,
    RequestStatus,
)
from efrit.protocol.enums import Outcome, RequestType, RetryPolicy

__all__ = [
    "FINAL_PHASES",
    "ClaimPhase",
    "ClaimReason",
    "ClaimSpec",
    "ClaimStatus",
    "Condition",
    "ConditionStatus",
    "EfritClaim",
    "EfritInstance",
    "EfritPlan",
    "EfritPool",
    "EfritRequest",
    "InstanceReason",
    "InstanceSpec",
    "InstanceStatus",
    "ModelReason",
    "ObjectMeta",
    "OperatingMode",
    "Outcome",
    "PlanPhase",
    "PlanReason",
    "PlanSpec",
    "PlanStatus",
    "PoolReason",
    "PoolSpec",
    "PoolStatus",
    "QueueReason",
    "ReleasePolicy",
    "RequestPhase",
    "RequestReason",
    "RequestSpec",
    "RequestStatus",
    "RequestType",
    "RetryPolicy",
    "SelfCheckReason",
    "UpdateReason",
    "condition_of",
    "with_condition",
]
