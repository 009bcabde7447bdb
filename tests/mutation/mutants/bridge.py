"""The bridge: who may be interrupted, and what is on the disk before."""

from tests.mutation.mutant import Mutant

EMACS = "operator/efrit/bridge/emacs.py"
SUPERVISE = "operator/efrit/bridge/supervise.py"
OVERRUN = "operator/efrit/bridge/overrun.py"
SELF_CHECK = "operator/efrit/queue/self_check.py"

UNIT = "tests/unit/bridge"
FAILS = "test_an_emacs_whose_self_check_fails_is_killed_unless_something_occupies_it"
CHECKS = "tests/unit/queue/test_self_check.py"

MUTANTS = (
    Mutant(
        "the look whether a process is an Emacs before it is signalled",
        EMACS,
        "        if not is_emacs(pid):\n            emacs.close()",
        "        if False:\n            emacs.close()",
        (f"{UNIT}/test_supervise.py::test_a_process_that_is_not_emacs_is_left_alone",),
    ),
    Mutant(
        "the look at the disk whether a request still runs, before Emacs is killed for it",
        SUPERVISE,
        " and not self._may_have_ended(step.id)",
        "",
        (f"{UNIT}/test_supervise.py::test_emacs_is_spared_while_the_answer_it_gave_cannot_be_synced",),
    ),
    Mutant(
        "the patience with an eval while a session is to stop",
        OVERRUN,
        "    return next(in_time, None)",
        "    return None",
        (f"{UNIT}/test_supervise.py::test_a_session_is_told_to_stop_once_the_eval_that_occupies_emacs_is_over",),
    ),
    Mutant(
        "the time that a silent Emacs could run, before it is killed",
        "operator/efrit/queue/process_sample.py",
        '    if after.state == "S":\n        return seconds\n',
        '    if after.state != "R":\n        return seconds\n',
        (f"{UNIT}/test_overrun.py::test_silence_counts_while_emacs_could_run",),
    ),
    Mutant(
        "the longest silence of an Emacs that could run",
        "operator/efrit/queue/process_sample.py",
        "HUNG_SECONDS = 6.0",
        "HUNG_SECONDS = 8.0",
        (
            f"{UNIT}/test_overrun.py"
            "::test_a_hung_emacs_is_killed_early_enough_for_the_next_to_answer_within_ten_seconds",
        ),
    ),
    Mutant(
        "the number of the run in its pause",
        "operator/efrit/bridge/run-emacs.sh",
        "pause=$queue/control/pause_$EFRIT_GENERATION\n",
        "pause=$queue/control/pause\n",
        (f"{UNIT}/test_run_emacs.py::test_a_run_that_ends_late_does_not_hold_back_the_one_that_took_its_place",),
    ),
    Mutant(
        "the end of an Emacs whose self-check fails",
        OVERRUN,
        "    if emacs.cause is not None:\n",
        "    if False:\n",
        (f"{UNIT}/test_overrun.py::{FAILS}",),
    ),
    Mutant(
        "the look whether something runs, before an Emacs is ended for its self-check",
        OVERRUN,
        "    if any(not run.session or run.id == emacs.current for run in runs):\n",
        "    if emacs.cause is None and any(not run.session or run.id == emacs.current for run in runs):\n",
        (f"{UNIT}/test_overrun.py::{FAILS}",),
    ),
    Mutant(
        "the patience with sessions under way in an Emacs whose self-check fails",
        SELF_CHECK,
        "self._delay(now) if report.idle else max(self._stall, self._delay(now))",
        "self._delay(now)",
        (f"{CHECKS}::test_what_heartbeats_say_of_an_emacs",),
    ),
    Mutant(
        "the growing delay between restarts of an Emacs that never passes its self-check",
        SELF_CHECK,
        "        return 0.0 if late < 0 else min(",
        "        return 0.0 if late < 100 else min(",
        (f"{CHECKS}::test_an_emacs_that_never_passes_is_ended_less_and_less_often",),
    ),
    Mutant(
        "the end of an idle Emacs that makes no self-check",
        SELF_CHECK,
        "        if unchecked < OVERDUE_SECONDS:\n",
        "        if unchecked < 10_000:\n",
        (f"{CHECKS}::test_an_idle_emacs_that_beats_and_makes_no_check_is_ended",),
    ),
    Mutant(
        "the time without requests after which a self-check is overdue",
        SELF_CHECK,
        "or not report.idle or report.time != before.time:",
        "or report.time != before.time:",
        (f"{CHECKS}::test_what_heartbeats_say_of_an_emacs",),
    ),
    Mutant(
        "the end of an Emacs on this machine whose self-check fails",
        "operator/efrit/client/local/health.py",
        '        if cause is not None and heartbeat.get("current") is None:\n',
        "        if False:\n",
        ("tests/unit/client/test_local_health.py::test_an_idle_emacs_whose_self_check_fails_is_ended",),
    ),
    Mutant(
        "another start of Emacs after requests have ended it",
        "operator/efrit/bridge/run-emacs.sh",
        ' && [ "$(claimed)" = "$before" ]',
        "",
        (f"{UNIT}/test_run_emacs.py::test_an_emacs_that_requests_have_ended_is_started_again",),
    ),
)
