"""Work for resident Emacs daemons, from Python: `connect` for programs, `connect_async` for those with asyncio.

`efrit.client.interface` is the vocabulary, with one `Backend` for a cluster (custom resources) and one for this
machine (the same queue, a local Emacs); `efrit.client.backends` opens one. Nothing is imported before it is used: the
command line pays for every module.
"""

from typing import TYPE_CHECKING

from efrit.lazily import attributes_of

if TYPE_CHECKING:
    from efrit.client.async_client import AsyncClient, AsyncSession, PlaceOptions, WorkOptions, connect_async
    from efrit.client.async_plans import AsyncPlans, PlanOptions
    from efrit.client.backends import Place, open_backend
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
    from efrit.client.plans import Change, Intent, NewPlan, PlanPhase, PlanReason, PlanState, Task
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

__getattr__ = attributes_of(
    __name__,
    {
        "async_client": "AsyncClient AsyncSession PlaceOptions WorkOptions connect_async",
        "async_plans": "AsyncPlans PlanOptions",
        "backends": "Place open_backend",
        "errors": (
            "ClientError Conflict Forbidden InstanceNotFound NoCluster NoEmacs NoInstance NotFinished NotFound "
            "NotReady PlanNotFound Refused RequestNotFound RestartNeeded ResultGone ResultTruncated WaitTimeout "
            "WrongSettings"
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
        "plans": "Change Intent NewPlan PlanPhase PlanReason PlanState Task",
        "sync_client": "Client Plans Session connect",
    },
)
