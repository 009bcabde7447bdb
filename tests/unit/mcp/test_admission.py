"""How many calls are taken in, and how many bytes of their messages: of all callers, and of each."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from efrit.mcp.admission import (
    MAX_HELD_BYTES,
    MAX_HELD_BYTES_PER_CALLER,
    MAX_MESSAGE_BYTES,
    SMALL_MESSAGE_BYTES,
    Admission,
    RejectedError,
)
from efrit.mcp.settings import Limits

LIMITS = Limits(calls=8, calls_per_caller=3)
LARGE = MAX_HELD_BYTES_PER_CALLER // 2


def status_of(stack: ExitStack, admission: Admission, caller: str, size: int = 0) -> int:
    """Return what a caller gets for one more call with a message of so many bytes, which goes on."""
    try:
        stack.enter_context(admission.call(caller)).add(size)
    except RejectedError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("calls", "statuses"),
    [
        ([("ann", 0)] * 4 + [("ben", 0)], [200, 200, 200, 429, 200]),
        ([(f"c{n}", 0) for n in range(LIMITS.calls + 1)], [200] * LIMITS.calls + [503]),
        ([("ann", MAX_MESSAGE_BYTES), ("ben", MAX_MESSAGE_BYTES + 1)], [200, 413]),
        ([("ann", LARGE), ("ann", LARGE), ("ann", LARGE), ("ben", LARGE)], [200, 200, 429, 200]),
        ([(f"c{n}", LARGE) for n in range(5)], [200] * 4 + [503]),
        ([(f"c{n}", LARGE) for n in range(4)] + [("ann", SMALL_MESSAGE_BYTES)], [200] * 5),
    ],
    ids=["calls of a caller", "calls of all", "one message", "bytes of a caller", "bytes of all", "small messages"],
)
def test_more_than_the_limits_is_refused_and_others_are_served(
    calls: list[tuple[str, int]], statuses: list[int]
) -> None:
    assert LARGE * 4 <= MAX_HELD_BYTES + 4 * SMALL_MESSAGE_BYTES < LARGE * 5
    admission = Admission(LIMITS)
    with ExitStack() as stack:
        assert [status_of(stack, admission, caller, size) for caller, size in calls] == statuses
    # What has ended counts no more, and a caller who has gone leaves nothing behind.
    assert (admission.running, admission.held_bytes, admission.callers) == (0, 0, 0)
