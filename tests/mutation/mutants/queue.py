"""The durable queue: what is synced before what, what is never replaced, what is looked at again."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Always, Drop, Instead, Never, Value, Without

MUTANTS = (
    Step(
        "the look for a heartbeat that cannot be read, before a queue is removed", "removed-unread", Drop()
    ).found_by("test_a_queue_whose_heartbeat_cannot_be_read_is_not_removed"),
    Step("the bound of what is put aside in a directory of the queue", "most-aside", Value("0")).found_by(
        "test_the_newest_stay_for_their_time_and_the_others_go"
    ),
    Step(
        "the removal of a full directory that was put aside in the archive", "archived-aside", Value("False")
    ).found_by("test_a_full_directory_in_the_archive_goes_with_its_time"),
    Step(
        "the refusal to compact a claim journal that may not be read",
        "claims-unread",
        Value("self._claims_from(name, 0)"),
    ).found_by("test_claims_in_a_journal_that_may_not_be_read_outlive_a_compaction"),
    Step("the process number of another host, which is none of this one", "foreign-pid", Never()).found_by(
        "test_every_command_says_which_host_serves_the_queue"
    ),
    Step("the end of what is remembered of the readers of a log", "finished-log", Never()).found_by(
        "test_nothing_is_remembered_of_who_reads_the_log_of_a_finished_request"
    ),
    Step(
        "the bound of what is read at once of a flood of events on the queue's files",
        "inotify-turns",
        Instead("data = os.read(self._inotify.fd, 1 << 20)"),
    ).found_by("test_a_flood_of_names_leaves_turns_to_others"),
    Step(
        "the look whether Emacs kept the whole result, before it is given for that", "truncated-result", Never()
    ).found_by("test_the_beginning_of_a_result_is_not_given_for_the_whole"),
    Step("the sparing of sessions that open requests continue", "continued-sessions", Without(0)).found_by(
        "test_the_session_of_an_open_request_stays_until_that_is_over"
    ),
    Step("the sparing of sessions begun under a command that is under way", "sessions-under-way", Drop()).found_by(
        "test_no_session_is_swept_that_was_touched_since_the_first_command_under_way_came"
    ),
    Step(
        "the sparing of what has begun when only what waits is to be taken back", "cancel-only-waiting", Always()
    ).found_by("test_what_is_to_be_cancelled_only_while_it_waits_goes_on_once_it_runs"),
    Step("the removal of the old name where two links of one file were renamed", "renamed-link", Drop()).found_by(
        "test_an_acknowledged_link_of_the_archived_answer_is_not_reported_again"
    ),
    # A full volume
    Step("the minute for which the archive is kept on a full volume", "archive-minute", Without(1)).found_by(
        "test_what_was_archived_a_moment_ago_stays_even_on_a_full_volume"
    ),
    Step("the sparing of archived files that an open request may need", "archive-of-open", Without(1)).found_by(
        "test_a_request_that_became_open_since_the_walk_keeps_its_files"
    ),
    Step("the mark of an answer that took the place of its request", "bridge-mark", Without("via")).found_by(
        "test_an_answer_that_took_the_place_of_its_request_waits_for_its_acknowledgement"
    ),
    Step(
        "the answer to a cancel in the place of its request",
        "withdraw-in-place",
        Instead("raise OSError(28, 'no room')"),
    ).found_by("test_what_waits_can_be_cancelled_on_a_full_volume_however_many_there_are"),
    Step("the reserve for an order to stop on a full volume", "stop-reserve", Without("reserve")).found_by(
        "test_what_runs_is_ordered_to_stop_on_a_full_volume"
    ),
    # Synced
    Step("every fsync of a file", "fsync-file", Drop()).found_by(
        "test_syncing_reaches_the_file_and_the_directory_themselves"
    ),
    Step("every fsync of a directory", "fsync-directory", Drop()).found_by(
        "test_syncing_reaches_the_file_and_the_directory_themselves"
    ),
    Step("the fsync of the directories a new queue is made of", "fsync-new-queue", Drop()).found_by(
        "test_syncing_reaches_the_file_and_the_directory_themselves"
    ),
    Step(
        "the fsync of a published file before its name appears", "fsync-published", Instead("os.close(fd)")
    ).found_by("test_publishing_syncs_the_data_before_the_name_appears"),
    Step(
        "the fsync of a submitted request's file", "fsync-submitted", Instead("__import__('os').close(fd)")
    ).found_by("test_the_file_then_its_name_is_synced_before_submit_returns"),
    Step("the fsync of requests/ before a submission is confirmed", "fsync-requests", Drop()).found_by(
        "test_the_file_then_its_name_is_synced_before_submit_returns"
    ),
    Step("the fsync of requests/ before a repeated submission is confirmed", "fsync-resubmitted", Drop()).found_by(
        "test_a_repeated_submission_is_confirmed_only_once_its_name_is_on_the_disk"
    ),
    Step("the fsync of responses/ before an answer of Emacs is reported", "fsync-responses", Drop()).found_by(
        "test_an_answer_is_reported_only_after_its_name_is_on_the_disk"
    ),
    Step("the fsync of responses/ before a cancel is confirmed", "fsync-own-answer", Drop()).found_by(
        "test_the_answer_is_on_the_disk_before_the_cancel_is_confirmed"
    ),
    Step("the fsync of control/ before Emacs is interrupted", "fsync-control", Drop()).found_by(
        "test_the_order_to_stop_is_on_the_disk_before_anybody_is_interrupted"
    ),
    Step("the fsync of the new claim journal's name", "fsync-new-journal", Drop()).found_by(
        "test_a_new_journal_has_its_name_on_the_disk_before_emacs_appends"
    ),
    Step(
        "the fsync of the names of two claim journals before they are exchanged", "fsync-journal-names", Drop()
    ).found_by("test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped"),
    Step(
        "the fsync of the compacted claim journal's name before the oldest one is dropped", "fsync-compacted", Drop()
    ).found_by("test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped"),
    Step("the fsync of the ends of requests whose claims go with the journal", "fsync-ends", Drop()).found_by(
        "test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped"
    ),
    Step(
        "the sparing of all sessions while there is a request that is not known yet", "sessions-of-unknown", Drop()
    ).found_by("test_no_session_goes_while_a_request_is_not_known"),
    Step("the bound of the memory for requests that are not acknowledged", "kept-bytes", Never()).found_by(
        "test_a_request_that_would_take_more_memory_than_there_is_is_refused_with_what_to_do"
    ),
    Step("the fsync of the queue's identity", "fsync-identity", Drop()).found_by(
        "test_a_new_identity_is_on_the_disk_before_it_is_reported"
    ),
    # Never replaced, never run again
    Step(
        "the no-replace link of what the bridge publishes",
        "publish-link",
        Instead("self.remove(to_area, to_name); ORIGINAL"),
    ).found_by("test_publishing_never_replaces"),
    Step("the digest check of a repeated submission", "digest-of-resubmitted", Never()).found_by(
        "test_other_content_under_the_same_id_is_a_conflict"
    ),
    Step("the look for an id that runs or is answered already", "taken-id", Never()).found_by(
        "test_a_resubmission_is_recognised_at_every_stage"
    ),
    Step(
        "the mark of what was cancelled before it came", "cancelled-before-it-came", Instead("return False")
    ).found_by("test_what_is_cancelled_before_it_comes_does_not_run_when_it_comes"),
    Step(
        "the lock that keeps an Emacs from being started while its queue is removed", "no-start", Instead("pass")
    ).found_by("test_nobody_starts_an_emacs_while_a_queue_is_removed"),
    Step("the look whether a queue was removed while its lock was waited for", "queue-removed", Never()).found_by(
        "test_whoever_waits_for_the_lock_of_a_queue_that_is_removed_learns_it"
    ),
    Step("the check that nobody else may write to a client's queue", "queue-owner", Drop()).found_by(
        "test_a_client_takes_no_queue_into_which_others_may_write"
    ),
    Step(
        "the check that nobody else may write to the queue that an Emacs serves", "queue-owner-emacs", Drop()
    ).found_by("ert:efrit-trust-an-emacs-serves-no-queue-into-which-others-may-write"),
    Step("the lock that keeps a second bridge from the queue", "queue-lock", Drop()).found_by(
        "test_a_second_bridge_is_kept_out_until_the_first_is_gone"
    ),
    Step(
        "the rename that takes a cancelled request from Emacs before it is answered",
        "withdraw-rename",
        Instead("disk.link(Area.REQUESTS, name, Area.TMP, withdrawn)"),
    ).found_by("test_a_waiting_request_is_answered_cancelled_and_never_runs"),
    Step("the retreat of a submission whose directory could not be synced", "take-back", Drop()).found_by(
        "test_a_failing_step_leaves_nothing_and_the_next_try_succeeds"
    ),
    # Looked at again
    Step("the end of a withdrawal that a crash cut short", "finish-withdrawal", Drop()).found_by(
        "test_a_withdrawal_cut_short_is_finished"
    ),
    Step("the look whether an archived request is being claimed", "archived-elsewhere", Never()).found_by(
        "test_a_request_that_is_being_claimed_is_not_taken_for_one_whose_answer_is_lost"
    ),
    Step(
        "the claims of an exchange of journals that a crash has undone",
        "undone-exchange",
        Instead("self._disk.remove(Area.ROOT, CLAIMS_NEW)"),
    ).found_by("test_claims_in_a_journal_whose_exchange_a_crash_has_undone_are_kept"),
    Step("the journal before, in which Emacs may have written last", "journal-before", Drop()).found_by(
        "test_a_claim_appended_to_the_journal_being_replaced_is_not_lost"
    ),
    Step("the removal of what is not a file from the place of the claim journal", "odd-journal", Drop()).found_by(
        "test_what_is_not_a_file_does_not_keep_the_queue_from_opening"
    ),
    Step("the same from the place of the totals", "odd-totals", Drop()).found_by(
        "test_what_is_put_in_place_of_a_file_of_the_bridge_is_replaced"
    ),
    Step("the same from the place of the queue's identity", "odd-identity", Drop()).found_by(
        "test_what_is_not_a_file_does_not_keep_the_queue_from_opening"
    ),
    Step("the claims of open requests in a compacted journal", "claims-of-open", Value('b""', at=(3,))).found_by(
        "test_a_claim_outlives_any_number_of_compactions_while_its_request_is_open"
    ),
    Step("the bridge's rescan of the queue", "bridge-rescan", Without(1), silent=True).found_by(
        "test_an_answer_whose_sync_fails_is_reported_by_the_next_scan"
    ),
    Step("the check that an answer is to the request whose name it has", "answer-id", Never(), silent=True).found_by(
        "test_an_answer_under_a_wrong_name_does_not_cross_over"
    ),
    Step("the sparing of what has begun, before the rest is given back", "given-back-unbegun", Never()).found_by(
        "test_what_has_begun_or_waits_to_be_run_again_is_not_given_back"
    ),
    Step("the refusal of requests by a queue that ends with its pod", "ends-with-pod", Never()).found_by(
        "test_nothing_more_is_taken_and_what_is_just_being_stored_is_given_back"
    ),
)
