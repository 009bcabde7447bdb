"""How work ended, as an exception: one class for each way in which it did not succeed. Pure."""

# ruff: noqa: N818 - as in efrit.backend.errors, the names say what happened

from __future__ import annotations

from efrit.backend.errors import ClientError
from efrit.backend.interface import Outcome, RequestReason, RequestState
from efrit.backend.plans import PlanState


class RequestFailed(ClientError):
    """A request did not succeed. `state` is how it ended, with what it printed and returned before."""

    code = "RequestFailed"

    def __init__(self, state: RequestState) -> None:
        problem = state.error.message if state.error is not None else state.message
        super().__init__(f"{state.handle.id} ended {state.reason}: {problem}")
        self.state = state


class LispError(RequestFailed):
    """The Lisp signalled an error: `state.error`."""

    code = "LispError"


class ModelFailed(RequestFailed):
    """The model could not be asked, refused, or is not configured: `state.error`."""

    code = "ModelFailed"


class InputRequired(RequestFailed):
    """The model asks something: `question`. Continue the session `state.session.id` to answer."""

    code = "InputRequired"

    @property
    def question(self) -> str:
        """What the model asks."""
        return (self.state.session.question if self.state.session is not None else None) or ""


class PartlyDone(RequestFailed):
    """A part was done: a budget or a limit was reached, an answer was cut, or todos are left."""

    code = "PartlyDone"


class RequestTimedOut(RequestFailed):
    """It ran or waited longer than it may."""

    code = "RequestTimedOut"


class RequestCancelled(RequestFailed):
    """It was cancelled."""

    code = "RequestCancelled"


class RequestInterrupted(RequestFailed):
    """Emacs died in the middle of it; what it did is unknown, and it was not run again."""

    code = "RequestInterrupted"


class RequestRejected(RequestFailed):
    """It never ran, because it cannot."""

    code = "RequestRejected"


class PlanFailed(ClientError):
    """A plan did not reach its intent. `state` is how it ended."""

    code = "PlanFailed"

    def __init__(self, state: PlanState) -> None:
        super().__init__(f"the plan {state.name} ended {state.reason}: {state.message}")
        self.state = state


_BY_REASON: dict[str, type[RequestFailed]] = {
    RequestReason.EVAL_ERROR: LispError,
    RequestReason.MODEL_ERROR: ModelFailed,
    RequestReason.MODEL_NOT_CONFIGURED: ModelFailed,
    RequestReason.INPUT_REQUIRED: InputRequired,
    RequestReason.PARTIAL: PartlyDone,
    RequestReason.BUDGET_EXHAUSTED: PartlyDone,
    RequestReason.CIRCUIT_BROKEN: PartlyDone,
    RequestReason.TIMED_OUT: RequestTimedOut,
    RequestReason.CANCELLED: RequestCancelled,
    RequestReason.INTERRUPTED: RequestInterrupted,
    RequestReason.REJECTED: RequestRejected,
}


def raise_for_outcome(state: RequestState) -> None:
    """Raise the `RequestFailed` that says how a request ended, unless it succeeded or is not over."""
    if state.final and state.outcome is not Outcome.SUCCESS:
        raise _BY_REASON.get(state.reason, RequestFailed)(state)


def raise_for_plan(state: PlanState) -> None:
    """Raise `PlanFailed` unless a plan succeeded or is not over."""
    if state.final and state.outcome is not Outcome.SUCCESS:
        raise PlanFailed(state)
