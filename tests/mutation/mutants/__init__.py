"""Every safety step of the product, one mutant each, by the part it is in."""

from tests.mutation.mutant import Mutant
from tests.mutation.mutants import admission, bridge, controller, lisp, mcp, plan, planning, pools, queue

MUTANTS: tuple[Mutant, ...] = (
    *queue.MUTANTS,
    *bridge.MUTANTS,
    *lisp.MUTANTS,
    *plan.MUTANTS,
    *controller.MUTANTS,
    *admission.MUTANTS,
    *planning.MUTANTS,
    *pools.MUTANTS,
    *mcp.MUTANTS,
)
