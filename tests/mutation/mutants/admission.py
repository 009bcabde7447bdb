"""The API server's part: what is final and what is immutable."""

from tests.mutation.mutant import Mutant

REQUEST = "operator/efrit/api/request.py"
RULES = "tests/integration/api/test_rules.py"

MUTANTS = (
    Mutant(
        "the rule that makes a final status final",
        REQUEST,
        '            "(has(self.status) && self.status == oldSelf.status)",\n',
        '            "true",\n',
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the rule that a cancel cannot be taken back",
        REQUEST,
        '            "!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",\n',
        '            "true",\n',
        (RULES,),
        generates=True,
    ),
    Mutant(
        "the rule that the content of a request is immutable",
        REQUEST,
        '                "type",\n                "content",\n',
        '                "type",\n',
        (RULES,),
        generates=True,
    ),
)
