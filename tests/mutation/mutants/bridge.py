"""The bridge: who may be interrupted, and what is on the disk before."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Always, Instead, Never, Value, Without

MUTANTS = (
    Step(
        "the wait for the disk before an element of a batch is reported as stored",
        "stored-before-reported",
        Instead(
            "asyncio.ensure_future(self._queue.submit(element.request)); "
            "return RequestView(id=element.id, state='queued')"
        ),
    ).found_by("test_what_the_disk_refuses_is_reported_to_each_it_hits_and_leaves_nothing"),
    Step(
        "the bound of the head of a request, and of what is beside its body", "endless-request-head", Never()
    ).found_by("test_after_what_is_no_http_or_too_long_the_connection_ends"),
    Step("the bound of the readers of a kind of stream", "most-streams", Never()).found_by(
        "test_of_readers_that_come_all_at_once_no_more_follow_than_may"
    ),
    Step("the bound of the headers of a request", "most-headers", Never()).found_by(
        "test_after_what_is_no_http_or_too_long_the_connection_ends"
    ),
    Step("the bound of requests that wait for the answer to one before them", "most-pipelined", Never()).found_by(
        "test_requests_sent_together_are_answered_in_turn_up_to_a_bound"
    ),
    Step(
        "the address whose connection ends where the port of the probes is full",
        "oldest-of-most",
        Instead("crowd = next(iter(self._addresses.values()))"),
    ).found_by(
        "test_who_fills_the_port_of_the_probes_ends_connections_of_their_own",
        "test_who_fills_the_port_ends_connections_of_their_own",
    ),
    Step("the bound of the head of a probe", "endless-probe-head", Value("not is_http")).found_by(
        "test_whatever_comes_has_one_answer"
    ),
    Step("the bound of the headers of a probe", "most-probe-headers", Never()).found_by(
        "test_whatever_comes_has_one_answer"
    ),
    Step(
        "the pause of a bridge that can open no more files, before it accepts probes again", "accept-later", Never()
    ).found_by("test_where_no_more_files_can_be_opened_the_next_connection_waits"),
    Step("the difference between headers and what follows a body", "trailers-are-no-headers", Never()).found_by(
        "test_what_follows_a_body_is_no_header"
    ),
    Step("the body of a request that asks for another protocol", "no-other-protocol", Never()).found_by(
        "test_what_may_be_sent_is_taken"
    ),
    Step("the look whether a process is an Emacs before it is signalled", "is-emacs", Never(), silent=True).found_by(
        "test_a_process_that_is_not_emacs_is_left_alone"
    ),
    Step("the end of an Emacs that nobody has waited for yet", "pidfd-ended", Value("True")).found_by(
        "test_a_zombie_is_not_alive"
    ),
    Step(
        "the PID namespace of the number of an Emacs, before that is signalled", "foreign-namespace", Never()
    ).found_by("test_the_number_of_an_emacs_counts_only_in_the_pid_namespace_that_gave_it"),
    Step(
        "the look at the disk whether a request still runs, before Emacs is killed for it",
        "may-have-ended",
        Without(1),
    ).found_by("test_emacs_is_spared_while_the_answer_it_gave_cannot_be_synced"),
    Step("the time that an eval may take while a session is to stop", "eval-in-time", Value("None")).found_by(
        "test_a_session_is_stopped_once_the_eval_that_occupies_emacs_is_over"
    ),
    Step(
        "the time that a silent Emacs could run, before it is killed", "silent-sleeper", Value('after.state != "R"')
    ).found_by("test_silence_counts_while_emacs_could_run"),
    Step("the longest silence of an Emacs that could run", "hung-seconds", Value("8.0")).found_by(
        "test_a_hung_emacs_is_killed_early_enough_for_the_next_to_answer_within_ten_seconds"
    ),
    Step(
        "the silence of an Emacs that begins with the end of what occupied it",
        "silence-occupied",
        Value("max(emacs.last_heartbeat, emacs.since)"),
    ).found_by("test_silence_counts_from_when_something_last_occupied_emacs"),
    Step("what occupied an Emacs between two checks of the supervisor", "ended-between-checks", Never()).found_by(
        "test_an_emacs_is_not_silent_for_what_began_and_ended_between_two_checks"
    ),
    Step(
        "the time that a silent Emacs could run, which begins with the end of what occupied it",
        "unresponsive-occupied",
        Never(),
    ).found_by("test_what_occupies_emacs_does_not_count_as_time_in_which_it_could_have_answered"),
    Step("the end of an Emacs' rest with what occupied it since", "rest-ended", Value("since + emacs.rest")).found_by(
        "test_an_emacs_that_rests_is_silent_from_when_something_is_due"
    ),
    Step("the end of an Emacs' rest when a request comes", "rest-waiting", Never()).found_by(
        "test_an_emacs_that_rests_is_silent_from_when_something_is_due"
    ),
    Step("the time for which the bridge stood still beside an Emacs that rests", "bridge-frozen", Never()).found_by(
        "test_an_emacs_that_rests_is_not_taken_for_silent_while_the_bridge_stood_still"
    ),
    Step(
        "the rest of an Emacs, which is no time in which it should have answered",
        "unresponsive-rest",
        Value("now - moment"),
    ).found_by("test_only_time_in_which_an_answer_was_due_counts"),
    Step("the number of the run in its pause", "pause-of-run", Value("$queue/control/pause")).found_by(
        "test_a_run_that_ends_late_does_not_hold_back_the_one_that_took_its_place"
    ),
    Step("the end of an Emacs whose self-check fails", "self-check-kill", Never()).found_by(
        "test_an_emacs_whose_self_check_fails_is_killed_unless_something_occupies_it"
    ),
    Step(
        "the look whether something runs, before an Emacs is ended for its self-check",
        "self-check-busy",
        Value("emacs.cause is None and ORIGINAL"),
    ).found_by("test_an_emacs_whose_self_check_fails_is_killed_unless_something_occupies_it"),
    Step(
        "the time for sessions under way in an Emacs whose self-check fails",
        "self-check-grace",
        Value("self._delay(now)"),
    ).found_by("test_what_heartbeats_say_of_an_emacs"),
    Step(
        "the growing delay between restarts of an Emacs that never passes its self-check",
        "restart-delay",
        Value("0.0"),
    ).found_by("test_an_emacs_that_never_passes_is_ended_less_and_less_often"),
    Step("the end of an idle Emacs that makes no self-check", "check-overdue", Always()).found_by(
        "test_an_idle_emacs_that_beats_and_makes_no_check_is_ended"
    ),
    Step("the time without requests after which a self-check is overdue", "check-while-idle", Without(2)).found_by(
        "test_what_heartbeats_say_of_an_emacs"
    ),
    Step("the end of an Emacs on this machine whose self-check fails", "local-self-check", Never()).found_by(
        "test_an_idle_emacs_whose_self_check_fails_is_ended"
    ),
    Step(
        "the look whether the number of a run is a file, before it is written",
        "generation-file",
        Always(),
        silent=True,
    ).found_by("test_a_pipe_in_the_place_of_a_file_holds_nothing_up[generation]"),
    Step("another start of Emacs after requests have ended it", "short-run", Never()).found_by(
        "test_an_emacs_that_requests_have_ended_is_started_again"
    ),
    Step(
        "the beginning of what would go with an ephemeral queue before its Emacs ends", "ephemeral-begun", Never()
    ).found_by("test_asked_to_stop_it_lets_requests_begin_that_would_go_with_their_queue_and_no_others[True]"),
    Step("the digest of a dump, of the copy that a start has", "dump-verified", Always()).found_by(
        "test_a_dump_with_another_digest_is_made_anew"
    ),
    Step("the digests of the files a dump was made of, before each start from it", "dump-fits", Never()).found_by(
        "test_a_dump_is_made_anew_where_its_files_have_changed"
    ),
    Step(
        "the environment of a dump's maker, without what may be secret", "dump-environment", Instead('exec env "$@"')
    ).found_by("test_who_makes_a_dump_sees_no_variables_of_the_instance"),
    Step(
        "a start without a dump after Emacs has ended right after its start from one", "dump-abandoned", Never()
    ).found_by("test_after_an_emacs_that_ends_right_after_its_start_from_a_dump_it_starts_without"),
    Step("a day without a dump that Emacs has ended with", "dump-failed", Never()).found_by(
        "test_a_dump_that_emacs_has_ended_with_is_used_by_nobody"
    ),
    Step("no second attempt to make a dump where the first was killed", "dump-killed", Never()).found_by(
        "test_a_dump_whose_maker_was_killed_is_not_tried_again_at_once"
    ),
    Step("the wait for the acknowledgement of what goes with its queue", "departure", Never()).found_by(
        "test_it_lasts_until_everything_is_acknowledged"
    ),
    Step("the second look at tokens that could not be read", "tokens-unread", Instead("pass")).found_by(
        "test_a_token_that_could_not_be_read_once_is_accepted_with_the_next_look"
    ),
    Step("the second look at a certificate that could not be read", "certificate-unread", Instead("pass")).found_by(
        "test_a_certificate_that_could_not_be_read_once_is_served_with_the_next_look"
    ),
    Step(
        "the end at once of a bridge whose Emacs lives on", "bridge-restarts-alone", Value("ends_with_pod")
    ).found_by("test_only_a_queue_that_ends_with_its_pod_is_waited_for"),
)
