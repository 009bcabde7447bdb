"""What a status takes over as a struct, unchecked, is within the bounds of the definition all the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from efrit.api.request import RequestStatus
from efrit.api.wire_types import MAX_PROGRESS_CHARS
from efrit.controller.decide.progress_status import final_progress
from efrit.controller.decide.status_limits import FULL, REDUCED, StatusLimits
from efrit.protocol import Progress, RequestState, Session, Usage
from tests.support.factory import response, view

MAX_COUNT = 2**53
# As a bridge may send them: the longest that the reader of its answers takes.
PROGRESS = {
    "step": MAX_COUNT,
    "message": "\u00e9" * 100_000,
    "tool_calls": MAX_COUNT,
    "tokens": MAX_COUNT,
    "session": "s-1",
}
USAGE: dict[str, Any] = {
    **{f"{name}_tokens": MAX_COUNT for name in ("input", "output", "cache_read", "cache_write")},
    "model_calls": MAX_COUNT,
    "model_errors": {f"{number:064}": MAX_COUNT for number in range(64)},
}


def status(limits: StatusLimits) -> RequestStatus:
    """Return the status of work that has reported as much as it may, while it ran and at its end."""
    progress = msgspec.convert(PROGRESS, Progress)
    ended = response(
        progress=progress,
        usage=msgspec.convert(USAGE, Usage),
        session=msgspec.convert({"id": "s-1", "status": "need-input", "question": "?" * 100_000}, Session),
    )
    fields = final_progress(view(state=RequestState.ANSWERED, attempt=1, progress=progress), ended, limits)
    return RequestStatus(**fields)


@pytest.mark.parametrize("limits", [FULL, REDUCED])
def test_the_most_that_a_bridge_reports_is_within_the_bounds_of_the_status(limits: StatusLimits) -> None:
    written = status(limits)

    assert RequestStatus.model_validate(written.to_wire()) == written
    assert written.progress is not None
    assert len(written.progress.message or "") == min(limits.message, MAX_PROGRESS_CHARS) // 2


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Usage, {**USAGE, "model_errors": {**USAGE["model_errors"], "one more": 1}}),
        (Usage, {**USAGE, "model_errors": {"k" * 65: 1}}),
        (Usage, {**USAGE, "model_calls": -1}),
        (Progress, {**PROGRESS, "tokens": MAX_COUNT + 1}),
    ],
)
def test_what_would_be_beyond_them_is_refused_where_an_answer_is_read(kind: type[Any], value: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, kind)


def test_a_struct_itself_is_taken_unchecked() -> None:
    too_long = Progress(message="x" * (MAX_PROGRESS_CHARS + 1))

    taken = RequestStatus(progress=too_long)

    assert taken.progress is too_long
    with pytest.raises(ValidationError, match=str(MAX_PROGRESS_CHARS)):
        RequestStatus.model_validate(taken.to_wire())
