"""Every field of an EfritRequest's spec: which tests show what it does."""

from __future__ import annotations

from collections.abc import Mapping

ANSWERS = "../test_answers.py::test_{}".format
INSTANCES = "../test_instances.py::test_{}".format
FAILURES = "../test_failures.py::test_{}".format
HERE = "test_requests.py::test_{}".format

SESSIONS = "../test_sessions.py::test_{}".format
BOUNDED = (SESSIONS("a_budget_that_ends_keeps_what_was_done_and_is_no_success"),)
EACH_BOUND = (HERE("each_bound_of_a_budget_ends_a_command"),)
CONTINUED = (
    SESSIONS("a_chat_is_answered_and_its_session_goes_on_where_it_began"),
    SESSIONS("a_session_that_nobody_has_is_rejected"),
)
SELECTED = (INSTANCES("a_selector_finds_a_ready_instance_with_its_labels"),)
POOLED = (HERE("a_pool_is_the_instances_with_its_label"),)
NAMED = (ANSWERS("an_eval_is_answered_with_its_value_and_where_it_ran"),)
ATTEMPTS = (FAILURES("interrupted_work_runs_again_only_where_the_policy_allows"), FAILURES("attempts_are_bounded"))

TRIED: Mapping[str, tuple[str, ...]] = {
    "spec.instanceRef": NAMED,
    "spec.instanceRef.name": NAMED,
    "spec.poolRef": POOLED,
    "spec.poolRef.name": POOLED,
    "spec.selector": SELECTED,
    "spec.selector.matchLabels": SELECTED,
    "spec.selector.matchLabels{}": SELECTED,
    "spec.type": (ANSWERS("what_needs_a_model_is_refused_without_one"), *BOUNDED),
    "spec.content": NAMED,
    "spec.returnContext": (ANSWERS("the_context_comes_back_when_asked_for"),),
    "spec.timeoutSeconds": (ANSWERS("an_endless_loop_ends_at_its_timeout_and_the_next_eval_runs"),),
    "spec.queueTimeoutSeconds": (ANSWERS("work_that_waits_too_long_times_out_without_having_run"),),
    "spec.budget": BOUNDED,
    "spec.budget.maxToolCalls": BOUNDED,
    "spec.budget.maxIterations": EACH_BOUND,
    "spec.budget.maxTokens": EACH_BOUND,
    "spec.budget.iterationTimeoutSeconds": EACH_BOUND,
    "spec.session": CONTINUED,
    "spec.session.id": CONTINUED,
    "spec.priority": (ANSWERS("higher_priority_runs_first_and_equal_ones_in_order"),),
    "spec.retryPolicy": ATTEMPTS,
    "spec.maxAttempts": ATTEMPTS,
    "spec.cancel": (
        ANSWERS("running_work_is_shown_and_can_be_cancelled"),
        HERE("a_cancel_of_answered_work_changes_nothing"),
    ),
    "spec.ttlSecondsAfterFinished": (ANSWERS("a_finished_request_is_deleted_when_its_time_to_live_is_over"),),
}
