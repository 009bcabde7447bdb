"""Plans: what was said stays said, a step is made once, and nothing is decided before what there is is known."""

from tests.mutation.mutant import Mutant

PLAN = "operator/efrit/api/plan.py"
DECIDE = "operator/efrit/controller/decide/plans.py"
ACTOR = "operator/efrit/controller/act/plan_actor.py"
REPLAY = "operator/efrit/plan/replay.py"
STORE = "operator/efrit/controller/store/plans.py"
RULES = "tests/integration/api/test_rules.py"
UNIT = "tests/unit/controller"

MUTANTS = (
    Mutant(
        "the rule that an intent never changes",
        PLAN,
        '            "self.intent == oldSelf.intent",\n',
        '            "true",\n',
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the rule that amendments are only added",
        PLAN,
        "|| self.amendments[i] == oldSelf.amendments[i]))",
        "|| true))",
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the look for a plan's requests before anything is decided",
        DECIDE,
        "    if snapshot.requests is None:\n        return [ListRequests(plan.key, plan.metadata.uid)]\n",
        "",
        (f"{UNIT}/test_plans.py::test_nothing_is_decided_before_its_requests_are_known",),
    ),
    Mutant(
        "the reading of long results before anything is decided",
        DECIDE,
        "    if unread:\n        return unread\n",
        "",
        (f"{UNIT}/test_plans.py::test_long_results_are_read_before_anything_is_decided",),
    ),
    Mutant(
        "the order: a plan's first status comes before its first request",
        DECIDE,
        "yield from [made, *told] if plan.status.start_time is not None else [*told, made]",
        "yield from [made, *told]",
        (
            f"{UNIT}/test_plans.py::"
            "test_the_first_status_comes_before_the_first_request_and_work_before_the_word_after_that",
        ),
    ),
    Mutant(
        "the question whose a request of the name is",
        ACTOR,
        "            if not _belongs(obj, action.plan_uid):",
        "            if False:",
        (f"{UNIT}/act/test_plan_actor.py::test_somebody_elses_request_of_the_name_is_left_alone_and_told",),
    ),
    Mutant(
        "the check of a long result against its digest",
        ACTOR,
        "if hashlib.sha256(data).hexdigest() == sha256 else None",
        "if data else None",
        (f"{UNIT}/act/test_plan_actor.py::test_where_the_whole_cannot_be_had_its_beginning_has_to_do",),
    ),
    Mutant(
        "the check whether a recorded request answers the question of a plan",
        REPLAY,
        "    check_answer(request, question.part)\n",
        "",
        ("tests/unit/plan/test_replay.py::test_a_request_that_is_no_answer_to_the_question_ends_the_plan",),
    ),
    Mutant(
        "the forgetting of requests that a list does not have",
        STORE,
        "        for name in record.requests.keys() - names:\n",
        "        for name in ():\n",
        (f"{UNIT}/store/test_plans.py::test_a_list_forgets_what_is_not_there_any_more",),
    ),
)
