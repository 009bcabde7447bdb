"""The checker: every promise, as pure functions from a `History` to violations.

I1 to I8 are in request_invariants.py, I9 to I12 in operator_invariants.py, I13 to I22 in pool_invariants.py.
"""

from __future__ import annotations

from tests.support.faults import operator_invariants, pool_invariants, request_invariants
from tests.support.faults.history import History
from tests.support.faults.violation import Violation

INVARIANTS = (*request_invariants.INVARIANTS, *operator_invariants.INVARIANTS, *pool_invariants.INVARIANTS)


def check(history: History) -> list[Violation]:
    """Return every violation, in order of the invariants; the product promises an empty list."""
    return [violation for invariant in INVARIANTS for violation in invariant(history)]
