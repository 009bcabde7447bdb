"""Whether the bridge lives and whether the instance takes work, each as the problems that speak against it."""

from efrit.protocol.view import EmacsStats, ErrorBody

# The longest pause of the slowest loop is the idle scan's 10 s.
STUCK_SECONDS = 30.0


def liveness(beats: dict[str, float], now: float) -> list[str]:
    """Return the loops that are overdue. `beats`: name -> monotonic time of the last round."""
    return [
        f"{name} has made no progress for {now - beat:.0f} s"
        for name, beat in beats.items()
        if now - beat > STUCK_SECONDS
    ]


def readiness(*, queue_open: bool, emacs: EmacsStats) -> list[str]:
    """Return what keeps the instance from taking work."""
    problems = []
    if not queue_open:
        problems.append("the queue is not open")
    if not emacs.alive:
        problems.append("Emacs is not running")
    elif emacs.self_check_problem is not None:
        problems.append(f"Emacs fails its self-check: {emacs.self_check_problem}")
    elif not emacs.responsive:
        problems.append("Emacs does not respond")
    return problems


def verdict(problems: list[str]) -> tuple[int, str, bytes]:
    """Return status, content type and body of the answer to a probe."""
    if not problems:
        return 200, "text/plain; charset=utf-8", b"ok\n"
    return 503, "application/json", ErrorBody.of("NotReady", "; ".join(problems)).to_json().encode()
