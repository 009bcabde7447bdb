"""Pools and exclusive claims: nobody with work is deleted, no flow has more than its share, no member two claims."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Always, Drop, Instead, Never, Value, Without

MUTANTS = (
    Step(
        "the time that a member drains while the clock is set",
        "drain-elapsed",
        Value("self._index.clock().timestamp()"),
    ).found_by("test_the_time_that_a_member_drains_goes_on_while_the_clock_is_set"),
    Step(
        "that many requests which wait for a member of a pool say so one after the other",
        "report-stagger",
        Value("timedelta(0)"),
    ).found_by("test_many_that_wait_for_one_instance_or_pool_say_so_late"),
    Step(
        "that only work which may run twice is interrupted for other work",
        "preempt-may-run-twice",
        Value("spec.session is not None"),
    ).found_by("test_only_work_that_may_run_twice_is_interrupted_and_a_few_times_at_most"),
    Step("the lower priority of work that is interrupted for other work", "preempt-priority", Never()).found_by(
        "test_the_one_of_lowest_priority_that_was_started_last_is_interrupted_first"
    ),
    Step(
        "that what went first for its age is not interrupted for what waited beside it",
        "preempt-placed-before",
        Without(0),
    ).found_by("test_what_got_its_member_while_the_other_waited_already_is_not_interrupted"),
    Step(
        "the share that a flow keeps, whatever priority the requests of another have", "preempt-share", Value("True")
    ).found_by("test_priority_takes_from_another_flow_only_what_that_has_beyond_its_share"),
    Step(
        "the answer of work that ended before it was interrupted for other work",
        "preempt-own-end",
        Value("request.spec.cancel"),
    ).found_by("test_work_that_ended_before_it_was_stopped_has_its_answer_stored_and_does_not_run_again"),
    Step(
        "the attempts of a lost queue, for work that is interrupted for other work on the next one",
        "preempted-attempts",
        Value("request.attempts_before"),
    ).found_by("test_a_run_that_is_interrupted_for_other_work_is_no_attempt"),
    Step(
        "that the last attempt is not kept from an ephemeral queue and had by it all the same",
        "last-attempt",
        Value("True"),
    ).found_by("test_a_lost_queue_and_the_next_one_may_begin_work_no_more_often_than_allowed_together"),
    Step(
        "the mark in the status before work is interrupted for other work", "preempt-recorded", Value("[]")
    ).found_by("test_it_is_recorded_that_a_request_is_interrupted_before_the_other_one_gets_its_member"),
    Step("the id of its own that each run of a request has on a queue", "run-id", Value("uid")).found_by(
        "test_its_next_run_has_another_id_on_the_queue_which_clients_know_too",
        "test_what_a_queue_says_of_a_run_that_is_over_is_settled_and_no_answer_of_the_next_run",
    ),
    Step("the end of a run that was interrupted, on the queue that had it", "run-settled", Drop()).found_by(
        "test_what_a_queue_says_of_a_run_that_is_over_is_settled_and_no_answer_of_the_next_run"
    ),
    Step(
        "the look whether work of no request that is known is of the present run",
        "run-of-orphan",
        Value("obj is None"),
    ).found_by("test_what_a_queue_has_of_a_run_that_was_interrupted_is_stopped_and_acknowledged"),
    Step(
        "that a request which was interrupted for another does not time out while it waits to run again",
        "preempted-has-begun",
        Never(),
    ).found_by("test_its_wait_for_a_start_is_over_though_it_waits_to_run_again"),
    Step(
        "the credit of flows that wait, where a request goes to its session or takes a place out of turn",
        "out-of-turn",
        Instead("self._now = begins"),
    ).found_by(
        "test_what_is_taken_out_of_turn_is_paid_for_and_costs_nobody_else_their_credit",
        "test_equal_flows_share_the_members_equally_all_the_time",
    ),
    Step(
        "room that a request which continues a session was looked at for, and did not take", "room-not-taken", Drop()
    ).found_by("test_room_that_a_session_does_not_take_is_for_the_next"),
    Step(
        "the bound of what members have of a flow, for requests that continue a session",
        "session-flow-limit",
        Never(),
    ).found_by("test_a_request_that_continues_a_session_waits_while_its_flow_has_all_that_it_may_have"),
    Step("that flows which owed make room for others once they have paid", "forget-paid", Drop()).found_by(
        "test_flows_that_owe_leave_room_for_others_once_they_have_paid"
    ),
    Step("the count of what members have by the label that a pool says", "refile-held", Drop()).found_by(
        "test_what_members_have_counts_for_its_flow_though_it_was_seen_before_its_pool"
    ),
    Step(
        "the wait of a request for a member until it is known what each member has", "room-listed", Without(1)
    ).found_by("test_no_request_gets_a_member_before_it_is_known_what_each_member_has"),
    Step(
        "the wait of a request that continues a session until it is known what members have of its flow",
        "flow-listed",
        Without(1),
    ).found_by("test_no_request_gets_a_member_before_it_is_known_what_each_member_has"),
    Step(
        "the look at what waits for a member, or may have to move, once it is known what each member has",
        "listed-requeue",
        Drop(),
    ).found_by("test_no_request_gets_a_member_before_it_is_known_what_each_member_has"),
    Step(
        "the wait of a pool, before members drain, until all open requests are known", "pool-listed", Never()
    ).found_by("test_nobody_drains_before_all_open_requests_are_known"),
    Step(
        "the seconds that a request waits before its pool is Backlogged",
        "backlogged-after",
        Value("oldest is not None"),
    ).found_by("test_a_request_that_has_just_come_makes_no_backlog_and_is_reconciled_again"),
    Step("the second between two writes of a pool's status", "pool-status-pause", Never()).found_by(
        "test_a_condition_that_changes_is_written_at_once_and_once_a_second"
    ),
    Step("the pause of a pool that starts members while claims take others", "refill-pause", Value("None")).found_by(
        "test_while_claims_take_members_few_are_started_at_a_time"
    ),
    Step(
        "that claims which come fast take the members that are there before others are started",
        "fast-claims",
        Value("ample"),
    ).found_by("test_while_claims_take_members_few_are_started_at_a_time"),
    Step(
        "the moment's silence of a claim that waits, in which a member may come back", "says-waiting", Never()
    ).found_by("test_a_claim_says_that_it_waits_after_a_while_and_of_many_one_at_a_time"),
    Step(
        "that a claim that waits says so though the controller's clock was set back", "silence-set-back", Never()
    ).found_by("test_a_claim_says_that_it_waits_after_a_while_and_of_many_one_at_a_time"),
    Step(
        "the turn of a claim that gives its member back before those that wait for one",
        "gives-back-first",
        Instead("self._index.queue.add(WorkKey(EfritClaim.kind, *new.key))"),
    ).found_by("test_a_claim_that_gives_its_member_back_takes_turns_with_all_that_came_before_it"),
    Step("that members which come back from claims are not replaced", "coming-back", Value("missing")).found_by(
        "test_members_that_come_back_from_claims_are_not_replaced"
    ),
    Step(
        "that a member which a claim has just taken is not replaced at once", "slow-claims", Value("REFILLED_AT_ONCE")
    ).found_by("test_while_claims_take_members_few_are_started_at_a_time"),
    Step("that nothing is handed to an instance which is just being deleted", "removal-begins", Drop()).found_by(
        "test_nothing_is_handed_to_it_whatever_is_decided_about_the_member_itself"
    ),
    Step(
        "that a hand-over which was decided on before does not begin while the instance is deleted",
        "submit-while-removed",
        Never(),
    ).found_by("test_a_hand_over_that_was_decided_on_before_does_not_begin"),
    Step("that a member which is just being deleted has no room", "removal-room", Value("True")).found_by(
        "test_a_member_that_is_being_deleted_has_no_room"
    ),
    Step(
        "that a member which has got work since the decision is not deleted as one without",
        "removal-of-idle",
        Value("entry is None"),
    ).found_by("test_a_member_that_has_got_work_since_the_decision_is_not_asked_for_at_the_api_server"),
    Step(
        "the last check for work at the API server before a member of a pool is deleted",
        "member-only-idle",
        Value("False"),
    ).found_by("test_a_member_without_work_is_deleted_once_nothing_more_is_handed_to_it_and_nobody_knows_of_work"),
    Step(
        "the time that a member of a pool has for its work before it is deleted", "member-drain-deadline", Never()
    ).found_by("test_without_a_limit_a_member_with_work_drains_for_as_long_as_it_takes"),
    Step("the members of a former template that stay until new ones serve", "pool-floor", Value("0")).found_by(
        "test_a_new_member_that_is_not_ready_in_time_stops_the_roll_out_and_says_why"
    ),
    Step(
        "the thought that a member which leaves its pool may have got a request", "leaving-member", Never()
    ).found_by("test_any_other_request_of_a_leaving_member_stays"),
    Step(
        "the care that a check of a request which waits for a pool changes nothing by itself",
        "nothing-assumed",
        Without(1),
    ).found_by("test_a_request_that_a_member_cannot_take_has_its_pool_reconciled_no_more_often_for_being_reconciled"),
    Step("the turn of the loop after keys that wait for nothing", "queue-yields", Never()).found_by(
        "test_keys_that_have_one_another_worked_on_for_ever_leave_the_loop_its_turns"
    ),
    Step(
        "the look whether Emacs claims requests before one is bound to its instance",
        "emacs-takes-work",
        Value("is_free"),
    ).found_by("test_an_instance_whose_emacs_claims_nothing_is_never_chosen"),
    Step(
        "the look at what waits once the Emacs of a member claims requests", "emacs-begins-work", Value("changed")
    ).found_by("test_a_member_has_room_once_its_emacs_claims_requests_and_those_that_wait_are_reconciled_then"),
    Step(
        "the wait for the member that has the session which a request continues",
        "session-instance",
        Instead("return False"),
    ).found_by("test_a_session_is_left_once_its_member_has_been_away_for_as_long_as_the_pool_waits"),
    Step(
        "the session that a request which was given to another member does not continue", "session-left", Never()
    ).found_by("test_a_session_that_was_left_is_not_continued"),
    Step(
        "the size that a pool had before a restart, while it is to wait before it shrinks",
        "recommended-before",
        Drop(),
    ).found_by("test_a_pool_keeps_the_size_that_an_earlier_process_chose_as_long_as_it_is_to_wait"),
    Step("that a flow pays for a request once", "flow-paid", Never()).found_by("test_a_request_is_paid_for_once"),
    Step("that a flow without requests saves nothing up", "flow-saves-nothing", Value("line.next_start")).found_by(
        "test_a_flow_that_had_nothing_to_do_saves_nothing_up"
    ),
    Step(
        "the place that a request leaves to the next of its flow as soon as it was deleted",
        "left-no-place",
        Value("self.waiting_of(flow)"),
    ).found_by("test_a_request_that_was_deleted_keeps_no_place_from_the_next_one_before_that_is_confirmed"),
    Step(
        "what a flow that has one request at a time owes to those that wait", "flow-owes", Value("_is_empty(line)")
    ).found_by("test_a_flow_with_one_request_at_a_time_has_its_share_and_no_more"),
    Step("a flow of which something waits anew, in the order that is kept", "flow-order", Value("False")).found_by(
        "test_the_order_is_the_same_however_often_one_asks_for_it"
    ),
    Step("the requests that run, of what a pool is scaled by", "scale-running", Value("snapshot.pending")).found_by(
        "test_as_many_members_as_open_requests_need"
    ),
    Step(
        "the spares of a pool on top of what its requests need", "scale-spares", Value("max(busy, spares)")
    ).found_by("test_as_many_members_as_open_requests_need"),
    Step(
        "the time for which a pool must have needed less before it shrinks", "scale-window", Value("needed")
    ).found_by("test_work_that_comes_and_goes_for_an_hour_changes_the_size_once"),
    Step(
        "the maximum of a pool that needed more members before it was lowered", "scale-lowered-maximum", Never()
    ).found_by("test_a_pool_has_no_more_members_than_its_maximum_however_many_it_needed_before"),
    Step("the bounds of a time that somebody has written into a status", "usable-time", Value("moment")).found_by(
        "test_a_time_of_a_status_can_be_written_and_added_to_whoever_wrote_it"
    ),
    Step(
        "the place of a condition of ours among those of somebody else", "foreign-conditions", Value("conditions")
    ).found_by("tests/unit/api/test_conditions.py"),
    Step(
        "the difference between a spec of a pool and its status, for what was refused", "pool-spec-changed", Always()
    ).found_by("test_a_status_of_a_pool_ends_no_pause_after_a_refusal_and_another_spec_does"),
    Step("the one claim that a member is being taken for", "take-one", Never()).found_by(
        "test_a_member_that_is_being_taken_is_no_other_claims_and_the_pools_no_more"
    ),
    Step(
        "the next decision about a claim that could not have the member which it was to take", "take-again", Drop()
    ).found_by("test_a_claim_is_decided_about_again_where_the_watch_knew_its_member_before_the_write_was_refused"),
    Step(
        "the next decision about a claim that is bound and is to end",
        "bound-is-held",
        Value("claim.status.phase == ClaimPhase.BOUND"),
    ).found_by("test_a_claim_that_this_process_has_bound_is_not_decided_about_again_unless_it_is_to_end"),
    Step("the version of a member that a claim takes", "take-version", Without("resourceVersion")).found_by(
        "test_two_controllers_do_not_give_one_member_to_two_claims"
    ),
    Step("the wait of a claim until all open requests are known", "claim-listed", Never()).found_by(
        "test_nothing_is_taken_before_all_work_is_known"
    ),
    Step(
        "the plans that keep a member from exclusive claims before they are counted and looked at",
        "claimed-without-plans",
        Never(),
    ).found_by("test_members_with_plans_are_in_no_claims_way_and_no_claim_overtakes_others_because_of_them"),
    Step(
        "the full disk that keeps a member from being looked at for an exclusive claim",
        "claimed-serves",
        Value("not asleep and not entry.takes_work"),
    ).found_by("test_members_that_cannot_be_taken_hide_none_that_can"),
    Step("the members that are kept from requests for claims that wait", "held-for-claims", Value("set()")).found_by(
        "test_as_many_members_are_kept_from_requests_as_claims_wait"
    ),
    Step("the second between two orders of a line whose label changes", "refile-pause", Always()).found_by(
        "test_a_label_that_changes_all_the_time_has_the_line_made_anew_once_a_second_and_the_last_one_counts"
    ),
    Step(
        "that thousands of requests are put in line anew a few at a time",
        "refile-portion",
        Value("len(self._of_former)"),
    ).found_by("test_thousands_are_put_in_line_anew_a_few_at_a_time_for_another_label"),
    Step("the bound of the flows of a pool", "most-flows", Value("flow")).found_by(
        "test_beyond_a_number_of_flows_all_share_one"
    ),
    Step("the bound of the requests of a flow that wait for a pool", "turned-away", Never()).found_by(
        "test_a_request_that_is_one_too_many_of_its_flow_ends_rejected"
    ),
    Step("that a request which an earlier process let wait is not turned away", "was-admitted", Never()).found_by(
        "test_the_next_process_turns_nothing_away_that_was_let_wait"
    ),
    Step("that none is let wait before all requests are known", "admit-listed", Without(1)).found_by(
        "test_of_requests_that_are_seen_after_their_pool_at_a_start_the_oldest_wait"
    ),
    Step(
        "that a request which cannot be bound leaves its place on the member to others",
        "bind-failed",
        Instead("pass"),
    ).found_by("test_a_request_that_cannot_be_bound_leaves_its_place_to_others"),
    Step(
        "that a member which is to be updated first is no candidate that hides others", "room-held", Value("False")
    ).found_by("test_a_member_that_waits_for_its_update_has_no_room"),
    Step(
        "that requests which wait for a pool get a member whose pod was not replaced after all",
        "replaced-requeue",
        Instead("pass"),
    ).found_by("test_a_member_has_no_room_while_its_pod_is_replaced_and_those_that_wait_are_reconciled_then"),
    Step("the time that the status of an exclusive claim may be forbidden", "claim-forbidden", Never()).found_by(
        "test_a_right_that_is_missing_for_some_minutes_ends_no_claim"
    ),
    Step(
        "the end of an exclusive claim whose status is always refused", "claim-status-refused", Value("False")
    ).found_by("test_a_claim_whose_status_is_always_refused_does_not_keep_its_member_and_stands_in_nobodys_way"),
    Step(
        "that an exclusive claim whose status is always refused keeps no place in the line",
        "refused-in-line",
        Value("False"),
    ).found_by("test_a_claim_whose_status_is_always_refused_does_not_keep_its_member_and_stands_in_nobodys_way"),
    Step(
        "that a request which cannot be bound as the API server is unavailable is noted, to wait for its pause",
        "bind-pause",
        Instead("pass"),
    ).found_by("test_while_the_api_server_is_unavailable_no_binding_is_tried_before_its_pause_is_over"),
    Step("the pause of a request that could not be bound, when its place is free", "bind-backoff", Always()).found_by(
        "test_while_the_api_server_is_unavailable_no_binding_is_tried_before_its_pause_is_over"
    ),
    Step(
        "the time that a member has a request before an eviction is to leave it alone", "budget-busy", Value("False")
    ).found_by("test_members_with_a_request_for_some_time_and_claimed_ones_are_guarded"),
    Step(
        "the exclusive claims whose members an eviction is to leave alone", "budget-claimed", Value("busy")
    ).found_by("test_members_with_a_request_for_some_time_and_claimed_ones_are_guarded"),
    Step(
        "that a template which a member or a claim has is not removed", "revision-used", Value("{snapshot.revision}")
    ).found_by("test_a_template_in_use_is_never_removed"),
    Step("that a template which is the last one already is not written again", "revision-kept", Never()).found_by(
        "test_nothing_is_written_while_the_last_template_is_the_current_one"
    ),
    Step(
        "that a template which was applied again since its undo can be undone", "undo-applied-since", Value("True")
    ).found_by("test_a_template_that_was_applied_again_by_hand_since_its_undo_is_undone_as_any_other"),
    Step("that an undo which is repeated does not undo itself", "undo-repeated", Never()).found_by(
        "test_an_undo_that_is_repeated_changes_nothing_and_says_what_the_pool_has"
    ),
    Step(
        "the pause after the API server has refused to keep a template", "history-refused", Instead("pass")
    ).found_by("test_after_a_refusal_nothing_is_tried_for_a_while_and_an_event_says_why"),
    Step("the owner of what is taken for a template of a pool", "revision-owner", Never()).found_by(
        "test_what_somebody_else_has_made_is_none_of_the_pools_templates"
    ),
    Step(
        "that a template whose object is being deleted is not taken for one that is kept",
        "revision-deleting",
        Never(),
    ).found_by("test_what_somebody_else_has_made_is_none_of_the_pools_templates"),
    Step(
        "that the number of a template is one that the operator itself reads",
        "largest-revision",
        Value("max(others, default=0)"),
    ).found_by("test_what_the_operator_writes_next_to_any_other_is_taken_for_the_pools"),
    Step("that what is likely to pass is no Event of a pool", "history-reported", Without(1)).found_by(
        "test_what_is_likely_to_pass_is_not_reported"
    ),
    Step(
        "that the templates of a former pool of the name are waited for, and not for long", "former-pool", Never()
    ).found_by("test_what_a_former_pool_of_the_name_had_is_soon_gone_and_not_reported_before"),
    Step("that the templates of a pool are read again at the resync", "history-resync", Instead("pass")).found_by(
        "test_the_resync_has_templates_made_anew_that_somebody_has_deleted"
    ),
    Step("the bound of what is read of the templates of a pool", "history-bound", Never()).found_by(
        "test_so_many_that_somebody_must_have_made_them_are_not_read"
    ),
    Step("that a template is removed only as it was read", "revision-version", Value("None")).found_by(
        "test_former_templates_beyond_the_limit_are_removed_and_not_one_that_was_changed_since"
    ),
    Step("that a budget is left alone while it does not change", "budget-unchanged", Never()).found_by(
        "test_a_budget_is_written_only_when_it_changes"
    ),
    Step("the time between two writes of a budget", "budget-rate", Drop()).found_by(
        "test_a_budget_is_written_every_few_seconds_at_most"
    ),
    Step("the bound of the members that a budget names", "budget-bound", Never()).found_by(
        "test_beyond_a_number_of_members_it_selects_all_of_the_pool"
    ),
    Step("that a budget is applied again at the resync", "budget-resync", Drop()).found_by(
        "test_a_resync_has_the_budget_of_each_pool_applied_again"
    ),
    Step("that a pool that is gone leaves no budget which selects members", "left-budget", Drop()).found_by(
        "test_a_pool_that_is_gone_is_reconciled_once_more_for_what_it_leaves"
    ),
    Step(
        "that the budget which a pool has left is released once the API server takes that",
        "left-until-released",
        Instead("self._store.pools.forget_left(action.pool, action.pool_uid)\nORIGINAL"),
    ).found_by("test_the_budget_that_a_pool_leaves_behind_is_released_once_the_api_server_takes_it"),
    Step(
        "that only a budget without an owner, of a pool of the name, is taken over", "adopts-orphan", Value("{}")
    ).found_by("test_a_budget_with_the_labels_of_another_pool_is_not_taken_over"),
    Step(
        "that claims are reconciled only for a change of their pool that changes their answer",
        "claims-answer",
        Always(),
    ).found_by("test_a_change_of_a_pool_that_changes_no_answer_has_no_claim_reconciled"),
    Step("the bound of the instances that count as members of a pool", "members-bound", Never()).found_by(
        "test_no_more_members_count_than_allowed_and_the_next_one_follows_on_one_that_goes"
    ),
    Step("that an instance follows on a member that goes", "members-follow", Drop()).found_by(
        "test_no_more_members_count_than_allowed_and_the_next_one_follows_on_one_that_goes"
    ),
    Step("that a pool makes no members that would not count", "too-many-members", Never()).found_by(
        "test_none_is_made_while_more_instances_name_the_pool_as_their_owner_than_count"
    ),
    Step("that a pool goes on where the API server takes no budget", "budget-refused", Instead("raise")).found_by(
        "test_an_api_server_that_takes_no_budget_keeps_no_pool_from_its_members"
    ),
    Step(
        "that a request which an earlier process has placed counts as one that is there for long",
        "placed-before",
        Value("self.clock()"),
    ).found_by("test_a_request_that_an_earlier_process_has_placed_and_a_plan_are_there_for_long"),
)
