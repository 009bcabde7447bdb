"""Work for resident Emacs daemons, from Python: `connect` for programs, `connect_async` for those with asyncio.

`efrit.client.interface` is the vocabulary, with one `Backend` for a cluster (custom resources) and one for this
machine (the same queue, a local Emacs); `efrit.client.backends` opens one. Nothing is imported before it is used: the
command line pays for every module.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from efrit.client.async_client import AsyncClient, AsyncSession, PlaceOptions, WorkOptions, connect_async
    from efrit.client.async_plans import AsyncPlans, PlanOptions
    from efrit.client.backends import open_backend
    from efrit.client.errors import (
        ClientError,
        Conflict,
        Forbidden,
        InstanceNotFound,
        NoCluster,
        NoEmacs,
        NoInstance,
        NotFinished,
        NotFound,
        NotReady,
        PlanNotFound,
        PoolNotFound,
        Refused,
        RequestNotFound,
        RestartNeeded,
        ResultGone,
        ResultTruncated,
        WaitTimeout,
        WrongSettings,
    )
    from efrit.client.interface import (
        ANY_INSTANCE,
        Backend,
        Budget,
        Error,
        Finding,
        Handle,
        Instance,
        InstanceStats,
        InstanceStatus,
        Outcome,
        Phase,
        Progress,
        Reason,
        Removed,
        RequestState,
        RequestType,
        SessionStatus,
        Setup,
        Started,
        Stopped,
        Update,
        Usage,
        Work,
    )
    from efrit.client.outcomes import (
        InputRequired,
        LispError,
        ModelFailed,
        PartlyDone,
        PlanFailed,
        RequestCancelled,
        RequestFailed,
        RequestInterrupted,
        RequestRejected,
        RequestTimedOut,
    )
    from efrit.client.place import Place
    from efrit.client.plans import Change, Intent, NewPlan, PlanPhase, PlanReason, PlanState, Task
    from efrit.client.pools import Pool, PoolCondition, PoolFlow, PoolScale, Scaled
    from efrit.client.sync_client import Client, Plans, Session, connect

__all__ = [
    "ANY_INSTANCE",
    "AsyncClient",
    "AsyncPlans",
    "AsyncSession",
    "Backend",
    "Budget",
    "Change",
    "Client",
    "ClientError",
    "Conflict",
    "Error",
    "Finding",
    "Forbidden",
    "Handle",
    "InputRequired",
    "Instance",
    "InstanceNotFound",
    "InstanceStats",
    "InstanceStatus",
    "Intent",
    "LispError",
    "ModelFailed",
    "NewPlan",
    "NoCluster",
    "NoEmacs",
    "NoInstance",
    "NotFinished",
    "NotFound",
    "NotReady",
    "Outcome",
    "PartlyDone",
    "Phase",
    "Place",
    "PlaceOptions",
    "PlanFailed",
    "PlanNotFound",
    "PlanOptions",
    "PlanPhase",
    "PlanReason",
    "PlanState",
    "Plans",
    "Pool",
    "PoolCondition",
    "PoolFlow",
    "PoolNotFound",
    "PoolScale",
    "Progress",
    "Reason",
    "Refused",
    "Removed",
    "RequestCancelled",
    "RequestFailed",
    "RequestInterrupted",
    "RequestNotFound",
    "RequestRejected",
    "RequestState",
    "RequestTimedOut",
    "RequestType",
    "RestartNeeded",
    "ResultGone",
    "ResultTruncated",
    "Scaled",
    "Session",
    "SessionStatus",
    "Setup",
    "Started",
    "Stopped",
    "Task",
    "Update",
    "Usage",
    "WaitTimeout",
    "Work",
    "WorkOptions",
    "WrongSettings",
    "connect",
    "connect_async",
    "open_backend",
]

_HOMES = {
    "async_client": "AsyncClient AsyncSession PlaceOptions WorkOptions connect_async",
    "async_plans": "AsyncPlans PlanOptions",
    "backends": "open_backend",
    "errors": (
        "ClientError Conflict Forbidden InstanceNotFound NoCluster NoEmacs NoInstance NotFinished NotFound "
        "NotReady PlanNotFound PoolNotFound Refused RequestNotFound RestartNeeded ResultGone ResultTruncated "
        "WaitTimeout WrongSettings"
    ),
    "interface": (
        "ANY_INSTANCE Backend Budget Error Finding Handle Instance InstanceStats InstanceStatus Outcome Phase "
        "Progress Reason Removed RequestState RequestType SessionStatus Setup Started Stopped Update Usage "
        "Work"
    ),
    "outcomes": (
        "InputRequired LispError ModelFailed PartlyDone PlanFailed RequestCancelled RequestFailed "
        "RequestInterrupted RequestRejected RequestTimedOut"
    ),
    "place": "Place",
    "plans": "Change Intent NewPlan PlanPhase PlanReason PlanState Task",
    "pools": "Pool PoolCondition PoolFlow PoolScale Scaled",
    "sync_client": "Client Plans Session connect",
}
"""By module, the names it defines."""

_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The next look finds it without this function.
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
