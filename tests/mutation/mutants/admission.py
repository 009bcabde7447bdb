"""The API server's part: what is final and what is immutable."""

from tests.mutation.mutant import Mutant
from tests.mutation.operation import Drop, Value

RULES = "tests/integration/api/test_rules.py"

MUTANTS = (
    Mutant(
        "the rule that makes a final status final",
        "final-status",
        Value('"true"'),
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the rule that a cancel cannot be taken back",
        "cancel-kept",
        Value('"true"'),
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the rule that the content of a request is immutable",
        "content-immutable",
        Drop(),
        (RULES,),
        generates=True,
    ),
)
