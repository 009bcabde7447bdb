"""decide/failed_actions.py: what an action that fails means for the status of its request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from efrit.api import EfritRequest
from efrit.controller.decide.failed_actions import RESULT_ATTEMPTS
from efrit.controller.decide.requests import decide_request
from efrit.controller.model.actions import CancelWork, FetchAnswer, PatchStatus, RequeueAfter, StoreResult, Submit
from efrit.controller.model.snapshots import ActionFailure, RequestSnapshot
from efrit.protocol import RequestState
from efrit.protocol.view import RequestView
from tests.support.factory import (
    NOW,
    answered,
    condition,
    of_kind,
    ready,
    request,
    seconds,
    snapshot,
    the,
    view,
    written,
)

WORDS = 'secrets "efrit-result-uid-work" is forbidden: exceeded quota: no-secrets'
LARGE = answered(result="x" * 40_000, sha256="0" * 64, result_bytes=40_000)
LATER = NOW + seconds(3)


def failed(
    action: str, *, code: str = "StorageError", sentence: str = "the volume failed", **more: Any
) -> ActionFailure:
    return ActionFailure(action, code, sentence, **({"sentence_time": NOW, "first": NOW, "last": NOW} | more))


def refused(times: int, **more: Any) -> ActionFailure:
    failure = failed("StoreResult", code="ApiRefused", sentence=WORDS, refusals=times)
    return replace(failure, **more)


def unstored(failure: ActionFailure) -> RequestSnapshot:
    """Return a request whose large result was answered, and could not be stored."""
    return snapshot(target=ready(), bridge_view=LARGE, failure=failure)


def uncalled(
    action: type, efrit_request: EfritRequest, request_view: RequestView | None, code: str
) -> RequestSnapshot:
    """Return a request for which a call of its bridge fails."""
    return snapshot(efrit_request, ready(), bridge_view=request_view, failure=failed(action.__name__, code=code))


def test_a_request_whose_bridge_is_not_called_any_more_names_the_reason_of_the_instance() -> None:
    request_snapshot = uncalled(Submit, request(), None, "Unresponsive")

    status = written(decide_request(request_snapshot, NOW + seconds(1)))

    assert status["reason"] == "InstanceNotReady"
    message = condition(status, "Complete")[2]
    assert "its bridge does not answer (BridgeUnresponsive), and is called again until it does." in message


# A result whose Secret is refused.


@pytest.mark.parametrize(("times", "pause"), [(1, 1), (2, 2), (3, 4)])
def test_a_refused_result_is_stored_again_after_a_pause_that_doubles(times: int, pause: float) -> None:
    request_snapshot = unstored(refused(times, first=NOW, last=NOW))

    early = decide_request(request_snapshot, NOW + seconds(pause / 2))
    due = decide_request(
        replace(request_snapshot, request=_reported_by_watch(request_snapshot)), NOW + seconds(pause)
    )

    assert of_kind(early, StoreResult) == []
    assert {RequeueAfter, PatchStatus} & {type(action) for action in early}
    assert [type(action) for action in due] == [StoreResult, PatchStatus]


def _reported_by_watch(request_snapshot: Any) -> Any:
    """Return the request with the status that it gets while its result is refused."""
    return request(status=written(decide_request(request_snapshot, NOW + seconds(1))))


def test_a_clock_that_was_set_back_does_not_make_the_pause_longer() -> None:
    request_snapshot = unstored(refused(1, first=NOW, last=NOW + seconds(3600)))
    reported = replace(request_snapshot, request=_reported_by_watch(request_snapshot))

    assert [type(action) for action in decide_request(reported, NOW + seconds(1))] == [StoreResult, PatchStatus]


def test_the_status_says_after_a_second_why_the_result_is_not_stored() -> None:
    request_snapshot = unstored(refused(1, last=NOW + seconds(0.5)))

    assert of_kind(decide_request(request_snapshot, NOW + seconds(0.9)), PatchStatus) == []
    status = written(decide_request(request_snapshot, NOW + seconds(1)))
    assert (status["phase"], status["reason"]) == ("Running", "Running")
    assert WORDS in condition(status, "Complete")[2]


def test_a_result_that_stays_refused_is_final_with_its_beginning_and_the_sentence() -> None:
    actions = decide_request(unstored(refused(RESULT_ATTEMPTS)), LATER)

    assert [type(action) for action in actions] == [PatchStatus]
    status = written(actions)
    assert (status["phase"], status["reason"], status["outcome"]) == ("Succeeded", "Succeeded", "Success")
    assert (status["result"], status["truncated"]) == ("x" * 32_768, True)
    assert "resultRef" not in status
    message = condition(status, "Complete")[2]
    assert WORDS in message
    assert "/var/lib/efrit/queue/archive/resp_uid-work.json of pod efrit-alpha-0" in message
    assert "86400 s" in message


def test_of_a_refused_result_that_emacs_cut_the_status_names_no_whole() -> None:
    cut = answered(result="x" * 40_000, truncated=True, result_bytes=50_000)
    request_snapshot = snapshot(target=ready(), bridge_view=cut, failure=refused(RESULT_ATTEMPTS))

    message = condition(written(decide_request(request_snapshot, LATER)), "Complete")[2]

    assert "What Emacs kept of the result (spec.limits.maxResultBytes) is in /var/lib/efrit/queue/archive/" in message
    assert "The whole result" not in message


def test_a_long_sentence_of_the_api_server_is_cut() -> None:
    failure = refused(RESULT_ATTEMPTS, sentence="é" * 5_000)

    status = written(decide_request(unstored(failure), LATER))

    assert len(condition(status, "Complete")[2].encode()) < 1024


def test_a_failure_that_is_no_refusal_never_gives_a_result_up() -> None:
    request_snapshot = unstored(failed("StoreResult", code="ApiFailed"))
    status = written(decide_request(request_snapshot, NOW + seconds(60)))
    again = decide_request(replace(request_snapshot, request=request(status=status)), NOW + seconds(86_400))

    assert "the volume failed" in condition(status, "Complete")[2]
    assert [type(action) for action in again] == [StoreResult, PatchStatus]


# Calls that a bridge does not take.


QUEUED = written(decide_request(snapshot(target=ready(), bridge_view=view(queued_time=NOW)), NOW + seconds(5)))
CANCELLED = request(cancel=True, status=QUEUED)
BARE = view(state=RequestState.ANSWERED, response_bytes=100_000)
CASES = [
    (Submit, request(), None, "StorageError", "InstanceNotReady", "has not accepted the request yet: the volume"),
    (Submit, request(), None, "QueueFull", "Backpressure", "has not accepted the request yet: the volume"),
    (Submit, request(), None, "Unreachable", "InstanceNotReady", "its bridge does not answer."),
    (CancelWork, CANCELLED, view(), "NoSpace", "Queued", "cannot be asked to stop the request yet: the volume"),
    (CancelWork, request(cancel=True), view(), "NoSpace", "InstanceNotReady", "cannot be asked to stop"),
    (FetchAnswer, request(), BARE, "Unreachable", "Running", "cannot be read from EfritInstance alpha yet"),
]


@pytest.mark.parametrize(("action", "efrit_request", "request_view", "code", "reason", "text"), CASES)
def test_a_call_that_fails_for_a_second_is_reported_once_in_the_status_and_made_again(
    action: type, efrit_request: Any, request_view: Any, code: str, reason: str, text: str
) -> None:
    whole = uncalled(action, efrit_request, request_view, code)

    early, late = decide_request(whole, NOW + seconds(0.5)), decide_request(whole, NOW + seconds(1))

    assert of_kind(early, PatchStatus) == []
    assert the(early, action)
    assert bool(of_kind(late, action)) == (action is not Submit)
    status = written(late)
    assert status["reason"] == reason
    assert text in condition(status, "Complete")[2]
    reported = replace(whole, request=efrit_request.model_copy(update={"status": request(status=status).status}))
    again = decide_request(reported, NOW + seconds(60))
    assert of_kind(again, PatchStatus) == []
    assert the(again, action)


def test_nothing_is_handed_over_after_a_write_during_which_the_pod_may_have_been_given_up() -> None:
    whole = snapshot(request(queueTimeoutSeconds=60), ready(), failure=failed("Submit"))

    actions = decide_request(whole, NOW + seconds(2))

    assert [type(action) for action in actions] == [PatchStatus, RequeueAfter]


def test_the_failure_of_another_action_says_nothing() -> None:
    request_snapshot = snapshot(target=ready(), bridge_view=answered(result="2"), failure=failed("Submit"))

    assert written(decide_request(request_snapshot, LATER))["phase"] == "Succeeded"


def test_a_cancelled_request_that_does_not_end_says_that_it_is_being_stopped() -> None:
    request_snapshot = snapshot(request(cancel=True), ready(), bridge_view=view())

    assert of_kind(decide_request(request_snapshot, NOW + seconds(1)), PatchStatus) == []
    status = written(decide_request(request_snapshot, NOW + seconds(6)))
    assert condition(status, "Complete")[2] == "It is being withdrawn or stopped."
