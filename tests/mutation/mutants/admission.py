"""The API server's part: what is final and what is immutable."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Drop, Value

MUTANTS = (
    Step("the rule that makes a final status final", "final-status", Value('"true"'), generates=True).found_by(
        "test_a_rule_accepts_and_refuses[requests-the-status-of-a-finished-EfritRequest-is-final]"
    ),
    Step("the rule that a cancel cannot be taken back", "cancel-kept", Value('"true"'), generates=True).found_by(
        "test_a_rule_accepts_and_refuses[requests-spec.cancel-cannot-be-taken-back]"
    ),
    Step("the rule that the content of a request is immutable", "content-immutable", Drop(), generates=True).found_by(
        "test_a_rule_accepts_and_refuses[requests-spec.content-is-immutable]"
    ),
)
