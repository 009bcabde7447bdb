"""Which lines of a log show a defect, and which a bridge that is stopped."""

from __future__ import annotations

from tests.support.faults.log_defects import logged_defects

OURS = '  File "/opt/efrit/lib/python3.13/site-packages/efrit/queue/queue.py", line 344, in _store'
THEIRS = (
    '  File "/opt/efrit/lib/python3.13/site-packages/uvicorn/protocols/http/httptools_impl.py", line 416, in run_asgi'
)
CUT_OFF = "asyncio.exceptions.CancelledError: Task cancelled, timeout graceful shutdown exceeded"


def log(*messages: str) -> str:
    return "\n".join(f"2026-11-22T05:03:4{number}.1Z stderr F {message}" for number, message in enumerate(messages))


def traceback(exception: str) -> tuple[str, ...]:
    return (
        "ERROR uvicorn.error: Exception",
        "Traceback (most recent call last):",
        THEIRS,
        OURS,
        "    ^^^^",
        exception,
    )


def record(*lines: str) -> tuple[str, ...]:
    """Return the traceback as a program of ours logs it."""
    first, *rest = lines
    return (first, *(f"    {line}" for line in rest))


def defects_in(*messages: str) -> list[str]:
    return [line.partition(" F ")[2] for line in logged_defects(log(*messages), "2026")]


def test_a_traceback_through_our_code_is_a_defect() -> None:
    assert defects_in(*traceback("ValueError: no")) == [OURS]
    assert defects_in(*record(*traceback("ValueError: no"))) == [f"    {OURS}"]


def test_a_call_cut_off_by_the_end_of_its_bridge_is_none() -> None:
    assert defects_in(*traceback(CUT_OFF)) == []
    assert defects_in(*record(*traceback(CUT_OFF))) == []
    chained = ("During handling of the above exception:", *traceback(CUT_OFF)[1:])
    assert defects_in(*record(*traceback("KeyError: 1"), *chained)) == []


def test_what_is_cut_off_does_not_hide_what_comes_after() -> None:
    assert defects_in(*traceback(CUT_OFF)[1:], *traceback("ValueError: no")[1:4]) == [OURS]
    assert defects_in(*record(*traceback(CUT_OFF)), *record(*traceback("ValueError: no"))) == [f"    {OURS}"]


def test_a_traceback_that_another_interrupts_is_still_a_defect() -> None:
    assert defects_in(*traceback("")[1:4], *traceback(CUT_OFF)[1:]) == [OURS]


def test_a_critical_line_is_a_defect_unless_it_reports_a_lost_lease() -> None:
    line = "CRITICAL efrit.controller: it fell"
    assert defects_in(line, "CRITICAL efrit.controller: the lease is lost") == [line]


def test_what_was_written_before_the_run_is_none_of_it() -> None:
    assert logged_defects(log(*traceback("ValueError: no")), "2026-11-22T05:03:44") == []
