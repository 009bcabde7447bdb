"""The workspace of a plan: every step committed once, nothing half done kept, no credential disclosed."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Drop, Instead, Without

MUTANTS = (
    Step(
        "the look whether a step of a plan is made already",
        "plan-step-made",
        Instead("((and (= last step) (setq last (1- step)) nil))"),
    ).found_by("ert:efrit-plan-an-act-asked-for-again-is-returned-again"),
    Step("the condition on which the head of a plan moves", "plan-head", Without(-1)).found_by(
        "ert:efrit-plan-crash-a-git-that-wakes-up-late-makes-no-second-commit"
    ),
    Step("the sync of what a plan's step consists of", "plan-fsync", Instead('("core.fsync" . "none")')).found_by(
        "ert:efrit-plan-git-what-a-step-consists-of-is-synced-before-it-is-returned"
    ),
    Step("throwing away what a crash left half done of a plan", "plan-restore", Drop()).found_by(
        "ert:efrit-plan-crash-half-of-a-file-is-thrown-away"
    ),
    Step("the removal of a dead git's lock", "plan-unlock", Drop()).found_by(
        "ert:efrit-plan-crash-half-of-a-file-is-thrown-away"
    ),
    Step(
        "the one host that gets a credential", "credential-host", Instead('"credential.helper"', at=(0, 0))
    ).found_by("ert:efrit-plan-clone-another-host-does-not-get-the-secret"),
    Step(
        "the refusal of a server whose host key is not known",
        "known-hosts",
        Instead('" -o StrictHostKeyChecking=no"'),
    ).found_by("ert:efrit-plan-clone-an-unknown-host-is-not-cloned-from"),
    Step("the refusal to send credentials of a clone over http", "credentials-in-the-clear", Drop()).found_by(
        "ert:efrit-plan-clone-credentials-are-not-sent-in-the-clear"
    ),
    Step(
        "the refusal of a redirect from https to http while code is cloned", "clone-redirect", Instead('":http"')
    ).found_by("ert:efrit-plan-clone-https-is-not-left-for-http"),
    Step(
        "the refusal to send the key of a model over http by a proxy that others can read", "key-proxy", Drop()
    ).found_by("ert:efrit-model-no-key-no-curl-and-no-url-are-reported-later"),
    Step("the look whether the clone has a step's commit already", "plan-clone-made", Instead("nil")).found_by(
        "ert:efrit-plan-clone-what-a-crash-between-the-two-commits-missed-belongs-to-the-first"
    ),
)
