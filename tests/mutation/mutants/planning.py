"""Plans: what was said stays said, a step is made once, and nothing is decided before what there is is known."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Always, Drop, Never, Value

MUTANTS = (
    Step("the rule that an intent never changes", "intent-immutable", Value('"true"'), generates=True).found_by(
        "test_a_rule_accepts_and_refuses[plans-spec.intent-is-immutable]"
    ),
    Step("the rule that amendments are only added", "amendments-kept", Value('"true"'), generates=True).found_by(
        "test_a_rule_accepts_and_refuses[plans-spec.amendments-only-grows-at-its-end]"
    ),
    Step("the wait of a plan for the Secret of its repository in the running pod", "plan-secret", Never()).found_by(
        "test_a_plan_does_not_begin_until_the_running_pod_has_the_secret"
    ),
    Step("the look for a plan's requests before anything is decided", "requests-listed", Drop()).found_by(
        "test_nothing_is_decided_before_its_requests_are_known"
    ),
    Step("the reading of long results before anything is decided", "results-read", Drop()).found_by(
        "test_long_results_are_read_before_anything_is_decided"
    ),
    Step(
        "the order: a plan's first status comes before its first request",
        "status-first",
        Value("[create_request, *status_writes]"),
    ).found_by("test_the_first_status_comes_before_the_first_request_and_work_before_the_word_after_that"),
    Step(
        "the question whether a plan exists, before a request of it is made that may have gone with it",
        "confirm-plan",
        Drop(),
    ).found_by("test_a_request_is_not_made_again_for_a_plan_that_was_deleted_though_only_its_request_is_reported"),
    Step("that a plan has no request of another namespace", "plan-namespace", Never()).found_by(
        "test_a_request_of_another_namespace_is_not_the_plans_whatever_owner_it_names"
    ),
    Step("the question whose a request of the name is", "request-belongs", Never()).found_by(
        "test_somebody_elses_request_of_the_name_is_left_alone_and_reported"
    ),
    Step(
        "the check of a long result against its digest", "result-digest", Value("data.decode() if data else None")
    ).found_by("test_where_the_whole_cannot_be_had_its_beginning_has_to_do"),
    Step("the bound on how old a request of a laptop's plan is sent again", "plan-resent-within", Never()).found_by(
        "test_an_act_whose_answer_is_no_longer_kept_is_not_run_again"
    ),
    Step("the note that the queue had a request of a laptop's plan", "plan-sent-once", Never()).found_by(
        "test_an_act_that_was_removed_before_its_answer_was_read_is_not_run_again"
    ),
    Step(
        "the sparing of the request that has read a plan's repository, however old it is",
        "plan-base-request",
        Always(),
    ).found_by("test_a_plan_whose_requests_were_deleted_asks_for_its_repository_once_more"),
    Step("the check whether a recorded request answers the question of a plan", "check-answer", Drop()).found_by(
        "test_a_request_that_is_no_answer_to_the_question_ends_the_plan"
    ),
    Step("the forgetting of requests that a list does not have", "unlisted-requests", Value("()")).found_by(
        "test_a_list_forgets_what_is_not_there_any_more"
    ),
)
