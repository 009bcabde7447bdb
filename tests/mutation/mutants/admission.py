"""The API server's part: what is final and what is immutable."""

from tests.mutation.mutant import Mutant
from tests.mutation.operation import Drop, Value

RULES = "tests/integration/api/test_rules.py::test_a_rule_accepts_and_refuses"

MUTANTS = (
    Mutant(
        "the rule that makes a final status final",
        "final-status",
        Value('"true"'),
        (f"{RULES}[requests-the-status-of-a-finished-EfritRequest-is-final]",),
        generates=True,
    ),
    Mutant(
        "the rule that a cancel cannot be taken back",
        "cancel-kept",
        Value('"true"'),
        (f"{RULES}[requests-spec.cancel-cannot-be-taken-back]",),
        generates=True,
    ),
    Mutant(
        "the rule that the content of a request is immutable",
        "content-immutable",
        Drop(),
        (f"{RULES}[requests-spec.content-is-immutable]",),
        generates=True,
    ),
)
