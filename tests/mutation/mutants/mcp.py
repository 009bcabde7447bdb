"""The MCP server's part: who may call what, and that work is submitted whoever leaves."""

from tests.mutation.mutant import Mutant
from tests.mutation.operation import Drop, Instead, Never, Value, Without

REGISTRY_TESTS = "tests/unit/mcp/tools/test_registry.py"
CALL_TESTS = "tests/unit/mcp/tools/test_call.py"
REVIEW_TESTS = "tests/unit/mcp/test_access_review.py"
RELOADING_TESTS = "tests/unit/mcp/test_reloading_backend.py"

MUTANTS = (
    Mutant(
        "the bound of what is read of a file in a pod",
        "output-bytes",
        Never(),
        ("tests/unit/client/cluster/test_api.py::test_what_a_command_in_a_pod_writes_is_bounded",),
    ),
    Mutant(
        "the bound of all files in pods that are read at once",
        "output-budget",
        Drop(),
        ("tests/unit/client/cluster/test_api.py::test_outputs_of_all_commands_that_are_read_at_once_are_bounded",),
    ),
    Mutant(
        "the bound of what the MCP server reads of a file with its own account",
        "output-bound-as-server",
        Drop(),
        ("tests/unit/mcp/test_http.py::test_all_backends_that_callers_share_read_files_of_pods_within_one_budget",),
    ),
    Mutant(
        "the bound of what is kept of each plan in a list",
        "brief-plans",
        Instead("states.append(state)"),
        (
            "tests/unit/client/cluster/test_api.py::"
            "test_a_list_takes_no_more_memory_than_a_page_and_what_is_known_of_each_object[efritplans]",
        ),
    ),
    Mutant(
        "the check that a server may stop work before a task is cancelled",
        "task-cancel",
        Without(1),
        ("tests/unit/mcp/test_tasks.py::test_a_server_without_destructive_tools_takes_a_cancel_and_stops_nothing",),
    ),
    Mutant(
        "the end of a backend whose configuration file has changed, with its last call",
        "former-backend",
        Never(),
        (f"{RELOADING_TESTS}::test_of_calls_under_way_the_last_one_closes_a_former_backend",),
    ),
    Mutant(
        "the bound of former backends that calls keep open",
        "former-backends",
        Never(),
        (f"{RELOADING_TESTS}::test_calls_that_do_not_end_keep_only_so_many_former_backends_open",),
    ),
    Mutant(
        "the review of a caller's permission before a backend acts for them",
        "caller-allowed",
        Never(),
        ("tests/unit/mcp/test_authorized_plans.py::test_without_one_of_them_nothing_is_done",),
    ),
    Mutant(
        "the denial in an access review that also allows",
        "review-denied",
        Without(1),
        (f"{REVIEW_TESTS}::test_anything_but_a_plain_yes_is_no",),
    ),
    Mutant(
        "the check that a token was issued for this server",
        "token-audience",
        Never(),
        (f"{REVIEW_TESTS}::test_an_answer_about_other_audiences_does_not_count",),
    ),
    Mutant(
        "the refusal of callers in whose name nothing is done",
        "caller-refused",
        Never(),
        (
            "tests/unit/mcp/test_http.py::test_a_caller_in_whose_name_nothing_is_done_is_refused_before_the_message_is_read",
        ),
    ),
    Mutant(
        "the count of a message's values before it is parsed",
        "message-parts",
        Never(),
        ("tests/unit/mcp/test_http.py::test_a_message_too_heavy_for_any_call_is_refused_before_it_is_parsed",),
    ),
    Mutant(
        "the absence of tools that change work on a read-only server",
        "read-only",
        Value("frozenset(Effect)"),
        (f"{REGISTRY_TESTS}::test_read_only_offers_nothing_that_runs_or_changes_work",),
    ),
    Mutant(
        "the refusal to continue a command by an answer where nothing destructive is allowed",
        "reply-not-destructive",
        Without(1, at=(1,)),
        (f"{CALL_TESTS}::test_a_question_is_passed_on_only_where_its_answer_may_be_acted_on",),
    ),
    Mutant(
        "the shield of a submission from a client that leaves",
        "submission-shield",
        Value("False", at=("shield",)),
        (f"{CALL_TESTS}::test_work_is_handed_over_though_its_caller_goes_away_meanwhile",),
        silent=True,
    ),
)
