"""The bridge: who may be interrupted, and what is on the disk before."""

from tests.mutation.mutant import Mutant
from tests.mutation.operation import Always, Instead, Never, Value, Without

UNIT = "tests/unit/bridge"
FAILS = "test_an_emacs_whose_self_check_fails_is_killed_unless_something_occupies_it"
RESTS = "test_an_emacs_that_rests_is_silent_from_when_something_is_due"
CHECKS = "tests/unit/queue/test_self_check.py"

MUTANTS = (
    Mutant(
        "the wait for the disk before an element of a batch is reported as stored",
        "stored-before-reported",
        Instead(
            "asyncio.ensure_future(self._queue.submit(element.request)); "
            "return RequestView(id=element.id, state='queued')"
        ),
        (f"{UNIT}/test_batch.py::test_what_the_disk_refuses_is_reported_to_each_it_hits_and_leaves_nothing",),
    ),
    Mutant(
        "the bound of the head of a request, and of what is beside its body",
        "endless-request-head",
        Never(),
        (f"{UNIT}/test_connection.py::test_after_what_is_no_http_or_too_long_the_connection_ends",),
    ),
    Mutant(
        "the bound of the headers of a request",
        "most-headers",
        Never(),
        (f"{UNIT}/test_connection.py::test_after_what_is_no_http_or_too_long_the_connection_ends",),
    ),
    Mutant(
        "the bound of requests that wait for the answer to one before them",
        "most-pipelined",
        Never(),
        (f"{UNIT}/test_connection.py::test_requests_sent_together_are_answered_in_turn_up_to_a_bound",),
    ),
    Mutant(
        "the address whose connection ends where the port of the probes is full",
        "oldest-of-most",
        Instead("crowd = next(iter(self._addresses.values()))"),
        (
            f"{UNIT}/test_probes.py::test_who_fills_the_port_of_the_probes_ends_connections_of_their_own",
            "tests/unit/controller/test_health.py::test_who_fills_the_port_ends_connections_of_their_own",
        ),
    ),
    Mutant(
        "the bound of the head of a probe",
        "endless-probe-head",
        Value("not is_http"),
        (f"{UNIT}/test_probes.py::test_whatever_comes_has_one_answer",),
    ),
    Mutant(
        "the bound of the headers of a probe",
        "most-probe-headers",
        Never(),
        (f"{UNIT}/test_probes.py::test_whatever_comes_has_one_answer",),
    ),
    Mutant(
        "the pause of a bridge that can open no more files, before it accepts probes again",
        "accept-later",
        Never(),
        (f"{UNIT}/test_probes.py::test_where_no_more_files_can_be_opened_the_next_connection_waits",),
    ),
    Mutant(
        "the difference between headers and what follows a body",
        "trailers-are-no-headers",
        Never(),
        (f"{UNIT}/test_connection.py::test_what_follows_a_body_is_no_header",),
    ),
    Mutant(
        "the body of a request that asks for another protocol",
        "no-other-protocol",
        Never(),
        (f"{UNIT}/test_connection.py::test_what_may_be_sent_is_taken",),
    ),
    Mutant(
        "the look whether a process is an Emacs before it is signalled",
        "is-emacs",
        Never(),
        (f"{UNIT}/test_supervise.py::test_a_process_that_is_not_emacs_is_left_alone",),
        silent=True,
    ),
    Mutant(
        "the end of an Emacs that nobody has waited for yet",
        "pidfd-ended",
        Value("True"),
        (f"{UNIT}/test_supervise.py::test_a_zombie_is_not_alive",),
    ),
    Mutant(
        "the PID namespace of the number of an Emacs, before that is signalled",
        "foreign-namespace",
        Never(),
        (f"{UNIT}/test_supervise.py::test_the_number_of_an_emacs_counts_only_in_the_pid_namespace_that_gave_it",),
    ),
    Mutant(
        "the look at the disk whether a request still runs, before Emacs is killed for it",
        "may-have-ended",
        Without(1),
        (f"{UNIT}/test_supervise.py::test_emacs_is_spared_while_the_answer_it_gave_cannot_be_synced",),
    ),
    Mutant(
        "the time that an eval may take while a session is to stop",
        "eval-in-time",
        Value("None"),
        (f"{UNIT}/test_supervise.py::test_a_session_is_stopped_once_the_eval_that_occupies_emacs_is_over",),
    ),
    Mutant(
        "the time that a silent Emacs could run, before it is killed",
        "silent-sleeper",
        Value('after.state != "R"'),
        (f"{UNIT}/test_overrun.py::test_silence_counts_while_emacs_could_run",),
    ),
    Mutant(
        "the longest silence of an Emacs that could run",
        "hung-seconds",
        Value("8.0"),
        (
            f"{UNIT}/test_overrun.py"
            "::test_a_hung_emacs_is_killed_early_enough_for_the_next_to_answer_within_ten_seconds",
        ),
    ),
    Mutant(
        "the silence of an Emacs that begins with the end of what occupied it",
        "silence-occupied",
        Value("max(emacs.last_heartbeat, emacs.since)"),
        (f"{UNIT}/test_overrun.py::test_silence_counts_from_when_something_last_occupied_emacs",),
    ),
    Mutant(
        "what occupied an Emacs between two looks of the supervisor",
        "ended-between-checks",
        Never(),
        (f"{UNIT}/test_supervise.py::test_an_emacs_is_not_silent_for_what_began_and_ended_between_two_looks",),
    ),
    Mutant(
        "the time that a silent Emacs could run, which begins with the end of what occupied it",
        "unresponsive-occupied",
        Never(),
        (f"{UNIT}/test_overrun.py::test_what_occupies_emacs_does_not_count_as_time_in_which_it_could_have_answered",),
    ),
    Mutant(
        "the end of an Emacs' rest with what occupied it since",
        "rest-ended",
        Value("since + emacs.rest"),
        (f"{UNIT}/test_overrun.py::{RESTS}",),
    ),
    Mutant(
        "the end of an Emacs' rest when a request comes",
        "rest-waiting",
        Never(),
        (f"{UNIT}/test_overrun.py::{RESTS}",),
    ),
    Mutant(
        "the time for which the bridge stood still beside an Emacs that rests",
        "bridge-frozen",
        Never(),
        (f"{UNIT}/test_supervise.py::test_an_emacs_that_rests_is_not_taken_for_silent_while_the_bridge_stood_still",),
    ),
    Mutant(
        "the rest of an Emacs, which is no time in which it should have answered",
        "unresponsive-rest",
        Value("now - moment"),
        (f"{UNIT}/test_overrun.py::test_only_time_in_which_an_answer_was_due_counts",),
    ),
    Mutant(
        "the number of the run in its pause",
        "pause-of-run",
        Value("$queue/control/pause"),
        (f"{UNIT}/test_run_emacs.py::test_a_run_that_ends_late_does_not_hold_back_the_one_that_took_its_place",),
    ),
    Mutant(
        "the end of an Emacs whose self-check fails",
        "self-check-kill",
        Never(),
        (f"{UNIT}/test_overrun.py::{FAILS}",),
    ),
    Mutant(
        "the look whether something runs, before an Emacs is ended for its self-check",
        "self-check-busy",
        Value("emacs.cause is None and ORIGINAL"),
        (f"{UNIT}/test_overrun.py::{FAILS}",),
    ),
    Mutant(
        "the time for sessions under way in an Emacs whose self-check fails",
        "self-check-grace",
        Value("self._delay(now)"),
        (f"{CHECKS}::test_what_heartbeats_say_of_an_emacs",),
    ),
    Mutant(
        "the growing delay between restarts of an Emacs that never passes its self-check",
        "restart-delay",
        Value("0.0"),
        (f"{CHECKS}::test_an_emacs_that_never_passes_is_ended_less_and_less_often",),
    ),
    Mutant(
        "the end of an idle Emacs that makes no self-check",
        "check-overdue",
        Always(),
        (f"{CHECKS}::test_an_idle_emacs_that_beats_and_makes_no_check_is_ended",),
    ),
    Mutant(
        "the time without requests after which a self-check is overdue",
        "check-while-idle",
        Without(2),
        (f"{CHECKS}::test_what_heartbeats_say_of_an_emacs",),
    ),
    Mutant(
        "the end of an Emacs on this machine whose self-check fails",
        "local-self-check",
        Never(),
        ("tests/unit/client/local/test_health.py::test_an_idle_emacs_whose_self_check_fails_is_ended",),
    ),
    Mutant(
        "another start of Emacs after requests have ended it",
        "short-run",
        Never(),
        (f"{UNIT}/test_run_emacs.py::test_an_emacs_that_requests_have_ended_is_started_again",),
    ),
    Mutant(
        "the beginning of what would go with an ephemeral queue before its Emacs ends",
        "ephemeral-begun",
        Never(),
        (
            f"{UNIT}/test_run_emacs.py::"
            "test_asked_to_stop_it_lets_requests_begin_that_would_go_with_their_queue_and_no_others[True]",
        ),
    ),
    Mutant(
        "the digest of a dump, of the copy that a start has",
        "dump-verified",
        Always(),
        (f"{UNIT}/test_run_emacs_fast_start.py::test_a_dump_with_another_digest_is_made_anew",),
    ),
    Mutant(
        "the digests of the files a dump was made of, before each start from it",
        "dump-fits",
        Never(),
        (f"{UNIT}/test_run_emacs_fast_start.py::test_a_dump_is_made_anew_where_its_files_have_changed",),
    ),
    Mutant(
        "the environment of a dump's maker, without what may be secret",
        "dump-environment",
        Instead('exec env "$@"'),
        (f"{UNIT}/test_run_emacs_fast_start.py::test_who_makes_a_dump_sees_no_variables_of_the_instance",),
    ),
    Mutant(
        "a start without a dump after Emacs has ended right after its start from one",
        "dump-abandoned",
        Never(),
        (
            f"{UNIT}/test_run_emacs_fast_start.py::test_after_an_emacs_that_ends_right_after_its_start_from_a_dump_it_starts_without",
        ),
    ),
    Mutant(
        "a day without a dump that Emacs has ended with",
        "dump-failed",
        Never(),
        (f"{UNIT}/test_run_emacs_fast_start.py::test_a_dump_that_emacs_has_ended_with_is_used_by_nobody",),
    ),
    Mutant(
        "no second attempt to make a dump where the first was killed",
        "dump-killed",
        Never(),
        (f"{UNIT}/test_run_emacs_fast_start.py::test_a_dump_whose_maker_was_killed_is_not_tried_again_at_once",),
    ),
    Mutant(
        "the wait for the acknowledgement of what goes with its queue",
        "departure",
        Never(),
        (f"{UNIT}/test_departure.py::test_it_lasts_until_everything_is_acknowledged",),
    ),
    Mutant(
        "the end at once of a bridge whose Emacs lives on",
        "bridge-restarts-alone",
        Value("ends_with_pod"),
        (f"{UNIT}/test_departure.py::test_only_a_queue_that_ends_with_its_pod_is_waited_for",),
    ),
)
