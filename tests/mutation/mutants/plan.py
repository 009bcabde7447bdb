"""The workspace of a plan: every step committed once, nothing half done kept, no credential told."""

from tests.mutation.mutant import Mutant

PLAN = "images/emacs/lisp/efrit-plan.el"
LOG = "images/emacs/lisp/efrit-plan-log.el"
GIT = "images/emacs/lisp/efrit-plan-git.el"
CLONE = "images/emacs/lisp/efrit-plan-clone.el"
ENVIRONMENT = "images/emacs/lisp/efrit-plan-environment.el"

MUTANTS = (
    Mutant(
        "the look whether a step of a plan is made already",
        PLAN,
        "          ((= last step) (efrit-plan--same head commit))\n",
        "          ((and (= last step) (setq last (1- step)) nil))\n",
        ("ert:efrit-plan-an-act-asked-for-again-is-told-again",),
    ),
    Mutant(
        "the condition on which the head of a plan moves",
        LOG,
        '"HEAD" hash (or head (make-string 40 ?0)))',
        '"HEAD" hash)',
        ("ert:efrit-plan-crash-a-git-that-wakes-up-late-makes-no-second-commit",),
    ),
    Mutant(
        "the sync of what a plan's step consists of",
        GIT,
        '("core.fsync" . "committed,loose-object")',
        '("core.fsync" . "none")',
        ("ert:efrit-plan-git-what-a-step-consists-of-is-synced-before-it-is-told",),
    ),
    Mutant(
        "throwing away what a crash left half done of a plan",
        PLAN,
        "           (efrit-plan--restore root)\n",
        "",
        ("ert:efrit-plan-crash-half-of-a-file-is-thrown-away",),
    ),
    Mutant(
        "the removal of a dead git's lock",
        PLAN,
        "  (efrit-plan-git-unlock root)\n",
        "",
        ("ert:efrit-plan-crash-half-of-a-file-is-thrown-away",),
    ),
    Mutant(
        "the one host that is told a credential",
        CLONE,
        '(format "credential.%s.helper" (match-string 0 url))',
        '"credential.helper"',
        ("ert:efrit-plan-clone-another-host-is-not-told-the-secret",),
    ),
    Mutant(
        "the look whether the clone has a step's commit already",
        ENVIRONMENT,
        "                                            (efrit-plan-environment--made-p clone commit)))\n",
        "                                            nil))\n",
        ("ert:efrit-plan-clone-what-a-crash-between-the-two-commits-missed-belongs-to-the-first",),
    ),
)
