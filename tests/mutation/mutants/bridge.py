"""The bridge: who may be interrupted, and what is on the disk before."""

from tests.mutation.mutant import Mutant

EMACS = "operator/efrit/bridge/emacs.py"
SUPERVISE = "operator/efrit/bridge/supervise.py"
OVERRUN = "operator/efrit/bridge/overrun.py"

UNIT = "tests/unit/bridge"

MUTANTS = (
    Mutant(
        "the look whether a process is an Emacs before it is signalled",
        EMACS,
        "        if not is_emacs(pid):\n            found.close()",
        "        if False:\n            found.close()",
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
        "the number of the run in its pause",
        "operator/efrit/bridge/run-emacs.sh",
        "pause=$queue/control/pause_$EFRIT_GENERATION\n",
        "pause=$queue/control/pause\n",
        (f"{UNIT}/test_run_emacs.py::test_a_run_that_ends_late_does_not_hold_back_the_one_that_took_its_place",),
    ),
)
