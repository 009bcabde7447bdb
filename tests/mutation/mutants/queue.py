"""The durable queue: what is synced before what, what is never replaced, what is looked at again."""

from tests.mutation.mutant import Mutant

DURABLE = "operator/efrit/queue/durable.py"
SUBMIT = "operator/efrit/queue/submit.py"
CANCEL = "operator/efrit/queue/cancel.py"
JOURNAL = "operator/efrit/queue/journal.py"
RECOVER = "operator/efrit/queue/recover.py"
ANSWERS = "operator/efrit/queue/answers.py"
OBSERVE = "operator/efrit/queue/observe.py"
RETENTION = "operator/efrit/queue/retention.py"
QUEUE = "operator/efrit/queue/queue.py"

UNIT = "tests/unit/queue"

MUTANTS = (
    Mutant(
        "the look whether Emacs kept the whole result, before it is given for that",
        "operator/efrit/client/local/files.py",
        "        if response.truncated:\n            kept",
        "        if False:\n            kept",
        ("tests/unit/client/test_local_files.py::test_the_beginning_of_a_result_is_not_given_for_the_whole",),
    ),
    Mutant(
        "the sparing of sessions that open requests continue",
        "operator/efrit/queue/archive.py",
        "if id_of_session_file(name) not in kept.continued and ",
        "if ",
        ("tests/unit/queue/test_work_log_tailer.py::test_the_session_of_an_open_request_stays_until_that_is_over",),
    ),
    Mutant(
        "the sparing of sessions begun under a command that is under way",
        "operator/efrit/queue/archive.py",
        "    before = min(before, kept.since)\n",
        "",
        (
            "tests/unit/queue/test_work_log_tailer.py::"
            "test_no_session_is_swept_that_was_touched_since_the_first_command_under_way_came",
        ),
    ),
    Mutant(
        "the sparing of what has begun when only what waits is to be taken back",
        QUEUE,
        "        if running:\n            await self.stop(entry, Reason.CANCELLED)",
        "        await self.stop(entry, Reason.CANCELLED)",
        (f"{UNIT}/test_cancel.py::test_what_is_to_be_cancelled_only_while_it_waits_goes_on_once_it_runs",),
    ),
    Mutant(
        "the removal of the old name where two links of one file were renamed",
        DURABLE,
        "            self.remove(area, name)\n\n    def remove(",
        "            pass\n\n    def remove(",
        (f"{UNIT}/test_hard_links.py::test_an_acknowledged_link_of_the_archived_answer_is_not_told_again",),
    ),
    # A full volume
    Mutant(
        "the minute for which the archive is kept on a full volume",
        RETENTION,
        "        return crowded and not young\n",
        "        return crowded\n",
        (f"{UNIT}/test_retention.py::test_what_was_archived_a_moment_ago_stays_even_on_a_full_volume",),
    ),
    Mutant(
        "the sparing of archived files that an open request may need",
        RETENTION,
        "            if item is None or self._belongs_to_open_request(key):\n",
        "            if item is None:\n",
        (f"{UNIT}/test_retention.py::test_a_request_that_became_open_since_the_walk_keeps_its_files",),
    ),
    Mutant(
        "the mark of an answer that took the place of its request",
        CANCEL,
        'json.dumps({**answer, "via": VIA_BRIDGE})',
        "json.dumps(answer)",
        (f"{UNIT}/test_upkeep.py::test_an_answer_that_took_the_place_of_its_request_waits_for_its_acknowledgement",),
    ),
    Mutant(
        "the answer to a cancel in the place of its request",
        QUEUE,
        "        if not withdraw_in_place(self.disk, rid, name, now):\n            return False\n",
        "        raise OSError(28, 'no room')\n",
        (f"{UNIT}/test_upkeep.py::test_what_waits_can_be_cancelled_on_a_full_volume_however_many_there_are",),
    ),
    Mutant(
        "the reserve for an order to stop on a full volume",
        QUEUE,
        "self.upkeep.with_room(order_stop, self.disk, rid, reason, reserve=True)",
        "order_stop(self.disk, rid, reason)",
        (f"{UNIT}/test_upkeep.py::test_what_runs_is_ordered_to_stop_on_a_full_volume",),
    ),
    # Synced
    Mutant(
        "every fsync of a file",
        DURABLE,
        "        try:\n            self._fsync(fd)\n        finally:",
        "        try:\n            pass\n        finally:",
        (f"{UNIT}/test_durable.py::test_syncing_reaches_the_file_and_the_directory_themselves",),
    ),
    Mutant(
        "every fsync of a directory",
        DURABLE,
        "        self._fsync(self._fd(area))",
        "        self._fd(area)",
        (f"{UNIT}/test_durable.py::test_syncing_reaches_the_file_and_the_directory_themselves",),
    ),
    Mutant(
        "the fsync of the directories a new queue is made of",
        DURABLE,
        "                self.sync_dir(Area.ROOT)\n            except",
        "            except",
        (f"{UNIT}/test_durable.py::test_syncing_reaches_the_file_and_the_directory_themselves",),
    ),
    Mutant(
        "the fsync of a published file before its name appears",
        DURABLE,
        "        disk.sync_file(fd)\n        disk.link(Area.TMP, temporary, area, name)",
        "        os.close(fd)\n        disk.link(Area.TMP, temporary, area, name)",
        (f"{UNIT}/test_durable.py::test_publishing_syncs_the_data_before_the_name_appears",),
    ),
    Mutant(
        "the fsync of a submitted request's file",
        SUBMIT,
        "            disk.sync_file(fd)\n",
        "            __import__('os').close(fd)\n",
        (f"{UNIT}/test_submit.py::test_the_file_then_its_name_is_synced_before_submit_returns",),
    ),
    Mutant(
        "the fsync of requests/ before a submission is confirmed",
        SUBMIT,
        "    try:\n        disk.sync_dir(Area.REQUESTS)\n",
        "    try:\n        pass\n",
        (f"{UNIT}/test_submit.py::test_the_file_then_its_name_is_synced_before_submit_returns",),
    ),
    Mutant(
        "the fsync of requests/ before a repeated submission is confirmed",
        QUEUE,
        "            await self._worker.run(self.disk.sync_dir, Area.REQUESTS)\n",
        "            pass\n",
        (f"{UNIT}/test_submit.py::test_a_repeated_submission_is_confirmed_only_once_its_name_is_on_the_disk",),
    ),
    Mutant(
        "the fsync of responses/ before an answer of Emacs is told",
        OBSERVE,
        "        disk.sync_dir(Area.RESPONSES)\n",
        "        pass\n",
        (f"{UNIT}/test_queue.py::test_an_answer_is_told_only_after_its_name_is_on_the_disk",),
    ),
    Mutant(
        "the fsync of responses/ before a cancel is confirmed",
        ANSWERS,
        "    disk.sync_dir(Area.RESPONSES)\n",
        "",
        (f"{UNIT}/test_cancel.py::test_the_answer_is_on_the_disk_before_the_cancel_is_confirmed",),
    ),
    Mutant(
        "the fsync of control/ before Emacs is interrupted",
        CANCEL,
        "    disk.sync_dir(Area.CONTROL)\n",
        "",
        (f"{UNIT}/test_cancel.py::test_the_order_to_stop_is_on_the_disk_before_anybody_is_interrupted",),
    ),
    Mutant(
        "the fsync of the new claim journal's name",
        JOURNAL,
        '            publish(self._disk, Area.ROOT, CLAIMS, b"")\n            self._disk.sync_dir(Area.ROOT)\n',
        '            publish(self._disk, Area.ROOT, CLAIMS, b"")\n',
        (f"{UNIT}/test_journal.py::test_a_new_journal_has_its_name_on_the_disk_before_emacs_appends",),
    ),
    Mutant(
        "the fsync of the names of two claim journals before they are exchanged",
        JOURNAL,
        "CLAIMS_OLD)\n            self._disk.sync_dir(Area.ROOT)\n",
        "CLAIMS_OLD)\n",
        (f"{UNIT}/test_journal.py::test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped",),
    ),
    Mutant(
        "the fsync of the compacted claim journal's name before the oldest one is dropped",
        JOURNAL,
        "        self._disk.sync_dir(Area.ROOT)\n        if self._disk.stat(Area.ROOT, CLAIMS) is not None:\n",
        "        if self._disk.stat(Area.ROOT, CLAIMS) is not None:\n",
        (f"{UNIT}/test_journal.py::test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped",),
    ),
    Mutant(
        "the fsync of the ends of requests whose claims go with the journal",
        JOURNAL,
        "            self._disk.sync_dir(area)\n",
        "            pass\n",
        (f"{UNIT}/test_journal.py::test_a_compacted_journal_is_on_the_disk_before_anything_it_replaces_is_dropped",),
    ),
    Mutant(
        "the sparing of all sessions while there is a request that is not known yet",
        "operator/efrit/queue/archive.py",
        "((rid := id_of_request_file(name)) is None or not is_known(rid)):\n                return 0\n",
        "((rid := id_of_request_file(name)) is None or not is_known(rid)):\n                pass\n",
        (f"{UNIT}/test_upkeep.py::test_no_session_goes_while_a_request_is_not_known",),
    ),
    Mutant(
        "the bound of the memory for requests that are not acknowledged",
        QUEUE,
        "        if kept > self.limits.max_kept_bytes:\n",
        "        if False:\n",
        (
            f"{UNIT}/test_memory.py::test_a_request_that_would_take_more_memory_than_there_is_is_refused_with_what_to_do",
        ),
    ),
    Mutant(
        "the fsync of the queue's identity",
        RECOVER,
        '{queue_id}\\n".encode())\n    disk.sync_dir(Area.ROOT)\n',
        '{queue_id}\\n".encode())\n',
        (f"{UNIT}/test_recover.py::test_a_new_identity_is_on_the_disk_before_it_is_told",),
    ),
    # Never replaced, never run again
    Mutant(
        "the no-replace link of what the bridge publishes",
        DURABLE,
        "        os.link(\n            name,\n            to_name,",
        "        self.remove(to_area, to_name)\n        os.link(\n            name,\n            to_name,",
        (f"{UNIT}/test_durable.py::test_publishing_never_replaces",),
    ),
    Mutant(
        "the digest check of a repeated submission",
        QUEUE,
        "        if stored_digest is not None and stored_digest != digest:",
        "        if False:",
        (f"{UNIT}/test_submit.py::test_other_content_under_the_same_id_is_a_conflict",),
    ),
    Mutant(
        "the look for an id that runs or is answered already",
        SUBMIT,
        "        if has_file(disk, item.id):",
        "        if False:",
        (f"{UNIT}/test_submit.py::test_a_resubmission_is_recognised_at_every_stage",),
    ),
    Mutant(
        "the mark of what was cancelled before it came",
        "operator/efrit/queue/cancel.py",
        "        disk.link(Area.TMP, temporary, Area.TMP, withdrawn_file(item.id))\n",
        "        return False\n",
        ("tests/unit/queue/test_cancel.py::test_what_is_cancelled_before_it_comes_does_not_run_when_it_comes",),
    ),
    Mutant(
        "the lock that keeps a second bridge from the queue",
        DURABLE,
        "            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "            pass",
        (f"{UNIT}/test_durable.py::test_a_second_bridge_is_kept_out_until_the_first_is_gone",),
    ),
    Mutant(
        "the rename that takes a cancelled request from Emacs before it is answered",
        CANCEL,
        "    if not disk.rename(Area.REQUESTS, name, Area.TMP, withdrawn) and "
        "disk.stat(Area.TMP, withdrawn) is None:\n        return False\n",
        "    disk.link(Area.REQUESTS, name, Area.TMP, withdrawn_file(rid))\n",
        (f"{UNIT}/test_cancel.py::test_a_waiting_request_is_answered_cancelled_and_never_runs",),
    ),
    Mutant(
        "the retreat of a submission whose directory could not be synced",
        SUBMIT,
        "                take_back(disk, item.id)\n",
        "                pass\n",
        (f"{UNIT}/test_submit.py::test_a_failing_step_leaves_nothing_and_the_next_try_succeeds",),
    ),
    # Looked at again
    Mutant(
        "the end of a withdrawal that a crash cut short",
        RECOVER,
        "            finish_withdrawal(disk, rid, now)\n            count += 1",
        "            count += 1",
        (f"{UNIT}/test_recover.py::test_a_withdrawal_cut_short_is_finished",),
    ),
    Mutant(
        "the claims of an exchange of journals that a crash has undone",
        JOURNAL,
        "        if self._disk.stat(Area.ROOT, CLAIMS_NEW) is not None:\n            self._exchange()\n",
        "        self._disk.remove(Area.ROOT, CLAIMS_NEW)\n",
        (f"{UNIT}/test_journal.py::test_claims_in_a_journal_whose_exchange_a_crash_has_undone_are_kept",),
    ),
    Mutant(
        "the journal before, in which Emacs may have written last",
        JOURNAL,
        "            self._disk.link(Area.ROOT, CLAIMS, Area.ROOT, CLAIMS_OLD)\n",
        "",
        (f"{UNIT}/test_journal.py::test_a_claim_appended_to_the_journal_being_replaced_is_not_lost",),
    ),
    Mutant(
        "the claims of open requests in a compacted journal",
        JOURNAL,
        "self._lines_of(needed))",
        'b"")',
        (f"{UNIT}/test_journal.py::test_a_claim_outlives_any_number_of_compactions_while_its_request_is_open",),
    ),
    Mutant(
        "the bridge's rescan of the queue",
        QUEUE,
        "                if touched.everything or time.monotonic() >= next_scan:",
        "                if touched.everything:",
        (f"{UNIT}/test_queue.py::test_an_answer_whose_sync_fails_is_told_by_the_next_look",),
    ),
    Mutant(
        "the check that an answer is to the request whose name it has",
        ANSWERS,
        "        if response.id != rid:",
        "        if False:",
        (f"{UNIT}/test_queue.py::test_an_answer_under_a_wrong_name_does_not_cross_over",),
    ),
)
