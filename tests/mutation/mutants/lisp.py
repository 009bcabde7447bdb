"""Emacs: claim before evaluation, answer before tidying, nothing twice."""

from tests.mutation.mutant import Mutant

FILES = "images/emacs/lisp/efrit-files.el"
CLAIM = "images/emacs/lisp/efrit-queue-claim.el"
ANSWER = "images/emacs/lisp/efrit-queue-answer.el"
RESULTS = "images/emacs/lisp/efrit-queue-results.el"
RECOVER = "images/emacs/lisp/efrit-queue-recover.el"
SERVER = "images/emacs/lisp/efrit-server.el"
BEGIN = "images/emacs/lisp/efrit-session-begin.el"
HISTORY = "images/emacs/lisp/efrit-session-history.el"
SECRET = "images/emacs/lisp/efrit-secret.el"
BACKGROUND = "images/emacs/lisp/efrit-eval-background.el"
WATCHDOG = "images/emacs/lisp/efrit-eval-watchdog.el"
SESSIONS = "images/emacs/lisp/efrit-session-scheduler.el"
STATE = "images/emacs/lisp/efrit-session-state.el"
CONVERSATION = "images/emacs/lisp/efrit-session-conversation.el"
GUARD = "images/emacs/lisp/efrit-eval-guard.el"
LIMITS = "images/emacs/lisp/efrit-eval-limits.el"
SELF_CHECK = "images/emacs/lisp/efrit-server-self-check.el"

MUTANTS = (
    Mutant(
        "every fsync in Emacs",
        FILES,
        "         (write-region-inhibit-fsync nil)",
        "         (write-region-inhibit-fsync t)",
        ("ert:efrit-answer-is-synced-before-it-is-linked", "ert:efrit-claim-syncs-the-journal-and-nothing-else"),
    ),
    Mutant(
        "the claim journal",
        CLAIM,
        "          (efrit-claim--journal id attempt)\n",
        "          (ignore attempt)\n",
        ("ert:efrit-server-the-claim-is-on-record-before-anything-runs",),
    ),
    Mutant(
        "the refusal to run what could not be journaled",
        CLAIM,
        "         (efrit-claim--take-back id to from)\n"
        "         (signal 'efrit-claim-failed (list id (error-message-string err)))",
        '         (message "%s %s %s %s" id err from to)',
        ("ert:efrit-claim-that-cannot-be-journaled-is-given-back",),
    ),
    Mutant(
        "the next try to give back a request whose claim could not be recorded",
        CLAIM,
        "    (file-error (push (cons id (cons from to)) efrit-claim--stranded))))",
        "    (file-error (ignore id))))",
        ("ert:efrit-claim-that-cannot-be-given-back-is-given-back-later-and-runs",),
    ),
    Mutant(
        "the mark after a torn line of the claim journal",
        CLAIM,
        '(if torn (concat "!\\n" line) line)',
        "(if torn line line)",
        ("ert:efrit-claim-journal-survives-a-torn-line",),
    ),
    Mutant(
        "the second reading of the claim journals where they were exchanged during the first",
        CLAIM,
        "      (while (not (equal journal (setq journal (efrit-claim--journal-inode))))\n",
        "      (while (not (equal journal journal))\n",
        ("ert:efrit-claim-is-known-though-journals-are-exchanged-while-they-are-read",),
    ),
    Mutant(
        "the no-replace link of an answer",
        FILES,
        "      (add-name-to-file from to)\n",
        "      (add-name-to-file from to t)\n",
        ("ert:efrit-files-publish-never-replaces",),
    ),
    Mutant(
        "the look for an answer before a claim",
        CLAIM,
        "      (cond ((efrit-claim-answered-p id)\n",
        "      (cond ((and nil (efrit-claim-answered-p id))\n",
        ("ert:efrit-claim-of-an-answered-id-runs-nothing",),
    ),
    Mutant(
        "the check that the claimed file is the one that was read",
        CLAIM,
        "            ((not (equal (efrit-entry-stamp entry)\n",
        "            ((not (equal (or t (efrit-entry-stamp entry))\n",
        ("ert:efrit-claim-of-a-file-that-changed-meanwhile-reads-it-again",),
    ),
    Mutant(
        "the digest check of a second request under an answered id",
        CLAIM,
        "          ((equal (efrit-request-digest request) (efrit-claim--digest-at archived))",
        "          ((or t (efrit-request-digest request) (efrit-claim--digest-at archived))",
        ("ert:efrit-claim-of-an-answered-id-runs-nothing", "ert:efrit-server-an-answered-id-is-not-run-again"),
    ),
    Mutant(
        "the claims in the decision what a crash left behind",
        RECOVER,
        "        ((= attempts 0) 'wait)",
        "        ((or t (= attempts 0)) 'wait)",
        ("ert:efrit-recover-what-was-claimed-is-answered-interrupted",),
    ),
    Mutant(
        "the look for claims of requests whose rename a crash has lost",
        RECOVER,
        '    (dolist (part \'("processing" "requests"))',
        '    (dolist (part \'("processing"))',
        ("ert:efrit-recover-a-lost-rename-does-not-hide-the-claim",),
    ),
    Mutant(
        "the look whose the queue is, once a claim is recorded",
        CLAIM,
        "    (when (efrit-fence-holds-p)\n",
        "    (progn\n",
        ("ert:efrit-fence-what-was-claimed-while-the-queue-was-taken-does-not-run",),
    ),
    Mutant(
        "the look whose the queue is, before an answer is stored",
        ANSWER,
        "  (when (efrit-fence-holds-p)\n",
        "  (progn\n",
        ("ert:efrit-fence-what-ends-after-the-queue-was-taken-has-no-answer",),
    ),
    Mutant(
        "the restraint of an Emacs that the queue was taken from",
        SERVER,
        "  (or (efrit-fence-paused-p) (not (efrit-fence-holds-p)) (efrit-self-check-holds-p)))",
        "  (or (efrit-fence-paused-p) (efrit-self-check-holds-p)))",
        ("ert:efrit-fence-an-emacs-of-an-older-run-leaves-what-waits-alone",),
    ),
    Mutant(
        "the look for claims that came after the queue was taken",
        SERVER,
        "      (efrit-server--settle-strays)\n",
        "",
        ("ert:efrit-fence-a-daemon-settles-a-claim-of-the-run-before",),
    ),
    Mutant(
        "the limit of attempts",
        RECOVER,
        "              (< attempts (efrit-request-max-attempts request)))",
        "              (efrit-request-max-attempts request))",
        ("ert:efrit-recover-a-safe-request-does-not-run-for-ever",),
    ),
    Mutant(
        "the retry policy",
        RECOVER,
        '              (equal (efrit-request-retry request) "if-interrupted")\n',
        "",
        ("ert:efrit-recover-decides-by-four-facts",),
    ),
    Mutant(
        "the answer that a session's record of its end tells, where an Emacs could not tell it any more",
        BEGIN,
        "    (cond ((and known (efrit-history-ended history))\n",
        "    (cond ((and nil (efrit-history-ended history))\n",
        ("ert:efrit-session-an-end-that-could-not-be-told-is-told-by-the-next-emacs",),
    ),
    Mutant(
        "the check that a request's own message is recorded, before its session is resumed",
        BEGIN,
        "          ((and known (efrit-history-asked history)) (efrit-session--resume session))",
        "          (known (efrit-session--resume session))",
        ("ert:efrit-session-fault-a-session-of-the-version-before-goes-on",),
    ),
    Mutant(
        "the number that replaces a session's record whose write failed after it was written",
        HISTORY,
        "               (setcar records record))",
        "               (push record records))",
        ("ert:efrit-session-fault-a-record-that-cannot-be-written-at-first-changes-no-answer",),
    ),
    Mutant(
        "the next tick, set before anything is done in this one",
        SERVER,
        "  (efrit-server--set-ticks)\n  (efrit-server--end-if-unwound)\n",
        "  (efrit-server--end-if-unwound)\n",
        ("ert:efrit-server-a-throw-out-of-the-regular-timer-does-not-end-it",),
    ),
    Mutant(
        "the end of an Emacs that an overflow of the C stack left busy",
        SERVER,
        "  (when (and efrit-server--busy\n             (not (efrit-background-on-stack-p",
        "  (when (and nil efrit-server--busy\n             (not (efrit-background-on-stack-p",
        ("ert:efrit-background-an-overflow-of-the-c-stack-ends-emacs-and-no-more",),
    ),
    Mutant(
        "the silence of Emacs before code between requests is stopped",
        BACKGROUND,
        "(and (efrit-background--silent-p) (efrit-background--running))",
        "(and (or t (efrit-background--silent-p)) (efrit-background--running))",
        ("ert:efrit-background-code-that-is-soon-over-is-not-stopped",),
    ),
    Mutant(
        "the question whether Emacs is still the parent, before the watchdog signals it",
        WATCHDOG,
        '  [ \\"$(parent)\\" = \\"$emacs\\" ] && kill',
        '  [ \\"$(parent)\\" != none ] && kill',
        ("ert:efrit-interrupt-the-watchdog-signals-nobody-who-has-the-number-of-its-emacs",),
    ),
    Mutant(
        "the refusal of a key that text has by chance",
        SECRET,
        "        ((< (length key) efrit-secret--fewest-characters)\n",
        "        ((< (length key) 0)\n",
        ("ert:efrit-secret-a-key-that-text-has-by-chance-is-refused",),
    ),
    Mutant(
        "the hash of a result's bytes instead of its text, whose encoding a request may change",
        FILES,
        "(encode-coding-string text 'efrit-utf-8) text))",
        "(encode-coding-string text 'efrit-utf-8 t) text))",
        ("ert:efrit-coding-answers-are-right-whatever-a-request-has-set",),
    ),
    Mutant(
        "the pause of one session while it cannot be recorded",
        SESSIONS,
        "    (efrit-record-failed (efrit-session-record-failed session err))\n",
        "    (efrit-record-failed (signal 'file-error (cdr err)))\n",
        ("ert:efrit-session-fault-a-session-that-cannot-be-written-holds-back-nobody-else",),
    ),
    Mutant(
        "the refusal of an event that the state of a session has no place for",
        STATE,
        "            (signal 'efrit-session-out-of-order\n",
        "            (identity\n",
        ("ert:efrit-session-state-every-other-event-is-refused-and-changes-nothing",),
    ),
    Mutant(
        "the look whether a session still waits for the reply that has come",
        STATE,
        "  (when (efrit-session-next-state session 'reply-received)\n",
        "  (when (or t session)\n",
        ("ert:efrit-session-state-every-other-event-is-refused-and-changes-nothing",),
    ),
    Mutant(
        "the next try of an answer that could not be stored",
        ANSWER,
        "       (signal 'efrit-answer-failed (list id (error-message-string err)))",
        "       (ignore err)",
        ("ert:efrit-server-an-answer-that-cannot-be-stored-is-kept-and-said",),
    ),
    Mutant(
        "the look whether an answer still names a large result, before that is deleted",
        RESULTS,
        "      (unless (efrit-results--needed-p id)\n",
        "      (progn\n",
        ("ert:efrit-results-a-result-goes-with-its-answer",),
    ),
    Mutant(
        "the rescan of requests/ by Emacs",
        SERVER,
        "(garbage-collect-maybe 4))\n      (setq efrit-server--dirty t)\n",
        "(garbage-collect-maybe 4))\n",
        ("ert:efrit-server-finds-what-no-event-told-of",),
    ),
    Mutant(
        "the limit of bytes that a turn sends to the model",
        CONVERSATION,
        "    (when (< (efrit-conversation--budget conversation) 0)\n",
        "    (when nil\n",
        ("ert:efrit-conversation-many-short-messages-are-within-the-limit",),
    ),
    Mutant(
        "the restoration of what a request has redefined",
        GUARD,
        "            (fset (car pair) (cdr pair))\n",
        "",
        ("ert:efrit-guard-what-a-request-redefines-is-put-back-before-its-own-answer",),
    ),
    Mutant(
        "the restoration of the variables that a request has changed",
        GUARD,
        "                (set (car pair) (cdr pair))\n",
        "",
        (
            "ert:efrit-guard-puts-back-all-variables-where-one-has-changed-that-never-does",
            "ert:efrit-guard-binds-again-what-was-unbound",
        ),
    ),
    Mutant(
        "the removal of watchers of the variables that the server binds",
        GUARD,
        "      (funcall remove-watchers)\n",
        "      (ignore remove-watchers)\n",
        ("ert:efrit-guard-removes-watchers-of-the-variables-that-the-server-binds",),
    ),
    Mutant(
        "the repair of the lists of timers",
        GUARD,
        "      (funcall repair-timers))))",
        "      (ignore repair-timers))))",
        ("ert:efrit-guard-leaves-nothing-but-timers-in-the-lists-of-timers",),
    ),
    Mutant(
        "the end of an Emacs whose limits a request has lowered",
        LIMITS,
        "        (when (or (null before) (< (cdar limits) (cdr before)))",
        "        (when (and (null before) (< (cdar limits) 0))",
        ("ert:efrit-limits-finds-one-that-is-lower-and-minds-no-other",),
    ),
    Mutant(
        "the self-check after a tool of a session",
        SERVER,
        "    (when acts (efrit-self-check-request-ended))\n",
        "",
        ("ert:efrit-self-check-comes-before-the-next-claim-once-a-tool-of-a-session-has-run",),
    ),
    Mutant(
        "the end of an Emacs that cannot answer",
        GUARD,
        "      (funcall efrit-guard--kill-emacs 70)",
        "      (ignore efrit-guard--kill-emacs)",
        ("ert:efrit-guard-an-emacs-that-cannot-answer-ends-and-the-next-one-answers",),
    ),
    Mutant(
        "the refusal to claim anything after a self-check that failed",
        SERVER,
        " (efrit-self-check-holds-p)))",
        "))",
        ("ert:efrit-self-check-that-fails-is-told-by-the-heartbeat-and-nothing-is-claimed",),
    ),
    Mutant(
        "the self-check between a request and the next claim",
        SERVER,
        "(when (efrit-self-check-requested-p) ",
        "(when nil ",
        ("ert:efrit-self-check-comes-before-the-next-claim-once-a-request-has-ended",),
    ),
    Mutant(
        "the function objects by which a self-check compares",
        SELF_CHECK,
        "(same (symbol-function 'string=))",
        "(same 'string=)",
        ("ert:efrit-self-check-is-not-misled-by-redefinitions-of-what-compares",),
    ),
    Mutant(
        "the second failure before a self-check is told to have failed",
        SELF_CHECK,
        "(defconst efrit-self-check--most-failures 2",
        "(defconst efrit-self-check--most-failures 1",
        ("ert:efrit-self-check-one-failure-holds-claims-and-two-are-told",),
    ),
    Mutant(
        "the one thread at a time in which requests run",
        SERVER,
        "           (not (eq efrit-server--worker (efrit-interrupt-thread))))))",
        "           (eq efrit-server--worker 'nobody))))",
        ("ert:efrit-background-a-thread-that-a-request-waits-for-runs-no-other-request",),
    ),
)
