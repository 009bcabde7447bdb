"""What a failing action means for its request: when to repeat it, what the status says, when to do without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from efrit.api import EfritInstance, InstanceReason, RequestReason
from efrit.api.reasons import UNSTORED_RESULT
from efrit.controller.decide.open_status import write_after
from efrit.controller.decide.request_context import RequestContext
from efrit.controller.decide.status_limits import cut, with_stop
from efrit.controller.model import names
from efrit.controller.model.actions import Action, RequeueAfter
from efrit.controller.model.pauses import pause_remaining
from efrit.controller.model.snapshots import ActionFailure
from efrit.errors import BridgeUnreachable, BridgeUnresponsive, QueueFull

RESULT_ATTEMPTS = 4
"""How often the Secret of a result may be refused: with the pauses between them, over seven seconds."""
FIRST_PAUSE = timedelta(seconds=1)
MAX_SENTENCE_BYTES = 512


@dataclass(frozen=True, slots=True)
class _Report:
    """What the status says while an action fails."""

    reason: RequestReason
    text: str


REPORTS: Mapping[str, _Report] = {
    "Submit": _Report(RequestReason.INSTANCE_NOT_READY, "{instance} has not accepted the request yet: {sentence}"),
    "FetchAnswer": _Report(
        RequestReason.RUNNING, "The work has ended, but its answer cannot be read from {instance} yet: {sentence}"
    ),
    "StoreResult": _Report(
        RequestReason.RUNNING, "The work has ended, but its result cannot be stored in a Secret yet: {sentence}"
    ),
    "CancelWork": _Report(
        RequestReason.INSTANCE_NOT_READY, "{instance} cannot be asked to stop the request yet: {sentence}"
    ),
}


def failure_of(context: RequestContext, action: str) -> ActionFailure | None:
    """Return the failure of this action for the request, None where it does not fail."""
    failure = context.snapshot.failure
    return failure if failure is not None and failure.action == action else None


def report(context: RequestContext, action: str) -> list[Action]:
    """Return the write that says why this action is not done yet, once that has lasted a second."""
    failure = failure_of(context, action)
    if failure is None:
        return []
    template = REPORTS[action]
    target = context.snapshot.target
    name = f"EfritInstance {target.instance.metadata.name}" if target else "its EfritInstance"
    sentence = failure.sentence
    if failure.code == BridgeUnreachable.code:
        sentence = "its bridge does not answer."
    elif failure.code == BridgeUnresponsive.code:
        sentence = (
            f"its bridge does not answer ({InstanceReason.BRIDGE_UNRESPONSIVE}), and is called again until it does."
        )
    message = template.text.format(instance=name, sentence=cut(sentence, MAX_SENTENCE_BYTES))
    reason, present_reason = template.reason, context.snapshot.request.status.reason
    if failure.code == QueueFull.code:
        reason = RequestReason.BACKPRESSURE
    elif action == "CancelWork" and present_reason is not None:
        reason = RequestReason(present_reason)
    return write_after(
        context, context.now - failure.first, context.snapshot.config.running_after, reason, message, {}
    )


def unstored_result(context: RequestContext, *, truncated: bool) -> str | None:
    """Return why the result's Secret is given up, and where the whole result is; None while it may be created.

    `truncated` says that Emacs kept only the beginning.
    """
    failure = failure_of(context, "StoreResult")
    if failure is None or failure.refusals < RESULT_ATTEMPTS:  # gate: result-refusals
        return None
    text = f"{UNSTORED_RESULT} its Secret was refused: {with_stop(cut(failure.sentence, MAX_SENTENCE_BYTES))}"
    target = context.snapshot.target
    if target is None:
        return text
    return f"{text} {_archive_hint(target.instance, context.snapshot.request.run_id, truncated=truncated)}"


def _archive_hint(instance: EfritInstance, run_id: str, *, truncated: bool) -> str:
    seconds = instance.spec.queue.archive_seconds
    what = "What Emacs kept of the result (spec.limits.maxResultBytes)" if truncated else "The whole result"
    return (
        f"{what} is in {names.QUEUE_DIR}/archive/resp_{run_id}.json of pod {names.pod_name(instance.metadata.name)} "
        f"for at most {seconds} s (spec.queue.archiveSeconds, archiveRequests, archiveBytes)."
    )


def result_pause(context: RequestContext) -> list[Action] | None:
    """Return what to do until the refused Secret of a result is created again; None where it is due."""
    failure = failure_of(context, "StoreResult")
    if failure is None or failure.refusals >= RESULT_ATTEMPTS:
        return None
    actions = report(context, "StoreResult")
    if any(not isinstance(action, RequeueAfter) for action in actions):
        # The final status is written on condition of the version that this makes.
        return actions
    if failure.refusals == 0:
        return None
    remaining = pause_remaining(failure.last, FIRST_PAUSE * 2 ** (failure.refusals - 1), context.now)
    return [*actions, RequeueAfter(remaining)] if remaining else None
