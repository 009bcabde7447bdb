"""The words of a request's life, gathered from where they are defined, without what is heavy beside them."""

from efrit.api.reasons import PlanPhase, PlanReason
from efrit.api.reasons import RequestPhase as Phase
from efrit.api.reasons import RequestReason as Reason
from efrit.protocol.states import Outcome, RequestType, SessionStatus

__all__ = ["Outcome", "Phase", "PlanPhase", "PlanReason", "Reason", "RequestType", "SessionStatus"]
