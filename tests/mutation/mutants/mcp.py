"""The MCP server's part: who may call what, and that work is submitted whoever leaves."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Drop, Instead, Never, Value, Without

MUTANTS = (
    Step("the bound of what is read of a file in a pod", "output-bytes", Never()).found_by(
        "test_what_a_command_in_a_pod_writes_is_bounded"
    ),
    Step("the bound of all files in pods that are read at once", "output-budget", Drop()).found_by(
        "test_outputs_of_all_commands_that_are_read_at_once_are_bounded"
    ),
    Step(
        "the bound of what the MCP server reads of a file with its own account", "output-bound-as-server", Drop()
    ).found_by("test_all_backends_that_callers_share_read_files_of_pods_within_one_budget"),
    Step(
        "the bound of the backends that stay open for namespaces nobody uses", "namespaces-bound", Value("[]")
    ).found_by("test_backends_of_more_namespaces_than_may_stay_open_are_closed_unless_they_are_used"),
    Step("the bound of what is kept of each plan in a list", "brief-plans", Instead("states.append(state)")).found_by(
        "test_a_list_takes_no_more_memory_than_a_page_and_what_is_known_of_each_object[efritplans]"
    ),
    Step("the bound of an answer that has its whole result", "answer-bytes", Value("True")).found_by(
        "test_an_answer_with_a_result_is_no_larger_than_a_client_of_the_sdk_takes"
    ),
    Step("the bound of an answer with a list", "list-bytes", Never()).found_by(
        "test_a_list_is_no_larger_than_a_client_of_the_sdk_takes"
    ),
    Step("the check that a server may stop work before a task is cancelled", "task-cancel", Without(1)).found_by(
        "test_a_server_without_destructive_tools_takes_a_cancel_and_stops_nothing"
    ),
    Step(
        "the end of a backend whose configuration file has changed, with its last call", "former-backend", Never()
    ).found_by("test_of_calls_under_way_the_last_one_closes_a_former_backend"),
    Step("the bound of the requests that one client follows", "most-subscriptions", Never()).found_by(
        "test_of_subscriptions_that_are_asked_for_all_at_once_no_more_are_followed_than_may"
    ),
    Step("the refusal of a caller whose name or group a header would change", "blank-in-name", Never()).found_by(
        "test_a_caller_in_whose_name_nothing_is_done_is_refused_before_the_message_is_read[caller5]"
    ),
    Step("the bound of former backends that calls keep open", "former-backends", Never()).found_by(
        "test_calls_that_do_not_end_keep_only_so_many_former_backends_open"
    ),
    Step("the review of a caller's permission before a backend acts for them", "caller-allowed", Never()).found_by(
        "test_without_one_of_them_nothing_is_done"
    ),
    Step("the denial in an access review that also allows", "review-denied", Without(1)).found_by(
        "test_anything_but_a_plain_yes_is_no"
    ),
    Step("the check that a token was issued for this server", "token-audience", Never()).found_by(
        "test_an_answer_about_other_audiences_does_not_count"
    ),
    Step("the refusal of callers in whose name nothing is done", "caller-refused", Never()).found_by(
        "test_a_caller_in_whose_name_nothing_is_done_is_refused_before_the_message_is_read"
    ),
    Step("the count of a message's values before it is parsed", "message-parts", Never()).found_by(
        "test_a_message_too_heavy_for_any_call_is_refused_before_it_is_parsed"
    ),
    Step(
        "the absence of tools that change work on a read-only server", "read-only", Value("frozenset(Effect)")
    ).found_by("test_read_only_offers_nothing_that_runs_or_changes_work"),
    Step(
        "the refusal to continue a command by an answer where nothing destructive is allowed",
        "reply-not-destructive",
        Without(1, at=(1,)),
    ).found_by("test_a_question_is_passed_on_only_where_its_answer_may_be_acted_on"),
    Step(
        "the shield of a submission from a client that leaves",
        "submission-shield",
        Value("False", at=("shield",)),
        silent=True,
    ).found_by("test_work_is_handed_over_though_its_caller_goes_away_meanwhile"),
)
