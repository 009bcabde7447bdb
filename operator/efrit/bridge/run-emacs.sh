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

say() { echo "run-emacs: $*" >&2; }

child=
stopping=
dumping=
# Waits until a directory is empty, or Emacs has ended.
until_empty() {
    while [ -n "$(ls -A "$1" 2>/dev/null)" ] && kill -s 0 "$child" 2>/dev/null; do
        sleep 0.1
    done
}
stop() {
    stopping=1
    if [ -z "$child" ]; then return; fi
    if [ -n "$dumping" ]; then kill -s TERM "$child" 2>/dev/null; return; fi
    if [ -n "${EFRIT_EPHEMERAL_QUEUE:-}" ]; then  # gate: ephemeral-begun
        until_empty "$queue/requests"
    fi
    if touch "$pause" 2>/dev/null; then
        # Emacs may have been between its look for the pause and its claim.
        sleep 0.1
        until_empty "$queue/processing"
    fi
    kill -s TERM "$child" 2>/dev/null
}
trap stop TERM INT

# Waits for the child that was just started, and sets `status'.
wait_for_child() {
    # A signal may have come before there was a child to hand it to.
    if [ -n "$stopping" ]; then kill -s TERM "$child" 2>/dev/null; fi
    # `wait' also returns when a trap has run; the child is gone when it cannot be signalled any more.
    while :; do
        wait "$child"
        status=$?
        kill -s 0 "$child" 2>/dev/null || break
    done
    child=
}

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

# Both names of one switch, old and new: compiling in the background would compete with the requests.
no_compiling='(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)'

# Libraries that are wanted at each start come from a dump if there is one that was made by this very Emacs of the
# files that are here now. Its directory is complete when it has its name: the first of several makers wins.
libraries=${EFRIT_FAST_START_LIBRARIES:-}
dumps=${EFRIT_FAST_START_DIR:-}
preload=nil
if [ -n "$libraries" ]; then preload='(progn (load "efrit-fast-start" nil t) (efrit-fast-start-load))'; fi
dump_blocks=524288    # of 512 bytes: 256 MiB
dump_free_kib=524288  # what must be free before one is made

dump_key() {
    program=$(sha256sum < "$(command -v emacs)") && code=$(sha256sum < "$lisp/efrit-fast-start.el") || return
    echo "$program $code $quick $libraries" | sha256sum | cut -c 1-64
}
dump_fits() { (cd "$dumps/$key" && sha256sum --status -c sums) 2>/dev/null; }
discard_dump() { mv "$dumps/$key" "$dumps/making-$key-$EFRIT_GENERATION-$$" 2>/dev/null; rm -rf "$dumps/making-$key-$EFRIT_GENERATION-$$"; }

make_dump() {
    making=$dumps/making-$key-$(date +%s)-$(cat /proc/sys/kernel/random/uuid 2>/dev/null || echo $$)
    (
        mkdir "$making" || exit
        ulimit -f "$dump_blocks"
        # shellcheck disable=SC2086
        timeout 300 emacs --batch $quick --eval "$no_compiling" -L "$lisp" -l efrit-fast-start \
            --eval "(efrit-fast-start-dump \"$making\")" >/dev/null || exit
        cd "$making" && { echo emacs.pdmp; cat files; } | tr '\n' '\0' | xargs -0 sha256sum > sums
    ) &
    child=$! dumping=1
    wait_for_child
    dumping=
    if [ "$status" = 0 ]; then
        # Another one's that is there already is as good: a directory that is not empty is not replaced.
        mv -T "$making" "$dumps/$key" 2>/dev/null
    elif [ -z "$stopping" ]; then
        say "no dump could be made (status $status): the libraries are loaded at each start; tried again in a day"
        touch "$dumps/failed-$key"
    fi
    rm -rf "$making"
}

# Sets `dump' to one that is there, made now if need be, or to nothing; `verified' where its digests were just compared.
find_dump() {
    dump='' verified=''
    if [ -z "$libraries" ] || [ -z "$dumps" ]; then return; fi
    if ! mkdir -p "$dumps" || ! key=$(dump_key) || [ "${#key}" != 64 ]; then
        say "no dump can be used in $dumps: the libraries are loaded"
        return
    fi
    find "$dumps" -maxdepth 1 \( -name 'making-*' -mmin +60 -o -name 'failed-*' -mmin +1440 \) -exec rm -rf {} +
    if [ -e "$dumps/failed-$key" ]; then return; fi
    if [ -e "$dumps/$key" ]; then
        if dump_fits; then
            verified=1
        else
            say "the dump $key is damaged, or its libraries have changed: it is made anew"
            discard_dump
        fi
    fi
    if [ ! -e "$dumps/$key" ]; then
        free=$(df -Pk "$dumps" | awk 'NR == 2 { print $4 }')
        if [ "${free:-0}" -lt "$dump_free_kib" ]; then
            say "no dump is made: $dumps has less than $((dump_free_kib / 1024)) MiB free"
            return
        fi
        make_dump
        # The two newest stay: of this revision, and of the one before.
        # shellcheck disable=SC2012
        ls -t "$dumps" | grep -xE '[0-9a-f]{64}' | grep -vx "$key" | tail -n +2 |
            while IFS= read -r old; do rm -rf "${dumps:?}/$old"; done
    fi
    dump=$dumps/$key/emacs.pdmp
}

cd -- "${EFRIT_WORKSPACE:-.}" || exit 1
find_dump
short=0
while [ -z "$stopping" ]; do
    rm -f "$queue/control/pause" "$queue"/control/pause_*
    # Another member may have removed or replaced it since the last start.
    if [ -n "$dump" ] && [ -z "$verified" ] && ! dump_fits; then dump=; fi  # gate: dump-verified
    verified=
    started=$(date +%s)
    before=$(claimed)
    # shellcheck disable=SC2086
    emacs --fg-daemon="${EFRIT_DAEMON_NAME:-efrit}" ${dump:+"--dump-file=$dump"} $quick --eval "$no_compiling" \
        -L "$lisp" ${libraries:+--eval "$preload"} --eval "$serve" &
    child=$!
    wait_for_child
    if [ -n "$stopping" ]; then break; fi
    if [ $(($(date +%s) - started)) -le 2 ] && [ "$(claimed)" = "$before" ]; then  # gate: short-run
        short=$((short + 1))
        if [ -n "$dump" ]; then  # gate: dump-abandoned
            say "Emacs ended with status $status right after its start from the dump $key: it starts without one"
            # One that was damaged meanwhile is made anew by the next that looks for it.
            if dump_fits; then touch "$dumps/failed-$key" 2>/dev/null; fi
            dump=
        fi
    else
        short=0
    fi
    say "Emacs ended with status $status"
    if [ "$short" -ge 5 ]; then
        say "Emacs ended $short times right after its start: giving up"
        exit 1
    fi
done
exit 0
