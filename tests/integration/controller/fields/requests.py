"""Every field of an EfritRequest's spec: which tests show what it does, and another value that comes too late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.integration.kube import Json

ANSWERS = "../test_answers.py::test_{}".format
INSTANCES = "../test_instances.py::test_{}".format
FAILURES = "../test_failures.py::test_{}".format
HERE = "test_requests.py::test_{}".format

NO_MODEL_YET = (HERE("what_a_model_would_go_by_ends_without_one"),)
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
    "spec.type": (ANSWERS("what_needs_a_model_is_refused_without_one"), *NO_MODEL_YET),
    "spec.content": NAMED,
    "spec.returnContext": (ANSWERS("the_context_comes_back_when_asked_for"),),
    "spec.timeoutSeconds": (ANSWERS("an_endless_loop_ends_at_its_timeout_and_the_next_eval_runs"),),
    "spec.queueTimeoutSeconds": (ANSWERS("work_that_waits_too_long_times_out_without_having_run"),),
    "spec.budget": NO_MODEL_YET,
    "spec.budget.maxToolCalls": NO_MODEL_YET,
    "spec.budget.maxIterations": NO_MODEL_YET,
    "spec.budget.maxTokens": NO_MODEL_YET,
    "spec.budget.iterationTimeoutSeconds": NO_MODEL_YET,
    "spec.session": NO_MODEL_YET,
    "spec.session.id": NO_MODEL_YET,
    "spec.priority": (ANSWERS("higher_priority_runs_first_and_equal_ones_in_order"),),
    "spec.retryPolicy": ATTEMPTS,
    "spec.maxAttempts": ATTEMPTS,
    "spec.cancel": (ANSWERS("running_work_is_shown_and_can_be_cancelled"), HERE("a_cancel_stands")),
    "spec.ttlSecondsAfterFinished": (ANSWERS("a_finished_request_is_deleted_when_its_time_to_live_is_over"),),
}

COMMAND: Json = {
    "type": "command",
    "budget": {"maxToolCalls": 1, "maxIterations": 1, "maxTokens": 1, "iterationTimeoutSeconds": 1},
    "session": {"id": "s"},
}

TOO_LATE: Mapping[str, Any] = {
    "instanceRef": {"name": "another"},
    "poolRef": {"name": "a-pool"},
    "selector": {"matchLabels": {"a": "b"}},
    "type": "chat",
    "content": "'other",
    "returnContext": True,
    "timeoutSeconds": 59,
    "queueTimeoutSeconds": 59,
    "budget": {"maxTokens": 5},
    "session": {"id": "t"},
    "priority": 1,
    "retryPolicy": "IfInterrupted",
    "maxAttempts": 5,
    "ttlSecondsAfterFinished": 5,
}
"""Another value of each field that never changes; where it also breaks a rule of another field, both are told."""
