#!/bin/sh
# Runs the Emacs daemon of this instance and starts it again when it ends, however it ended: a request may
# call kill-emacs, and the bridge kills an Emacs that cannot be interrupted. Gives up, so that the kubelet
# backs off, when Emacs ends within 2 seconds of its start 5 times running without having begun a request: several
# requests that end Emacs may wait.
#
# On SIGTERM it first lets the running request end: Emacs claims nothing while its pause is there. What waits in a
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
# Emacs writes it again where this fails, and makes a file of what is none: to open a pipe would wait for a reader.
if [ -f "$queue/generation" ] || [ ! -e "$queue/generation" ]; then  # gate: generation-file
    (umask 077; echo "$EFRIT_GENERATION" > "$queue/generation") 2>/dev/null
fi
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
    # Emacs looks for the pause once more after it has moved a request there: what is there now is all that runs.
    if touch "$pause" 2>/dev/null; then
        until_empty "$queue/processing"
    fi
    kill -s TERM "$child" 2>/dev/null
}
trap stop TERM INT

# Waits for the child that was just started, and sets `status'.
wait_for_child() {
    # A signal may have come before it was known which child to hand it to.
    if [ -n "$stopping" ]; then stop; fi
    # `wait' also returns when a trap has run; the child is gone when it cannot be signalled any more.
    while :; do
        wait "$child"
        status=$?
        kill -s 0 "$child" 2>/dev/null || break
    done
    child=
}

# Code may have put something else in the place of either: a pipe would never end.
# Emacs appends a line for each request that it begins.
claimed() { [ -f "$queue/claims.log" ] && { wc -c < "$queue/claims.log"; } 2>/dev/null; }
# It writes this anew once it serves.
heartbeat() { [ -f "$queue/heartbeat" ] && head -c 65536 "$queue/heartbeat" 2>/dev/null; }

# With an init file the site's own setup is wanted too; Emacs loads the file once it serves.
quick=-Q
if [ -n "${EFRIT_INIT_FILE:-}" ]; then quick=; fi

# A daemon whose Lisp does not load would idle for ever: it ends instead, which the kubelet and the instance's
# status say.
# What is loaded stays: a garbage collector that looks through it at its usual threshold takes half of the start.
serve='(condition-case err (progn (let ((gc-cons-threshold 67108864)) (load "efrit-server" nil t)) (efrit-server-start))'
serve="$serve (error (message \"run-emacs: %s\" (error-message-string err)) (kill-emacs 70)))"

# Both names of one switch, old and new: compiling in the background would compete with the requests.
no_compiling='(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)'

# Libraries that are wanted at each start come from a dump if there is one that was made by this very Emacs of what is
# here now: its directory is named for both, and is complete when it has its name. The first of several makers wins.
libraries=${EFRIT_FAST_START_LIBRARIES:-}
dumps=${EFRIT_FAST_START_DIR:-}
preload=nil
if [ -n "$libraries" ]; then preload='(progn (load "efrit-fast-start" nil t) (efrit-fast-start-load))'; fi
dump_blocks=524288    # of 512 bytes: 256 MiB
dump_free_kib=524288  # what must be free before one is made
hexadecimal='[0-9a-f]{64}'
# Emacs starts from a copy of its own: others may replace or remove the dump while it has it mapped.
copy=${TMPDIR:-/tmp}/efrit-${EFRIT_DAEMON_NAME:-efrit}.pdmp

digest() { sha256sum | { read -r sum _ && echo "$sum"; }; }

# Runs a command with those variables alone that decide what a library is and what it keeps: a dump holds the
# environment of its maker, which may have secrets.
in_plain_environment() {
    for variable in HOME PATH TMPDIR LANG LC_ALL LC_CTYPE USER LOGNAME LD_LIBRARY_PATH EMACSLOADPATH EMACSDATA EMACSPATH \
        XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR; do
        eval "value=\${$variable:-}"
        if [ -n "$value" ]; then set -- "$variable=$value" "$@"; fi
    done
    exec env -i "$@"  # gate: dump-environment
}

dump_key() {
    program=$(sha256sum < "$(command -v emacs)") && code=$(sha256sum < "$lisp/efrit-fast-start.el") || return
    echo "$program $code $quick $libraries $(in_plain_environment env | sort)" | digest
}

# Digest of the files that the dump in a directory was made of, and of the names of libraries beside them, as they are
# now: one that was added may be loaded in the place of another.
contents() {
    {
        tr '\n' '\0' < "$1/files" | xargs -0 -r sha256sum
        tr '\n' '\0' < "$1/directories" | xargs -0 -r env LC_ALL=C ls -1 | grep -E '/|\.(elc?(\.gz)?|so)$'
    } 2>/dev/null | digest
}

fits() { [ "$key-$(contents "$dumps/$1")" = "$1" ]; }
discard() { mv "$dumps/$1" "$dumps/making-$maker-$$" 2>/dev/null; rm -rf "$dumps/making-$maker-$$"; }
newest_first() {
    # shellcheck disable=SC2012
    ls -t "$dumps" | grep -xE "$1-$hexadecimal"
}

# Sets `dump' to a copy of one that fits and is whole, or to nothing. Fails where one must be made.
take_dump() {
    dump=''
    if [ -z "$key" ]; then return; fi
    for name in $(newest_first "$key"); do
        if [ -e "$dumps/failed-$name" ]; then continue; fi  # gate: dump-failed
        if ! fits "$name"; then continue; fi  # gate: dump-fits
        rm -rf "$copy"
        if ! cp "$dumps/$name/emacs.pdmp" "$copy"; then
            say "the dump $name cannot be copied to $copy: the libraries are loaded"
            return
        fi
        if [ "$(digest < "$copy")" = "$(cat "$dumps/$name/sum" 2>/dev/null)" ]; then  # gate: dump-verified
            dump=$copy
            touch "$dumps/$name" 2>/dev/null
            return
        fi
        say "the dump $name is damaged"
        discard "$name"
    done
    return 1
}

make_dump() {
    making=$dumps/making-$key-$maker
    if ! mkdir "$making"; then
        say "no dump can be made in $dumps: the libraries are loaded"
        return
    fi
    (
        ulimit -f "$dump_blocks"
        # shellcheck disable=SC2086
        in_plain_environment EFRIT_FAST_START_LIBRARIES="$libraries" timeout 300 emacs --batch $quick --eval "$no_compiling" \
            -L "$lisp" -l efrit-fast-start --eval "(efrit-fast-start-dump \"$making\")" >/dev/null
    ) &
    child=$! dumping=1
    wait_for_child
    dumping=
    if [ "$status" = 0 ] && publish; then
        say "made the dump $name"
        # The two newest stay: of this revision, and of the one before.
        newest_first "$hexadecimal" | grep -vx "$name" | tail -n +2 |
            while IFS= read -r old; do rm -rf "${dumps:?}/$old"; done
    elif [ -z "$stopping" ]; then
        say "no dump could be made (status $status): the libraries are loaded at each start; tried again in a day"
        touch "$dumps/failed-$key"
    fi
    rm -rf "$making"
}

# Gives what was made its name, in one step. Another one's that is there already is as good, if it is one.
publish() {
    name=$key-$(contents "$making")
    digest < "$making/emacs.pdmp" > "$making/sum" || return
    if mv -T "$making" "$dumps/$name" 2>/dev/null || fits "$name"; then return; fi
    discard "$name"
    mv -T "$making" "$dumps/$name"
}

# Sets `dump' to one that was there or was made now, or to nothing.
find_dump() {
    dump='' key=''
    if [ -z "$libraries" ] || [ -z "$dumps" ]; then return; fi
    if ! mkdir -p "$dumps" || ! key=$(dump_key) || [ "${#key}" != 64 ]; then
        say "no dump can be used in $dumps: the libraries are loaded"
        key=
        return
    fi
    # One name for each instance: what is left there was left by a maker that was killed.
    maker=$(echo "${EFRIT_INSTANCE_ID:-}" | sha256sum | cut -c 1-16)
    find "$dumps" -maxdepth 1 \( -name 'making-*' -mmin +60 -o -name 'failed-*' -mmin +1440 \) -exec rm -rf {} +
    if take_dump; then return; fi
    if [ -e "$dumps/making-$key-$maker" ]; then  # gate: dump-killed
        say "the last attempt to make a dump was killed: the libraries are loaded at each start; tried again in a day"
        touch "$dumps/failed-$key"
        rm -rf "$dumps/making-$key-$maker"
    fi
    # shellcheck disable=SC2010
    if ls "$dumps" | grep -q "^failed-$key"; then return; fi
    free=$(df -Pk "$dumps" | awk 'NR == 2 { print $4 }')
    if [ "${free:-0}" -lt "$dump_free_kib" ]; then
        say "no dump is made: $dumps has less than $((dump_free_kib / 1024)) MiB free"
        return
    fi
    make_dump
    take_dump
}

cd -- "${EFRIT_WORKSPACE:-.}" || exit 1
find_dump
if [ -n "$dump" ]; then say "Emacs starts from the dump $name"; fi
short=0
first=1
while [ -z "$stopping" ]; do
    rm -rf "$queue/control/pause" "$queue"/control/pause_*
    # The first start has it from find_dump; another member may have removed it since.
    if [ -z "$first" ] && [ -n "$dump" ]; then take_dump; fi
    first=
    started=$(date +%s)
    before=$(claimed)
    beat=$(heartbeat)
    # shellcheck disable=SC2086
    emacs --fg-daemon="${EFRIT_DAEMON_NAME:-efrit}" ${dump:+"--dump-file=$dump"} $quick --eval "$no_compiling" \
        -L "$lisp" ${libraries:+--eval "$preload"} --eval "$serve" &
    child=$!
    wait_for_child
    if [ -n "$stopping" ]; then break; fi
    say "Emacs ended with status $status"
    if [ "$(claimed)" != "$before" ]; then  # gate: short-run
        short=0
        continue
    fi
    took=$(($(date +%s) - started))
    if [ "$took" -le 2 ]; then short=$((short + 1)); else short=0; fi
    # Right after its start, or later without having served: it may be for what the dump holds.
    if [ -n "$dump" ] && { [ "$took" -le 2 ] || [ "$(heartbeat)" = "$beat" ]; }; then  # gate: dump-abandoned
        say "its start from the dump $name has failed: it starts without one"
        touch "$dumps/failed-$name" 2>/dev/null
        dump=
    fi
    if [ "$short" -ge 5 ]; then
        say "Emacs ended $short times right after its start: giving up"
        exit 1
    fi
done
exit 0
