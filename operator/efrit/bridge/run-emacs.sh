#!/bin/sh
# Runs the Emacs daemon of this instance and starts it again when it ends, however it ended: a request may
# call kill-emacs, and the bridge kills an Emacs that cannot be interrupted. Gives up, so that the kubelet
# backs off, when Emacs ends within 2 seconds of its start 5 times running without having begun a request: several
# requests that end Emacs may wait.
#
# Told to stop, it first lets the running request end: Emacs claims nothing while its pause is there. What waits in a
# queue that goes with its pod is begun before that. Whoever stops the pod bounds the wait by its grace period.
#
# A pod that was deleted by force ends beside the one that takes its place: every run has a number of its own, by
# which its Emacs knows whether the queue and a pause are meant for it.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
lisp=$here/lisp
export EFRIT_BRIDGE=1

queue=${EFRIT_QUEUE_DIR:-${XDG_STATE_HOME:-${HOME:-}/.local/state}/efrit/instances/default/queue}

newest=
if [ -f "$queue/generation" ]; then IFS= read -r newest < "$queue/generation"; fi 2>/dev/null
case $newest in '' | 0* | *[!0-9]* | ??????????*) newest=0 ;; esac
export EFRIT_GENERATION=$((newest + 1))
# Emacs writes it again where this fails.
(umask 077; echo "$EFRIT_GENERATION" > "$queue/generation") 2>/dev/null
pause=$queue/control/pause_$EFRIT_GENERATION  # gate: pause-of-run

child=
stopping=
stop() {
    stopping=1
    if [ -z "$child" ]; then return; fi
    if [ -n "${EFRIT_EPHEMERAL_QUEUE:-}" ]; then  # gate: ephemeral-begun
        while [ -n "$(ls -A "$queue/requests" 2>/dev/null)" ] && kill -s 0 "$child" 2>/dev/null; do
            sleep 0.1
        done
    fi
    if touch "$pause" 2>/dev/null; then
        # Emacs may have been between its look for the pause and its claim.
        sleep 0.1
        while [ -n "$(ls -A "$queue/processing" 2>/dev/null)" ] && kill -s 0 "$child" 2>/dev/null; do
            sleep 0.1
        done
    fi
    kill -s TERM "$child" 2>/dev/null
}
trap stop TERM INT

# Emacs appends a line for each request that it begins.
claimed() { { wc -c < "$queue/claims.log"; } 2>/dev/null; }

# With an init file the site's own setup is wanted too; Emacs loads the file once it serves.
quick=-Q
if [ -n "${EFRIT_INIT_FILE:-}" ]; then quick=; fi

# A daemon whose Lisp does not load would idle for ever: it ends instead, which the kubelet and the instance's
# status tell.
# What is loaded stays: a garbage collector that looks through it at its usual threshold takes half of the start.
serve='(condition-case err (progn (let ((gc-cons-threshold 67108864)) (load "efrit-server" nil t)) (efrit-server-start))'
serve="$serve (error (message \"run-emacs: %s\" (error-message-string err)) (kill-emacs 70)))"

cd -- "${EFRIT_WORKSPACE:-.}" || exit 1
short=0
while [ -z "$stopping" ]; do
    rm -f "$queue/control/pause" "$queue"/control/pause_*
    started=$(date +%s)
    before=$(claimed)
    # Both names of one switch, old and new: compiling in the background would compete with the requests.
    # shellcheck disable=SC2086
    emacs --fg-daemon="${EFRIT_DAEMON_NAME:-efrit}" $quick \
        --eval '(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)' \
        -L "$lisp" --eval "$serve" &
    child=$!
    # A signal may have come before there was a child to hand it to.
    if [ -n "$stopping" ]; then kill -s TERM "$child" 2>/dev/null; fi
    # `wait' also returns when a trap has run; the child is gone when it cannot be signalled any more.
    while :; do
        wait "$child"
        status=$?
        kill -s 0 "$child" 2>/dev/null || break
    done
    child=
    if [ -n "$stopping" ]; then break; fi
    if [ $(($(date +%s) - started)) -le 2 ] && [ "$(claimed)" = "$before" ]; then  # gate: short-run
        short=$((short + 1))
    else
        short=0
    fi
    echo "run-emacs: Emacs ended with status $status" >&2
    if [ "$short" -ge 5 ]; then
        echo "run-emacs: Emacs ended $short times right after its start: giving up" >&2
        exit 1
    fi
done
exit 0
