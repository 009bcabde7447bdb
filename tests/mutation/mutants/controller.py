"""The controller: acknowledged after it was confirmed, written on condition, recorded before it is handed over."""

from tests.mutation.mutant import Mutant, Step
from tests.mutation.operation import Always, Drop, Instead, Never, Value, Without

UNIT = "tests/unit/controller"


MUTANTS = (
    Step(
        "the status that requests wait for, however many were written before", "awaited-status", Value("False")
    ).found_by("test_what_requests_wait_for_is_written_however_many_statuses_were"),
    *(
        Mutant(what, gate, operation, (f"{UNIT}/{tests}",))
        for what, gate, operation, tests in (
            ("the bound of requests that are kept as models", "few-models", Never(), "store/test_contents.py"),
            (
                "the look at a cancelled request as soon as it runs",
                "pause-of-open",
                Never(),
                "store/test_bridge_events_stream.py",
            ),
            ("the look at work whose request is gone", "orphans-left", Never(), "store/test_store_forgotten.py"),
            ("the comparison of what children are built of", "built-before", Always(), "manifests/test_manifests.py"),
            ("the bound of children that are kept", "built-size", Always(), "manifests/test_manifests.py"),
        )
    ),
    Step("the turn of each namespace in the work queue", "namespace-turn", Instead("pass")).found_by(
        "tests/unit/controller/test_lanes.py"
    ),
    Step(
        "the permit of other namespaces while the reading of a plan hangs", "semaphore-slow", Instead("pass")
    ).found_by("test_a_namespace_whose_calls_hang_blocks_itself_alone"),
    Step("the one plan of a namespace that is read at a time", "semaphore-namespace", Value("True")).found_by(
        "test_a_namespace_whose_calls_hang_blocks_itself_alone"
    ),
    Step("the pause of a plan that cannot be read again", "plan-readable", Never()).found_by(
        "test_a_plan_that_cannot_be_had_again_is_asked_for_once_and_its_requests_are_not_listed"
    ),
    *(
        Mutant(what, gate, Never(), (f"{UNIT}/store/test_packed_spec.py",))
        for what, gate in (
            ("the bound of what is kept of an instance's spec", "template-size"),
            ("the bound of what is kept of an instance's labels", "label-count"),
            ("the wait of an instance whose spec is too large to be kept", "template-too-large"),
        )
    ),
    Step("the escapes of what a bridge says in a condition", "condition-text", Value("message")).found_by(
        "test_what_a_bridge_says_moves_no_cursor_in_conditions_events_and_figures"
    ),
    Step("the turn of others while many objects are taken in", "turns", Never()).found_by(
        "tests/unit/kube/test_loop_yield.py"
    ),
    Step("the limit of calls to one bridge at a time", "few-calls", Never()).found_by(
        "tests/unit/controller/act/test_bulkhead.py"
    ),
    Step("the passing on of a place for a call that nobody has used", "unused-invitation", Instead("pass")).found_by(
        "test_a_place_that_nobody_uses_goes_to_the_next"
    ),
    Step("the proof that a call is, of what needs as much of the bridge", "as-deep", Value("list(Depth)")).found_by(
        "test_where_writes_hang_and_reads_do_not_the_condition_changes_once_until_a_write_succeeds"
    ),
    Step("the pause of an event stream that floods", "stream-rate", Instead("await asyncio.sleep(0)")).found_by(
        "test_a_stream_that_floods_is_not_read_beyond_its_rate_and_calls_go_on"
    ),
    Step("the dropping of what need not be written under load", "dropped-under-load", Never()).found_by(
        "tests/unit/controller/test_reconcile_burst_writes.py"
    ),
    Step(
        "the end of the renewals of a controller that stands still",
        "main-loop-responsive",
        Value("True"),
        silent=True,
    ).found_by("test_a_loop_that_stands_still_loses_its_lease_and_the_process_ends"),
    Step("the limit of keys under way while the loop is late", "pace", Never()).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step("the look for keys that may begin once those under way have grown old", "nudge", Never()).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step(
        "that of thousands of objects which are reconciled for one reason a few are added at a time",
        "portion",
        Value("list(left)"),
    ).found_by("test_of_many_objects_a_few_are_added_at_a_time"),
    Step("the turns of namespaces of which many objects are added", "portion-turn", Instead("pass")).found_by(
        "test_namespaces_and_kinds_take_turns"
    ),
    Step(
        "that no more requests of a session are read than it takes to know where it is",
        "session-found",
        Instead("pass"),
    ).found_by("test_of_the_thousands_that_had_a_session_no_more_are_read_than_it_takes"),
    Step("the turn of others while a sweep puts thousands off", "spread-turn", Instead("pass")).found_by(
        "test_a_sweep_of_thousands_lets_others_have_a_turn"
    ),
    Step("the claims beside that limit", "claims-unpaced", Value("True")).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step("the lane of a namespace's claims", "lane-of-claims", Value("key.namespace")).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step("the bound of what a namespace has set aside", "aside-of-one", Always()).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step("the share of the workers that a namespace may hold", "worker-share", Without(1)).found_by(
        "tests/unit/controller/test_work_queue_fairness.py"
    ),
    Step("the first list of requests and plans before an instance counts as idle", "idle-known", Without(0)).found_by(
        "tests/unit/controller/decide/test_idle.py"
    ),
    Step("the policy that isolates a pod whose instance is gone", "isolate-pod", Never()).found_by(
        "tests/unit/controller/decide/test_instances_pod_isolation.py"
    ),
    Step("the figures of its own pod before an instance counts as idle", "idle-known", Without(1)).found_by(
        "tests/unit/controller/decide/test_idle.py"
    ),
    Step("the suspended plan that keeps its instance from being deleted", "suspended-plan", Without(1)).found_by(
        "test_a_suspended_plan_lets_its_instance_sleep_but_not_go"
    ),
    Step(
        "the last check for work at the API server before an idle instance is deleted", "confirm-idle", Drop()
    ).found_by("tests/unit/controller/test_reconcile_idle_race.py"),
    Step(
        "the pause of the hand-over to an instance that is about to stop",
        "pause-handover",
        Value("False", at=("handover_paused",)),
    ).found_by("tests/unit/controller/test_reconcile_idle_race.py"),
    Step("the version that an idle instance is deleted at", "removal-version", Value("None")).found_by(
        "tests/unit/controller/test_reconcile_idle_race.py"
    ),
    Step("the dropping of progress that was refused", "progress-refused", Value("ApiTooLarge")).found_by(
        "test_progress_that_is_refused_or_lost_is_not_made_up_for"
    ),
    Step("the comparison of a Secret that is there already with the result", "compare-secret", Drop()).found_by(
        "test_a_secret_that_somebody_else_created_in_advance_is_not_taken_for_the_result"
    ),
    Step(
        "that events of an absence before the last pod do not say why there is none, after a start",
        "events-before",
        Value("None"),
    ).found_by("test_a_controller_that_starts_while_there_is_no_pod_leaves_out_events_of_before_the_last_one"),
    Step(
        "that events of before an instance slept do not say why there is no pod once it wakes",
        "events-scaled",
        Instead("pass"),
    ).found_by("test_what_events_said_before_an_instance_slept_is_not_why_there_is_no_pod_when_it_wakes"),
    Step(
        "the time that the first heartbeat of an Emacs may take after the start of its pod",
        "first-heartbeat",
        Instead("return OVER"),
    ).found_by("test_an_emacs_that_has_just_started_and_is_yet_to_report_is_starting_and_costs_no_event"),
    Step(
        "the connection to an instance that is being deleted",
        "deleting-connected",
        Instead("actions: list[Action] = []"),
    ).found_by("test_the_last_answers_of_an_instance_that_is_being_deleted_are_heard"),
    Step("the wait of an answer whose instance has no pod", "acknowledge-away", Never()).found_by(
        "test_what_is_done"
    ),
    Step("the Event of a refusal that follows another one", "refused-anew", Value("False")).found_by(
        "test_another_refusal_than_before_is_reported_by_another_event"
    ),
    Step(
        "the difference between a result that is refused and one that fails to be stored",
        "result-refusals",
        Without(1),
    ).found_by("test_a_failure_that_is_no_refusal_never_gives_a_result_up"),
    Step("the time that goes on while the clock of the node is set", "cluster-time", Value("self._node()")).found_by(
        "test_a_clock_of_the_node_that_is_set_changes_nothing"
    ),
    Step("that a clock which is set back makes no pause longer", "pause-set-back", Value("since + pause")).found_by(
        "test_a_pause_is_never_longer_than_it_was_to_be"
    ),
    Step("the pause between two writes of progress", "progress-pause", Never()).found_by(
        "test_progress_is_written_once_a_second_at_most"
    ),
    Step(
        "the order: an answer is acknowledged after its status is confirmed",
        "acknowledge-after",
        Value(
            "([Acknowledge(snapshot.target.instance.key, request.metadata.uid)] if snapshot.target else [])"
            " + ORIGINAL"
        ),
    ).found_by("test_an_answer_is_not_acknowledged_before_it_is_stored"),
    Step(
        "the order: a large result is stored before the status that names it",
        "result-before-status",
        Instead("ORIGINAL; actions.insert(0, actions.pop())"),
    ).found_by("test_a_large_answer_is_stored_before_the_status_that_names_it"),
    Step("the record of an ephemeral queue before a request is handed to it", "ephemeral-recorded", Never()).found_by(
        "test_an_ephemeral_queue_is_recorded_before_the_request_is_handed_to_it"
    ),
    Step(
        "the room in the ephemeral queue that a request is recorded on with its instance", "bound-next", Value("True")
    ).found_by("test_the_ephemeral_queue_that_gets_a_request_next_is_recorded_with_its_instance"),
    Step("the report that a request is bound which has said why it waits", "bound-briefly", Value("True")).found_by(
        "test_a_request_that_has_waited_or_is_to_wait_says_that_it_is_bound"
    ),
    Step(
        "the next reconciliation of a request whose last decision has only read",
        "decides-anew",
        Value("requests.must_verify(key) is None"),
        silent=True,
    ).found_by("test_what_a_reconciliation_has_read_last_is_decided_with_by_the_next"),
    Step("a new decision after the write that says why a request is not accepted", "decide-anew", Never()).found_by(
        "tests/unit/controller/decide/test_failed_actions.py"
    ),
    Step("the look whether the queue that had a request is gone", "queue-lost", Drop()).found_by(
        "tests/unit/controller/decide/test_requests.py"
    ),
    Step("the stop of work at its bridge before its cancel is written", "stop-at-bridge", Never()).found_by(
        "tests/unit/controller/decide/test_requests.py"
    ),
    Step(
        "the request in its cancel, so that a hand-over still on its way finds it cancelled",
        "whole-in-cancel",
        Value("None"),
    ).found_by("test_a_cancelled_request_is_refused_at_its_bridge_before_it_is_said_to_have_never_run"),
    Step("the content that is read before a request is handed over", "content-before-hand-over", Never()).found_by(
        "test_a_content_that_is_not_at_hand_is_read_before_the_request_is_handed_over_or_declined"
    ),
    Step("the content that is read before a request is declined", "content-before-decline", Never()).found_by(
        "test_a_content_that_is_not_at_hand_is_read_before_the_request_is_handed_over_or_declined"
    ),
    Step("the UID of the object that is read for its content", "content-of-uid", Without(1)).found_by(
        "test_a_request_whose_content_is_gone_when_it_is_read_is_not_handed_over"
    ),
    Step(
        "the proof that nothing runs in a pod before its changed template is applied", "proven-idle", Value("True")
    ).found_by("test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle"),
    Step("the figures of this pod, received by this process", "figures-of-pod", Value("True")).found_by(
        "test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle"
    ),
    Step(
        "the first list of requests before a pod is replaced for an update", "listed-before-update", Drop()
    ).found_by("test_a_change_is_held_unless_figures_of_this_pod_prove_it_idle"),
    Step("the turn that a large body of a bridge waits for", "large-bodies", Drop()).found_by(
        "test_one_body_that_is_large_is_read_at_a_time"
    ),
    Step(
        "the end of a connection to a bridge on which something comes that nobody asked for", "nobody-asked", Drop()
    ).found_by("test_a_connection_at_rest_on_which_something_comes_is_dropped"),
    Step("the way through a proxy of what is patched", "api-proxy", Never()).found_by(
        "test_a_patch_goes_through_a_proxy_where_there_is_one"
    ),
    Step("the bound of what a bridge sends that is not a body", "endless-head", Never()).found_by(
        "test_what_is_no_body_may_not_go_on_for_ever"
    ),
    Step(
        "the answers that are dropped where a bridge gives more than fit into memory", "held-answers", Never()
    ).found_by("tests/unit/controller/store/test_held_answers.py"),
    *(
        Mutant(what, gate, Never(), (f"{UNIT}/store/test_plan_contents.py::{test}",))
        for what, gate, test in (
            (
                "the plans that are dropped where all of them take more than fits into memory",
                "plan-budget",
                "test_two_hundred_plans_of_the_largest_size_stay_within_the_budget",
            ),
            (
                "the refusal of a plan that alone takes more than fits into memory",
                "plan-alone",
                "test_a_plan_that_does_not_fit_alone_says_so_and_is_tried_again_later",
            ),
            (
                "the bound of the requests that are remembered of one plan",
                "plan-requests",
                "test_a_plan_that_does_not_fit_alone_says_so_and_is_tried_again_later",
            ),
        )
    ),
    *(
        Mutant(
            what,
            gate,
            operation,
            (
                f"{UNIT}/store/test_bridge_events_goes_first.py::"
                "test_the_first_answer_after_a_start_takes_as_many_steps_however_much_there_is",
            ),
        )
        for what, gate, operation in (
            ("the turn of an instance whose requests wait for it", "awaited", Value("False")),
            ("the turn of the next request of an instance that has become available", "next-request", Drop()),
        )
    ),
    Step(
        "the requests of a plan, which it reads, as long as the plan", "plan-keeps-requests", Instead("return False")
    ).found_by("test_a_request_without_a_time_to_live_has_the_default_unless_it_is_part_of_a_plan"),
    Step(
        "the end of the wait of a request that names none", "default-queue-timeout", Instead("return timedelta.max")
    ).found_by("test_no_request_waits_for_ever_and_its_end_says_for_how_long_it_may"),
    Step("the hold on new requests once an update has begun", "update-hold", Always()).found_by(
        "test_a_request_is_not_handed_to_an_instance_that_is_about_to_be_updated"
    ),
    Step("the stop of a release that an instance did not survive", "release-stopped", Value("None")).found_by(
        "test_a_release_that_fails_is_not_rolled_out_further"
    ),
    Step("the two instances that try a release before all others", "release-trial", Value("False")).found_by(
        "test_a_release_that_nobody_has_survived_yet_reaches_two_instances"
    ),
    Step(
        "the wait for a claim that is being deleted before an instance starts", "claim-deleted", Without(0)
    ).found_by("test_nothing_starts_on_a_claim_that_is_being_deleted"),
    Step("the claim that is being deleted and is not adopted", "claim-adopted", Value("children.others")).found_by(
        "test_while_a_new_instance_waits_for_a_claim_the_other_children_are_applied_only_once"
    ),
    Step(
        "the difference between a conflict and an object that exists",
        "exists-or-conflict",
        Value("ApiExists(text, message, status=status)"),
    ).found_by("test_a_conflict_that_is_no_other_object_does_not_count_as_a_stored_result"),
    Step("the question whether an instance is really not there", "confirm-missing", Value("[]")).found_by(
        "test_a_request_does_not_end_for_an_instance_that_only_the_watch_does_not_know"
    ),
    Step("the question whether another process has opened an instance", "confirm-handover", Value("[]")).found_by(
        "test_a_cancelled_request_does_not_end_while_another_process_may_have_handed_it_over"
    ),
    Step("what another process may have handed over", "opened-by-other", Value("entry.facts")).found_by(
        "test_an_instance_counts_as_opened_by_another_process_until_it_is_closed"
    ),
    Step("the check of who reads metrics that take a token", "metrics-access", Never()).found_by(
        "test_metrics_are_shown_to_readers_alone"
    ),
    Step("the denial that overrules what allows to read metrics", "metrics-denied", Without(1)).found_by(
        "test_a_user_who_is_denied_is_no_reader_though_something_else_allows_it"
    ),
    Step("the bound of what is kept about tokens", "metrics-kept", Never()).found_by(
        "test_the_newest_answers_are_kept_and_none_about_tokens_of_nobody"
    ),
    Step("the bound of connections to the port of the probes", "probe-connections", Always()).found_by(
        "test_connections_that_send_half_a_request_make_place_for_a_probe_and_are_bounded",
        "test_connections_to_the_port_of_the_probes_make_place_for_a_probe_and_are_bounded",
    ),
    Step("the earlier run of what is refused later", "refused-later", Never()).found_by(
        "test_what_is_refused_after_an_earlier_run_does_not_end_as_if_it_had_never_run"
    ),
    Step("the bound of connections to a port", "connection-limit", Never(), silent=True).found_by(
        "test_connections_that_do_not_finish_their_handshake_are_bounded"
    ),
    Step("the instance a deletion is about", "deleted-uid", Without(1)).found_by(
        "test_news_of_an_earlier_instance_of_the_name_are_ignored"
    ),
    Step(
        "the application of a child that somebody has changed since it was applied last",
        "as-applied",
        Instead("return True"),
    ).found_by("tests/unit/controller/test_child_check_unchanged.py"),
    Step(
        "the application of all children where more than a resync calls for it",
        "resync-alone",
        Instead("if self._store.children.is_as_applied(action.instance, manifest): continue"),
    ).found_by("tests/unit/controller/test_child_check_unchanged.py"),
    Step("the application of a child whose labels name another instance", "mislabelled", Never()).found_by(
        "tests/unit/controller/test_child_check_unchanged.py"
    ),
    Step("the versions of children", "child-version", Never()).found_by("test_late_news_of_a_child_change_nothing"),
    Step("the sweep of children that no event reported", "sweep-children", Value("set()", at=(0,))).found_by(
        "test_a_pod_no_event_reported_is_found"
    ),
    Step("the service of all else where pools have no definition", "definition-missing", Instead("raise")).found_by(
        "test_without_the_definition_of_pools_all_else_is_listed_and_the_log_says_once_what_to_apply"
    ),
    Step("the isolation of a namespace that the API server refuses", "namespace-refused", Always()).found_by(
        "test_a_refused_namespace_keeps_nobody_waiting_and_is_retried_about_once_a_minute"
    ),
    Step("the choice of instances that are served before the others are known", "early-alone", Never()).found_by(
        "test_only_an_instance_that_was_ready_and_up_to_date_is_served_before_the_others_are_known"
    ),
    Step(
        "the turn of each namespace in the choice of the requests that are served first",
        "head-start-turns",
        Value("[]"),
    ).found_by("test_requests_of_one_namespace_keep_none_of_another_from_being_among_the_first"),
    Step("the wait of the lists of all for the first answer", "head-start", Instead("pass")).found_by(
        "test_the_first_answer_waits_for_no_other_instance_and_none_of_their_children"
    ),
    Step("the lists that begin though the first could not be read", "head-start-fails", Value("()")).found_by(
        "test_what_cannot_be_read_at_first_or_not_soon_keeps_no_list_from_being_read"
    ),
    Step("the share of a namespace in the turns of figures", "figures-share", Value("turn")).found_by(
        "test_a_namespace_with_few_instances_does_not_wait_for_one_with_a_thousand_and_both_have_half"
    ),
    Step(
        "the turn of figures whose turn has passed",
        "figures-turn",
        Value("figures_alone and facts.figures_turn is None"),
    ).found_by("test_figures_whose_turn_has_passed_take_one_when_they_are_written"),
    Step("the version of what was kept while standing by", "warm-version", Value("kept")).found_by(
        "test_what_is_unchanged_is_not_read_and_what_has_changed_is"
    ),
    Step("the pod whose answer an explanation is", "explained-pod", Never()).found_by(
        "test_the_explanation_of_an_earlier_pod_is_not_that_of_the_next"
    ),
    Step(
        "the end of a long name that an event has no room for",
        "event-name",
        Value('f"{name}.{uuid.uuid4().hex[:RANDOM_CHARS]}"'),
    ).found_by("test_an_event_of_an_object_with_the_longest_name_has_a_name_that_the_api_server_takes"),
    Step("the UID of what an event is about", "event-uid", Value("False")).found_by(
        "test_what_is_over_explains_nothing"
    ),
    Step("the pod that was created after an event about why there was none", "event-after", Never()).found_by(
        "test_what_is_over_explains_nothing"
    ),
    Step("the budget of what is kept while standing by", "warm-bytes", Always()).found_by(
        "test_what_is_beyond_the_budget_is_not_kept_and_what_is_discarded_makes_room"
    ),
    Step("the standby that outlives a list which is refused", "standby-refused", Value("()")).found_by(
        "test_what_is_refused_is_not_kept_and_tried_again_after_a_while"
    ),
    Step("the end of what is served before its namespace", "early-ends", Instead("pass")).found_by(
        "tests/unit/controller/test_head_start.py"
    ),
    Step("the turn of an update while not all instances are known", "early-update", Instead("pass")).found_by(
        "test_an_update_that_depends_on_the_others_waits_until_they_are_known"
    ),
    Step(
        "the question what became of a request that was read before the list", "early-left", Instead("pass")
    ).found_by("test_a_request_that_was_read_at_first_and_is_gone_when_all_are_listed_is_asked_about"),
    Step("the hold of work in a namespace that is not served", "namespace-served", Always()).found_by(
        "test_a_key_of_a_namespace_that_is_not_served_is_not_reconciled"
    ),
    Step(
        "the request of a namespace that is not served, for as long as its instance is there",
        "left-instance",
        Always(),
    ).found_by("test_of_a_namespace_that_is_not_served_any_more_what_left_it_is_forgotten"),
    Step(
        "the return of an open request that was forgotten while its namespace was not served", "left-open", Always()
    ).found_by("test_of_a_namespace_that_is_not_served_any_more_what_left_it_is_forgotten"),
    Step(
        "the thought that an earlier controller may have handed a request over", "earlier-controller", Value("False")
    ).found_by("tests/unit/controller/decide/test_requests.py"),
    Step("the thought that a lost node may have begun a request", "lost-node", Without(1)).found_by(
        "test_any_other_request_stays"
    ),
    Step(
        "the record that an instance is open, before the first request is handed over", "open-recorded", Never()
    ).found_by("test_nothing_is_handed_over_under_an_id_that_is_not_stored"),
    Step(
        "the marks of all requests that an instance may have, before it is closed",
        "open-requests-marked",
        Value("True"),
    ).found_by("tests/unit/controller/decide/test_handover_model.py"),
    Step("the new id after a write of Closed whose outcome may stay unknown", "new-handover-id", Drop()).found_by(
        "tests/unit/controller/decide/test_handover_model.py"
    ),
    Step(
        "the note that a request is being handed over while its instance is about to be closed",
        "submitting",
        Value("False"),
    ).found_by("tests/unit/controller/decide/test_handover_model.py"),
    Step(
        "the resource version a status is written on condition of", "status-version", Without("resourceVersion")
    ).found_by("tests/unit/controller/act/test_actor.py"),
    Step("the wait for a busy API server whose pause kopf cannot read", "busy-api-server", Always()).found_by(
        "test_a_busy_api_server_that_names_a_date_ends_no_watch"
    ),
    Step("that an object with times which cannot be read is seen", "unreadable-times", Instead("raise")).found_by(
        "test_an_object_of_each_kind_is_seen_and_the_time_counts_as_absent"
    ),
    Step("the reading of a pod whose status says a time that is none", "unreadable-time", Instead("raise")).found_by(
        "tests/unit/controller/store/test_from_kubernetes.py"
    ),
    Step(
        "what is left out of an object that is nested more deeply than the decoder goes", "json-depth", Drop()
    ).found_by("test_one_object_that_is_nested_too_deeply_ends_no_watch"),
    Step("the bound of a line of a watch", "watch-line", Never()).found_by(
        "test_a_watch_ends_with_a_line_that_is_too_long"
    ),
    Step(
        "what is left out of an instance that is nested more deeply than kopf reads",
        "kopf-depth",
        Instead('yield line + b"\\n"'),
    ).found_by("tests/unit/controller/watch/test_kopf_session.py"),
    Step("the UID a deletion is on condition of", "deletion-uid", Without("uid")).found_by(
        "tests/unit/controller/act/test_actor_objects.py"
    ),
    Step("the second look at what a conflict or a refusal was about", "reread", Drop()).found_by(
        "tests/unit/controller/act/test_actor.py"
    ),
    Step(
        "the note that a request may have arrived though its bridge fell silent", "may-have-arrived", Never()
    ).found_by("tests/unit/controller/act/test_actor.py"),
    Step("the controller's rescan of open requests", "rescan-requests", Drop()).found_by(
        "test_an_open_request_no_event_reported_is_found"
    ),
    Step("the end of the work of a controller that lost its lease", "lease-lost", Drop(), silent=True).found_by(
        "test_a_lease_taken_by_another_ends_the_leading"
    ),
    Step("the wait for the end of a leader that lives", "holder-lives", Always()).found_by(
        "test_a_lease_somebody_holds_is_waited_for"
    ),
    Step(
        "the name of the process in the termination message that its kubelet reports",
        "termination-message",
        Value("any(_termination_messages(pod))"),
    ).found_by("test_nothing_else_says_that_a_process_has_ended"),
    Step("the pod whose termination message counts for a process", "end-of-own-pod", Never()).found_by(
        "test_nothing_else_says_that_a_process_has_ended"
    ),
    Step(
        "the difference between the end of one leader and that of the next",
        "ended-identity",
        Value("self._ended is not None"),
    ).found_by("test_the_pod_of_the_next_holder_is_watched_and_no_other"),
    Step(
        "the question whose an object is before it is applied",
        "owned-child",
        Instead("return self._remember_applied(key, await self._kube.apply(manifest))"),
    ).found_by("test_an_object_that_the_instance_does_not_own_is_neither_taken_nor_changed"),
    Step("the UID as a condition of applying a child that is known", "child-uid", Without("uid")).found_by(
        "test_a_child_that_is_known_is_one_call_and_never_another_of_its_name"
    ),
    Step("the look at the lease before anything is done", "leading", Never()).found_by(
        "test_nothing_is_done_once_the_lease_may_be_somebody_elses"
    ),
    Step("the pause after each page of a sweep", "sweep-pause", Drop()).found_by(
        "test_a_sweep_of_fifty_thousand_takes_its_share_of_the_time_and_no_long_page"
    ),
    Step(
        "the repetition of a sweep of what has ended that was cut short",
        "final-again",
        Instead("final_due = sweep % FINAL_EVERY == 0 or self._store.expirations.needs_listing()"),
    ).found_by("test_a_sweep_of_what_has_ended_that_was_cut_short_is_made_up_for_by_the_next"),
    Step("the look at new requests before all others are listed", "new-first", Drop()).found_by(
        "test_new_requests_are_taken_in_before_the_others_are_listed"
    ),
    Step(
        "the look for the request of an answer while the first list is read",
        "early-answer",
        Instead("self._index.queue.add_after(work, ORPHAN_GRACE.total_seconds())"),
    ).found_by("test_the_request_of_an_answer_is_looked_for_at_once_while_the_first_list_is_read"),
    Step("the memory of an instance that was deleted", "instance-tombstone", Drop()).found_by(
        "test_an_instance_that_is_deleted_while_the_lists_are_read_stays_deleted"
    ),
    Step(
        "the question for an instance that a list has left out",
        "instance-missing",
        Instead("self._store.instances.observe_gone(key, uid)"),
    ).found_by("test_an_instance_and_a_pool_that_are_gone_without_an_event_must_be_verified"),
    Step("the controller's search for requests that are gone", "requests-gone", Never()).found_by(
        "test_a_request_that_is_gone_without_an_event_must_be_verified"
    ),
    Step(
        "the look whether the status reports a restart already, before there is an event of it",
        "restart-reported",
        Without(1),
    ).found_by("test_a_restart_is_one_event_however_often_the_bridge_is_lost"),
    Step("the reason SelfCheckFailed of an instance that is not Ready", "self-check-reason", Never()).found_by(
        "test_an_emacs_that_fails_its_self_check_is_not_ready_and_said_to_be_so"
    ),
    Step(
        "the hold on new requests for a pod of another template than its StatefulSet has", "outdated-pod", Never()
    ).found_by("test_a_request_is_not_handed_to_an_instance_that_is_about_to_be_updated"),
    Step(
        "the look for hand-overs since the decision, before a StatefulSet is applied", "replace-begins", Never()
    ).found_by("test_a_request_that_is_recorded_before_the_template_is_applied_is_worked_off_by_the_old_pod"),
    Step("the hold on hand-overs while a StatefulSet is being applied", "submit-while-replaced", Never()).found_by(
        "test_a_hand_over_that_was_decided_before_does_not_begin_while_the_template_is_applied"
    ),
    Step("what the bridge says of Emacs, before its pod is taken for broken", "bridge-sees-emacs", Never()).found_by(
        "test_a_pod_whose_bridge_sees_emacs_is_not_broken_because_the_kubelet_is_late"
    ),
    Step("the end of the pod of what is given back", "given-back-by-stop", Never()).found_by(
        "test_what_is_given_back_by_a_pod_that_is_not_known_to_stop_waits_for_that_news"
    ),
    Step("the status of what is given back, before that is acknowledged", "given-back-recorded", Never()).found_by(
        "test_what_a_queue_gave_back_with_its_pod_is_recorded_and_then_acknowledged"
    ),
    Step(
        "the next queue of what was recorded on a lost one and never sent there", "recorded-alone", Never()
    ).found_by("test_what_was_recorded_on_a_lost_queue_and_never_on_it_is_recorded_on_the_next"),
    Step(
        "the difference between a call that was cut off and one for which there was no connection",
        "call-unsent",
        Value("True"),
    ).found_by("test_a_call_for_which_there_was_no_connection_is_known_not_to_have_arrived"),
    Step("the bound of what waits for batches, over all bridges", "gathered-bytes", Value("line")).found_by(
        "test_what_is_large_travels_alone"
    ),
    Step("the limit of batches that are under way to one bridge", "few-batches", Without(1)).found_by(
        "tests/unit/controller/act/test_handover_batch.py"
    ),
    Step("the one answer that an element of a batch gets", "answered-once", Never()).found_by(
        "tests/unit/controller/act/test_handover_batch.py"
    ),
    Step(
        "the failure of those of a batch that its answer does not name: they are reported again",
        "batch-reported-again",
        Instead("pass"),
        silent=True,
    ).found_by("test_an_answer_that_fails_half_way_is_reported_to_those_it_says_nothing_of_and_they_can_come_again"),
    Step(
        "the way on of what waits for a batch to a bridge that does not answer", "batches-of-silent", Never()
    ).found_by("test_what_waits_is_let_go_once_the_bridge_counts_as_not_answering"),
    Step("the bound of the wait for a batch", "overdue", Never()).found_by(
        "test_what_has_waited_for_too_long_is_let_go_when_a_call_ends"
    ),
    Step("the difference between a batch that is refused and its requests", "batch-refused", Never()).found_by(
        "test_where_another_bridge_has_come_that_takes_no_such_batch_each_travels_alone"
    ),
    Step("the look at the lease before a batch that has waited is sent", "batch-leading", Never()).found_by(
        "test_nothing_is_sent_once_the_lease_may_be_somebody_elses"
    ),
    Step("the end of a connection to a bridge, after which nothing counts", "connection-ended", Without(0)).found_by(
        "test_what_fails_as_its_connection_is_closed_is_no_problem_of_the_next_one"
    ),
    Step("the time that goes on where an answer does not say it", "answer-without-time", Without(0)).found_by(
        "test_one_answer_that_does_not_say_the_time_makes_that_of_the_node_count_no_more"
    ),
    Step("the list of a kind of children that is allowed again", "listed-again", Drop()).found_by(
        "test_what_was_changed_while_a_kind_was_refused_is_applied_again"
    ),
    Step("the look at the leader's pod after it was refused", "refused-watch", Instead("return")).found_by(
        "test_after_one_refusal_the_end_of_the_leader_is_seen_all_the_same"
    ),
    Step("the child that one list has left out", "child-again", Instead("pass")).found_by(
        "test_children_that_one_list_has_left_out_are_taken_in_as_they_are_by_the_next"
    ),
    Step("the turn of a request whose status is accepted again", "status-accepted", Instead("pass")).found_by(
        "test_work_is_interrupted_again_for_a_request_whose_status_is_accepted_by_now"
    ),
    Step(
        "the difference between an object that is gone and a 404 of somebody else", "own-not-found", Value("()")
    ).found_by("test_a_404_that_is_not_the_api_servers_own_says_nothing_about_a_request"),
    Step("the question for a kind whose object is answered with 404 by somebody", "kind-missing", Always()).found_by(
        "test_an_object_of_a_kind_that_the_api_server_does_not_list_is_not_there"
    ),
    Step("the only work on a key, while its call goes on without a worker", "one-work-per-key", Always()).found_by(
        "tests/unit/controller/test_work_queue.py"
    ),
)
