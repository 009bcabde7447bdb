"""Emacs: claim before evaluation, answer before tidying, nothing twice."""

from tests.mutation.mutant import Step
from tests.mutation.operation import Always, Drop, Instead, Never, Value, Without

MUTANTS = (
    Step("every fsync in Emacs", "fsync-emacs", Instead("(write-region-inhibit-fsync t)")).found_by(
        "ert:efrit-answer-is-synced-before-it-is-linked", "ert:efrit-claim-syncs-the-journal-and-nothing-else"
    ),
    Step(
        "the comparison of the time of day with the time since the machine has started", "clock-checked", Always()
    ).found_by(
        "ert:efrit-clock-a-session-has-its-time-however-the-clock-is-set",
        "ert:efrit-tools-shell-a-clock-that-is-set-changes-no-time-of-a-command",
    ),
    Step(
        "the clock that does not go back where nothing says how long the machine runs",
        "clock-without-uptime",
        Never(at=(0,)),
    ).found_by("ert:efrit-clock-without-a-time-since-the-start-never-goes-back"),
    Step(
        "the end of a pause of a model call whose timer was put off by the clock", "model-due", Never(at=(0,))
    ).found_by("ert:efrit-model-a-clock-that-is-set-back-makes-no-pause-longer"),
    Step("the size beyond which a tool visits no file", "visit-size", Never()).found_by(
        "ert:efrit-tools-files-a-file-that-is-too-large-is-refused-unread"
    ),
    Step("the most places that an edit changes at once", "text-places", Never()).found_by(
        "ert:efrit-tools-files-as-many-places-are-changed-as-memory-has-room-for"
    ),
    Step("the length beyond which an edit makes no text", "text-growth", Never()).found_by(
        "ert:efrit-tools-files-no-edit-makes-a-text-too-long"
    ),
    Step("the claim journal", "claim-journal", Instead("(ignore attempt)")).found_by(
        "ert:efrit-server-the-claim-is-on-record-before-anything-runs"
    ),
    Step(
        "the refusal to run what could not be journaled",
        "claim-unjournaled",
        Instead('(file-error (message "%s %s %s %s" id err from to))'),
    ).found_by("ert:efrit-claim-that-cannot-be-journaled-is-given-back"),
    Step(
        "the next try to give back a request whose claim could not be recorded",
        "claim-stranded",
        Instead("(file-error (ignore id))"),
    ).found_by("ert:efrit-claim-that-cannot-be-given-back-is-given-back-later-and-runs"),
    Step(
        "the mark after a torn line of the claim journal", "claim-torn-line", Instead("(if torn line line)", at=(1,))
    ).found_by("ert:efrit-claim-journal-survives-a-torn-line"),
    Step(
        "the second reading of the claim journals where they were exchanged during the first",
        "claim-journals-twice",
        Value("(not (equal journal journal))"),
    ).found_by("ert:efrit-claim-is-known-though-journals-are-exchanged-while-they-are-read"),
    Step("the no-replace link of an answer", "answer-link", Instead("(add-name-to-file from to t)")).found_by(
        "ert:efrit-files-publish-never-replaces"
    ),
    Step("the look for an answer before a claim", "claim-answered", Never(at=(0,))).found_by(
        "ert:efrit-claim-of-an-answered-id-runs-nothing"
    ),
    Step(
        "the question to the file server whether a claimed request has ended before", "claim-ended", Never()
    ).found_by("ert:efrit-claim-of-what-ended-behind-the-cache-runs-nothing"),
    Step("the look at whose link an ended Emacs has left in archive/", "claim-own-link", Never(at=(0,))).found_by(
        "ert:efrit-claim-on-a-shared-queue-leaves-no-second-name"
    ),
    Step("the opening of an answer that may only be remembered", "claim-remembered", Always()).found_by(
        "ert:efrit-claim-of-an-answer-that-is-only-remembered-runs"
    ),
    Step(
        "the reading of the whole table of mounts, by which a shared queue is known",
        "whole-mounts",
        Value("(= start 0)"),
    ).found_by("ert:efrit-host-what-the-system-reports-is-read-whole-within-a-bound"),
    Step("the check that the claimed file is the one that was read", "claim-changed-file", Never()).found_by(
        "ert:efrit-claim-of-a-file-that-changed-meanwhile-reads-it-again"
    ),
    Step("the second look for the end of this Emacs, once a request is claimed", "claim-paused", Never()).found_by(
        "ert:efrit-claim-of-what-waits-when-this-emacs-is-to-end-is-given-back"
    ),
    Step(
        "the digest check of a second request under an answered id", "claim-second-digest", Always(), silent=True
    ).found_by("ert:efrit-claim-of-an-answered-id-runs-nothing", "ert:efrit-server-an-answered-id-is-not-run-again"),
    Step("the claims in the decision what a crash left behind", "recover-claimed", Always()).found_by(
        "ert:efrit-recover-what-was-claimed-is-answered-interrupted"
    ),
    Step(
        "the look for claims of requests whose rename a crash has lost",
        "recover-lost-rename",
        Instead('\'("processing")', at=(0, 0)),
    ).found_by("ert:efrit-recover-a-lost-rename-does-not-hide-the-claim"),
    Step("the removal of what is not a file from the place of a file of the queue", "set-aside", Never()).found_by(
        "ert:efrit-answer-what-is-not-a-file-is-not-in-its-way"
    ),
    Step("the same from the place of a heartbeat", "replace-odd", Drop()).found_by(
        "ert:efrit-health-what-is-not-a-file-does-not-silence-emacs"
    ),
    Step(
        "the start of Emacs in spite of litter that it cannot delete",
        "recover-litter",
        Instead("(file-missing nil)"),
    ).found_by("ert:efrit-recover-what-is-not-a-file-does-not-keep-emacs-from-starting"),
    Step(
        "the refusal to append to what is not a file, to claims.log through a link say", "append-odd", Never()
    ).found_by(
        "ert:efrit-claim-is-not-recorded-through-a-link", "ert:efrit-history-what-could-not-be-written-does-not-count"
    ),
    Step("the removal of what is not a file from the place of a work log", "progress-odd", Drop()).found_by(
        "ert:efrit-progress-what-is-not-a-file-is-put-aside-and-not-written-to"
    ),
    Step(
        "the list of large results that is not empty though it cannot be read",
        "results-unread",
        Instead("(file-error (ignore err))"),
    ).found_by("ert:efrit-results-a-list-that-cannot-be-read-is-read-once-it-can-be"),
    Step("the slash that no range of a pattern has", "range-slash", Never(at=(0,))).found_by(
        "ert:efrit-tools-find-a-bracket-takes-no-slash"
    ),
    Step("the length of the JSON that tools return", "json-length", Never(at=(0,))).found_by(
        "ert:efrit-todo-a-list-that-is-too-long-says-how-many-are-left-out",
        "ert:efrit-tools-buffers-changes-that-are-too-long-are-left-out-and-counted",
    ),
    Step("the look whose the queue is, once a claim is recorded", "fence-claim", Always()).found_by(
        "ert:efrit-fence-what-was-claimed-while-the-queue-was-taken-does-not-run"
    ),
    Step("the look whose the queue is, before an answer is stored", "fence-answer", Always()).found_by(
        "ert:efrit-fence-what-ends-after-the-queue-was-taken-has-no-answer"
    ),
    Step(
        "the look into the number of the newest run, whatever a file server's client remembers of it",
        "fence-open",
        Never(),
    ).found_by("ert:efrit-host-a-newer-run-is-seen-behind-attributes-that-are-remembered"),
    Step("the start that gives way to an Emacs of another host", "taken-elsewhere", Instead("t")).found_by(
        "ert:efrit-host-no-emacs-starts-beside-that-of-another-host"
    ),
    Step("the end of an Emacs whose queue another host has taken", "end-superseded", Never(), silent=True).found_by(
        "ert:efrit-host-an-emacs-ends-once-the-queue-is-taken"
    ),
    Step("the restraint of an Emacs that the queue was taken from", "draining", Without(1)).found_by(
        "ert:efrit-fence-an-emacs-of-an-older-run-leaves-what-waits-alone"
    ),
    Step("the look for claims that came after the queue was taken", "settle-strays", Drop(), silent=True).found_by(
        "ert:efrit-fence-a-daemon-settles-a-claim-of-the-run-before"
    ),
    Step("the limit of attempts", "recover-attempts", Drop()).found_by(
        "ert:efrit-recover-a-safe-request-does-not-run-for-ever"
    ),
    Step("the retry policy", "recover-retry-policy", Drop()).found_by("ert:efrit-recover-decides-by-four-facts"),
    Step(
        "the answer that a session's record of its end has, where an Emacs could not store it any more",
        "session-ended",
        Never(at=(0,)),
    ).found_by("ert:efrit-session-an-end-that-could-not-be-answered-is-answered-by-the-next-emacs"),
    Step(
        "the check that a request's own message is recorded, before its session is resumed",
        "session-asked",
        Value("known"),
    ).found_by("ert:efrit-session-fault-a-session-of-the-version-before-goes-on"),
    Step("the end of a request whose model asks its user something", "question-ends", Never()).found_by(
        "ert:efrit-session-a-question-ends-the-request-and-its-answer-continues"
    ),
    Step(
        "the question to the user that stays open, for the answer to be its result", "question-open", Never()
    ).found_by("ert:efrit-session-a-question-ends-the-request-and-its-answer-continues"),
    Step("the answer of the user as the result of the model's question", "question-answer", Never()).found_by(
        "ert:efrit-session-a-question-ends-the-request-and-its-answer-continues"
    ),
    Step(
        "the number that replaces a session's record whose write failed after it was written",
        "record-number",
        Instead("(push record records)"),
    ).found_by("ert:efrit-session-fault-a-record-that-cannot-be-written-at-first-changes-no-answer"),
    Step(
        "the look whether anything goes on, or could begin by itself, before Emacs rests", "may-rest", Always()
    ).found_by("ert:efrit-server-rests-while-nothing-goes-on-and-nothing-is-left-behind"),
    Step("the end of the rest when a signal finds Emacs busy", "rest-until-asked", Drop(), silent=True).found_by(
        "ert:efrit-background-code-of-the-init-file-is-stopped-though-no-heartbeat-was-due"
    ),
    Step("the next tick, set before anything is done in this one", "next-tick", Drop(), silent=True).found_by(
        "ert:efrit-server-a-throw-out-of-the-regular-timer-does-not-end-it"
    ),
    Step("the end of an Emacs that an overflow of the C stack left busy", "unwound", Never(), silent=True).found_by(
        "ert:efrit-background-an-overflow-of-the-c-stack-ends-emacs-and-no-more"
    ),
    Step(
        "the end of an Emacs that claims nothing, though nothing is in the way", "blind", Never(at=(0,)), silent=True
    ).found_by("ert:efrit-guard-an-emacs-that-silently-claims-nothing-ends-and-the-next-one-answers"),
    Step("the end of an Emacs whose timers no longer go off", "timers-rest", Never(), silent=True).found_by(
        "ert:efrit-guard-an-emacs-whose-timers-no-longer-go-off-ends"
    ),
    Step("the end of an Emacs in which stopped code comes back", "comes-back", Never(), silent=True).found_by(
        "ert:efrit-background-code-that-comes-back-whenever-it-is-stopped-ends-emacs"
    ),
    Step(
        "the silence of Emacs before code between requests is stopped",
        "stop-if-silent",
        Without(0, at=(0, 0, 0)),
        silent=True,
    ).found_by("ert:efrit-background-code-that-is-soon-over-is-not-stopped"),
    Step(
        "the sparing of the thread that a request waits for, when Emacs is silent", "thread-of-request", Never()
    ).found_by("ert:efrit-background-a-thread-that-a-request-waits-for-is-not-left-behind"),
    Step(
        "the tolerance of late timers while a request waits for a thread",
        "thread-keeps-timers",
        Instead("t"),
        silent=True,
    ).found_by("ert:efrit-background-a-thread-that-a-request-waits-for-is-not-left-behind"),
    Step(
        "the end of what loops after a garbage collection, once it is stopped", "unhook", Drop(), silent=True
    ).found_by("ert:efrit-background-a-loop-after-garbage-collections-holds-up-one-request-only"),
    Step(
        "the question whether Emacs is still the parent, before the watchdog signals it", "watchdog-parent", Always()
    ).found_by("ert:efrit-interrupt-the-watchdog-signals-nobody-who-has-the-number-of-its-emacs"),
    Step("the refusal of a session whose history is not an ordinary file", "session-file", Never()).found_by(
        "ert:efrit-history-only-an-ordinary-file-of-some-length-is-read"
    ),
    Step("the refusal of a key that text has by chance", "short-key", Never()).found_by(
        "ert:efrit-secret-a-key-that-text-has-by-chance-is-refused"
    ),
    Step(
        "the hash of a result's bytes instead of its text, whose encoding a request may change",
        "result-bytes",
        Instead("(encode-coding-string text 'efrit-utf-8 t)", at=(1,)),
    ).found_by("ert:efrit-eval-coding-answers-are-right-whatever-a-request-has-set"),
    Step(
        "the pause of one session while it cannot be recorded",
        "unrecorded-session",
        Instead("(efrit-record-failed (signal 'file-error (cdr err)))"),
        silent=True,
    ).found_by("ert:efrit-session-fault-a-session-that-cannot-be-written-holds-back-nobody-else"),
    Step(
        "the refusal of an event that the state of a session has no place for",
        "session-event",
        Instead("(list 'anything event)"),
    ).found_by("ert:efrit-session-state-every-other-event-is-refused-and-changes-nothing"),
    Step("the look whether a session still waits for the reply that has come", "late-reply", Always()).found_by(
        "ert:efrit-session-state-every-other-event-is-refused-and-changes-nothing"
    ),
    Step(
        "the next try of an answer that could not be stored", "unstored-answer", Instead("(ignore err)"), silent=True
    ).found_by("ert:efrit-server-an-answer-that-cannot-be-stored-is-kept-and-said"),
    Step(
        "the look whether an answer still names a large result, before that is deleted", "needed-result", Never()
    ).found_by("ert:efrit-results-a-result-goes-with-its-answer"),
    Step("the rescan of requests/ by Emacs", "emacs-rescan", Drop(), silent=True).found_by(
        "ert:efrit-server-finds-what-no-event-announced"
    ),
    Step("the limit of bytes that a turn sends to the model", "conversation-limit", Never()).found_by(
        "ert:efrit-conversation-many-short-messages-are-within-the-limit"
    ),
    Step("the restoration of what a request has redefined", "restore-functions", Drop(), silent=True).found_by(
        "ert:efrit-guard-what-a-request-redefines-is-put-back-before-its-own-answer"
    ),
    Step("the restoration of the variables that a request has changed", "restore-variables", Drop()).found_by(
        "ert:efrit-guard-puts-back-all-variables-where-one-has-changed-that-never-does",
        "ert:efrit-guard-binds-again-what-was-unbound",
    ),
    Step(
        "the removal of watchers of the variables that the server binds",
        "remove-watchers",
        Instead("(ignore remove-watchers)"),
    ).found_by("ert:efrit-guard-removes-watchers-of-the-variables-that-the-server-binds"),
    Step("the repair of the lists of timers", "repair-timers", Instead("(ignore repair-timers)")).found_by(
        "ert:efrit-guard-leaves-nothing-but-timers-in-the-lists-of-timers"
    ),
    Step(
        "the repair of the buffer in which Emacs converts text",
        "repair-conversion",
        Instead("(ignore repair-conversion)"),
    ).found_by("ert:efrit-guard-what-a-process-writes-arrives-after-every-buffer-was-made-read-only"),
    Step("the end of an Emacs whose limits a request has lowered", "lowered-limits", Without(1)).found_by(
        "ert:efrit-limits-finds-one-that-is-lower-and-minds-no-other"
    ),
    Step("the self-check after a tool of a session", "check-after-tool", Drop()).found_by(
        "ert:efrit-self-check-comes-before-the-next-claim-once-a-tool-of-a-session-has-run"
    ),
    Step(
        "the end of an Emacs that cannot answer",
        "cannot-answer",
        Instead("(ignore efrit-guard--kill-emacs)"),
        silent=True,
    ).found_by("ert:efrit-guard-an-emacs-that-cannot-answer-ends-and-the-next-one-answers"),
    Step(
        "the end of an Emacs whose variables were changed between requests",
        "altered-between-requests",
        Drop(),
        silent=True,
    ).found_by("ert:efrit-guard-an-emacs-whose-variables-were-changed-between-requests-ends"),
    Step(
        "the end of an Emacs whose own work waits for code that a request has left",
        "stuck",
        Never(at=(0,)),
        silent=True,
    ).found_by("ert:efrit-guard-an-emacs-that-cannot-answer-ends-and-the-next-one-answers"),
    Step(
        "the reading of a known request by the self-check", "check-reading", Value("efrit-self-check--content")
    ).found_by("ert:efrit-self-check-finds-functions-that-make-answers-wrong"),
    Step(
        "the function that reads a request's file, whatever advice its name has",
        "read-by-function",
        Instead("(insert-file-contents path)"),
    ).found_by("ert:efrit-queue-requests-are-read-though-code-has-advised-what-reads"),
    Step("the refusal to claim anything after a self-check that failed", "draining", Without(2)).found_by(
        "ert:efrit-self-check-that-fails-is-in-the-heartbeat-and-nothing-is-claimed"
    ),
    Step("the self-check between a request and the next claim", "check-before-claim", Never()).found_by(
        "ert:efrit-self-check-comes-before-the-next-claim-once-a-request-has-ended"
    ),
    Step(
        "the function objects by which a self-check compares", "check-functions", Instead("(same 'string=)")
    ).found_by("ert:efrit-self-check-is-not-misled-by-redefinitions-of-what-compares"),
    Step(
        "the look of the self-check at what puts functions back, which it does without", "check-guard", Never()
    ).found_by("ert:efrit-self-check-finds-that-what-puts-things-back-was-replaced"),
    Step("the second failure before a self-check is reported to have failed", "check-failures", Value("1")).found_by(
        "ert:efrit-self-check-one-failure-holds-claims-and-two-are-reported"
    ),
    Step("the one thread at a time in which requests run", "one-thread", Instead("nil")).found_by(
        "ert:efrit-background-a-thread-that-a-request-waits-for-runs-no-other-request"
    ),
    Step("the tolerance of an Emacs that was busy when curl had ended", "curl-busy", Without(1, at=(0,))).found_by(
        "ert:efrit-curl-output-that-a-busy-emacs-has-not-read-comes-before-the-end"
    ),
    Step(
        "the look whether work was begun by hand, before it may ask the person attached", "ask-by-hand", Always()
    ).found_by("ert:efrit-do-a-command-of-somebody-else-asks-nobody-whoever-is-attached"),
    Step("the deafness to signals while a question is open", "ask-signal", Instead("minibuffer-setup-hook")).found_by(
        "ert:efrit-do-what-the-models-lisp-asks-is-answered-by-the-person-attached"
    ),
    Step(
        "the quit of a question that is an error for the model",
        "ask-quit",
        Instead("(signal-hook-function signal-hook-function)"),
    ).found_by("ert:efrit-do-a-question-that-is-quit-is-an-error-for-the-model"),
    Step("the refusal of a timer's question while work begun by hand may ask", "ask-timer", Instead("nil")).found_by(
        "ert:efrit-do-a-timer-of-anybody-asks-nothing-while-work-by-hand-may-ask"
    ),
    Step("the refusal of a question by what a request has left behind", "ask-left", Instead("nil")).found_by(
        "ert:efrit-do-what-a-request-has-left-behind-asks-nobody"
    ),
)
