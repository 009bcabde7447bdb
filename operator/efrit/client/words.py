"""The words of a request's life, gathered from where they are defined, without what is heavy beside them."""

from efrit.api.reasons import UNSTORED_RESULT, PlanPhase, PlanReason
from efrit.api.reasons import RequestPhase as Phase
from efrit.api.reasons import RequestReason as Reason
from efrit.protocol.states import Outcome, RequestType, SessionStatus

__all__ = ["UNSTORED_RESULT", "Outcome", "Phase", "PlanPhase", "PlanReason", "Reason", "RequestType", "SessionStatus"]
