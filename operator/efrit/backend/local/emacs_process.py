"""Starting the Emacs of an instance and ending it. An `efrit eval` that finds it running imports nothing of this.

Blocking. Whoever starts second finds the first one's Emacs and uses it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import efrit
from efrit.backend.errors import NoEmacs, NotReady, check_encoding
from efrit.backend.local.daemon import LOG, STARTED_WITH, Daemon
from efrit.backend.local.files import storage_problem
from efrit.backend.local.heartbeat import check_heartbeat, heartbeat_problem, heartbeat_remedy
from efrit.backend.local.limits import check_limits
from efrit.backend.local.model import settings_in
from efrit.backend.local.mounts import TAKEOVER_VARIABLE, takeover_seconds
from efrit.backend.local.process import Emacs
from efrit.backend.local.settings import data_directory
from efrit.backend.local.start_lock import (
    WAITING,
    QueueRemoved,
    StartAbandoned,
    StartingEmacs,
    alone,
    forget,
    is_last,
    lock,
    open_in,
    signals_deferred,
    starting_emacs,
)
from efrit.queue.layout import Area

EMACS_VARIABLE = "EFRIT_EMACS"
_PAUSE = "pause"
_OF_A_POD = ("EFRIT_BRIDGE", "EFRIT_GENERATION")
"""What run-emacs passes to an Emacs, and to whatever that starts, about the queue of their own pod."""
_LONGEST_LOG = 1 << 20
_POLL_SECONDS = 0.02
_PATH_TOO_LONG = "Service name too long"
"""What Emacs says of the path of a socket that has more than about 107 bytes."""

MAX_RESULT_BYTES = 8 << 20
"""The longest result Emacs keeps unless EFRIT_MAX_RESULT_BYTES is set; printing a list this long takes seconds."""

START_SECONDS = 60.0
"""How long Emacs may take until it serves."""

INIT_SECONDS = 300.0
"""The same with the user's init file, which may install packages."""

# As run-emacs has it: what does not load ends, which whoever starts it notices.
_SERVE = (
    "(condition-case err (progn "
    # Emacs itself looks only after all this, when work may have begun, and ends then.
    "(require 'server) (when (server-running-p (daemonp)) "
    '(error "the daemon name %s belongs to another Emacs" (daemonp)))'
    # What is loaded stays: a collector that looks through it at its usual threshold takes half of the start.
    '(let ((gc-cons-threshold 67108864)) (load "efrit-server" nil t)) (efrit-server-start)) '
    '(error (message "efrit: %s" (error-message-string err)) (kill-emacs 70)))'
)
# An Emacs that is not the user's own must not leave ~/.emacs.d behind, which would hide an init file under ~/.config.
# It makes its directory before it reads its arguments: only the environment can name another place in time.
_OWN_DIRECTORY = (
    '(setq user-emacs-directory (file-name-as-directory (getenv "EFRIT_EMACS_DIRECTORY")) '
    "auto-save-list-file-prefix nil auto-save-list-file-name nil)"
    '(setenv "XDG_CONFIG_HOME" (getenv "EFRIT_XDG_CONFIG_HOME")) '
    '(setenv "EFRIT_XDG_CONFIG_HOME") (setq initial-environment (copy-sequence process-environment))'
)
_NO_COMPILER = "(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)"


def lisp_directory() -> Path:
    """Return the directory of the Lisp files: in the installed package, or in the repository this runs from."""
    package = Path(efrit.__file__).parent
    for place in (package / "lisp", package.parents[1] / "images/emacs/lisp"):
        if (place / "efrit-server.el").is_file():
            return place
    raise NoEmacs(f"the Emacs Lisp is missing beside {package}", "install efrit-operator again")


def emacs_program() -> str:
    """Return the path of Emacs. Raises `NoEmacs`."""
    program = os.environ.get(EMACS_VARIABLE) or "emacs"
    path = shutil.which(program)
    if path is None:
        raise NoEmacs(
            f"there is no {program!r} on this machine",
            f"install Emacs 28 or later (emacs-nox will do), or set {EMACS_VARIABLE} to its path",
        )
    return path


def start(daemon: Daemon, give_up: Callable[[], bool] | None = None, *, keep: bool = False) -> bool:
    """Start Emacs and wait until it serves; return False if one did already.

    Raises `NoEmacs`, `NotReady`; `Refused` for a limit in the environment that would have no effect, or a directory
    whose name is not UTF-8;
    `StartAbandoned` once `give_up` returns True. Then, and at Ctrl-C, an Emacs that nobody else waits for is
    ended, unless `keep` is true.

    An Emacs of another host that has been silent for too long loses the queue to the new one.
    """
    check_limits(os.environ)
    for directory in (daemon.instance.queue_dir, daemon.instance.workspace_dir):
        check_encoding(str(directory))
    program, lisp = emacs_program(), lisp_directory()
    if (refusal := daemon.mount().refusal) is not None:
        raise NotReady(refusal, "put queue_dir on a local disk, NFS or another file system of shared files")
    while True:
        daemon.files.ensure_journal()
        try:
            return _start_in_turn(daemon, program, lisp, give_up, keep=keep)
        except QueueRemoved:
            # `efrit rm` was faster: it is made anew.
            daemon.files.close()


def _start_in_turn(
    daemon: Daemon, program: str, lisp: Path, give_up: Callable[[], bool] | None, *, keep: bool
) -> bool:
    """Start Emacs once no other process does. Raises `QueueRemoved`."""
    with open_in(daemon.instance.queue_dir, WAITING) as waiting:
        lock(waiting, fcntl.LOCK_SH, give_up)
        try:
            with alone(daemon.instance.queue_dir, give_up) as contended:
                return _start_alone(daemon, program, lisp, give_up, contended)
        except (KeyboardInterrupt, StartAbandoned):
            if not keep and is_last(waiting):
                _end_starting(daemon)
            raise


def _start_alone(
    daemon: Daemon, program: str, lisp: Path, give_up: Callable[[], bool] | None, contended: bool | None
) -> bool:
    """Start Emacs, or wait for the one of a process that gave up while this one waited for it."""
    if daemon.is_served():
        return False
    directory = daemon.instance.queue_dir
    starting = None if contended is None else starting_emacs(directory)
    if starting is not None and not contended:
        # Whoever started it was killed.
        starting.end()
        starting = None
    daemon.files.disk.remove(Area.CONTROL, _PAUSE)
    try:
        try:
            # Ctrl-C comes when it is known which process Emacs is.
            with signals_deferred():
                daemon.instance.workspace_dir.mkdir(parents=True, exist_ok=True)
                if starting is None:
                    starting = _spawn(daemon, program, lisp)
                if contended is not None:
                    starting.record(directory)
        except OSError as error:
            if starting is not None:
                starting.end()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise storage_problem(directory, error) from error
            raise NotReady(f"could not start {program}: {error}", "check the directories of the instance") from error
        try:
            _await(daemon, starting, give_up)
        except NotReady as error:
            forget(directory)
            # It gives way where another host has taken the queue meanwhile.
            other = daemon.remote_emacs()
            if other is not None and other.serves:
                return False
            if (problem := heartbeat_problem(daemon)) is None:
                raise
            raise NotReady(
                f"{problem}; perhaps an Emacs serves the queue already. Another one: {error.message}",
                heartbeat_remedy(daemon),
            ) from error
    except (KeyboardInterrupt, StartAbandoned):
        if contended is None and starting is not None:
            starting.end()
        raise
    forget(directory)
    return True


def _end_starting(daemon: Daemon) -> None:
    """End the Emacs that does not serve yet; one that has come up meanwhile is as good as any."""
    starting = starting_emacs(daemon.instance.queue_dir)
    if starting is not None and not _serves(daemon, starting):
        starting.end()
    forget(daemon.instance.queue_dir)


def _serves(daemon: Daemon, starting: StartingEmacs) -> bool:
    emacs = daemon.running()
    return emacs is not None and starting.includes(emacs.pid) and not _is_starting_up(daemon)


def stop(daemon: Daemon, grace_seconds: float) -> bool:
    """Let running requests end for `grace_seconds`, then stop Emacs; return False if none was running."""
    try:
        with alone(daemon.instance.queue_dir):
            return _stop_alone(daemon, grace_seconds)
    except QueueRemoved:
        return False


def _stop_alone(daemon: Daemon, grace_seconds: float) -> bool:
    emacs = daemon.running()
    if emacs is None:
        check_heartbeat(daemon)
        return False
    (daemon.instance.queue_dir / Area.CONTROL / _PAUSE).touch(mode=0o600)
    # What runs could not end otherwise, and Emacs itself only by SIGKILL.
    emacs.resume()
    try:
        limit = time.monotonic() + grace_seconds
        # It may have been between its look for the pause and its claim.
        time.sleep(0.1)
        while daemon.files.counts()[1] and emacs.alive and time.monotonic() < limit:
            time.sleep(_POLL_SECONDS)
        _end(emacs)
    finally:
        daemon.files.disk.remove(Area.CONTROL, _PAUSE)
    return True


def _end(emacs: Emacs) -> None:
    for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        emacs.send(number)
        limit = time.monotonic() + seconds
        while emacs.alive and time.monotonic() < limit:
            time.sleep(_POLL_SECONDS)


def _spawn(daemon: Daemon, program: str, lisp: Path) -> StartingEmacs:
    log = daemon.instance.queue_dir / LOG
    if log.exists() and log.stat().st_size > _LONGEST_LOG:
        log.unlink()
    log.touch(mode=0o600)
    log_begins = log.stat().st_size
    # Before the start, so that a full disk is noticed while nothing runs yet.
    started_with = {"model": settings_in(os.environ)}
    (daemon.instance.queue_dir / STARTED_WITH).write_text(json.dumps(started_with) + "\n")
    command = [
        program,
        f"--fg-daemon={daemon.instance.daemon_name}",
        *([] if daemon.instance.init else ["-Q", "--eval", f"(progn {_OWN_DIRECTORY})"]),
        "--eval",
        _NO_COMPILER,
        "-L",
        str(lisp),
        "--eval",
        _SERVE,
    ]
    if not daemon.instance.init:
        _own_directory().mkdir(parents=True, exist_ok=True, mode=0o700)
    # The shell ends at once: Emacs is nobody's child, and outlives who started it.
    completed = subprocess.run(
        ["/bin/sh", "-c", 'exec </dev/null 2>>"$0"; "$@" >&2 & echo $!', str(log), *command],
        env=environment_of(daemon, os.environ),
        cwd=daemon.instance.workspace_dir,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return StartingEmacs.of_pid(int(completed.stdout), log_begins)


def _own_directory() -> Path:
    """Return where an Emacs without the user's init file keeps its own files."""
    return data_directory() / "emacs"


def environment_of(daemon: Daemon, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the Emacs of an instance that is started in the environment `outer`."""
    environment = {
        **{key: value for key, value in outer.items() if key not in _OF_A_POD},
        "EFRIT_QUEUE_DIR": str(daemon.instance.queue_dir.absolute()),
        "EFRIT_WORKSPACE": str(daemon.instance.workspace_dir.absolute()),
        "EFRIT_DAEMON_NAME": daemon.instance.daemon_name,
        "EFRIT_REQUEST_TIMEOUT": f"{daemon.instance.timeout:g}",
    }
    if not daemon.instance.init:
        own_directory = _own_directory()
        environment["EFRIT_EMACS_DIRECTORY"] = str(own_directory)
        if "XDG_CONFIG_HOME" in environment:
            environment["EFRIT_XDG_CONFIG_HOME"] = environment["XDG_CONFIG_HOME"]
        environment["XDG_CONFIG_HOME"] = str(own_directory.parent)
    environment[TAKEOVER_VARIABLE] = f"{takeover_seconds(daemon.mount(), outer):g}"
    # A variable that is set and empty is as one that is not set.
    environment["EFRIT_MAX_RESULT_BYTES"] = environment.get("EFRIT_MAX_RESULT_BYTES") or str(MAX_RESULT_BYTES)
    return environment


def _await(daemon: Daemon, starting: StartingEmacs, give_up: Callable[[], bool] | None) -> None:
    seconds = INIT_SECONDS if daemon.instance.init else START_SECONDS
    limit = time.monotonic() + seconds
    while not _serves(daemon, starting):
        if not starting.exists:
            raise _ended_early(daemon, starting)
        if time.monotonic() > limit:
            starting.end()
            raise NotReady(f"Emacs did not come up within {seconds:g} s", _log_hint(daemon))
        if give_up is not None and give_up():
            raise StartAbandoned
        time.sleep(_POLL_SECONDS)


def _is_starting_up(daemon: Daemon) -> bool:
    """Return whether Emacs still makes sure that no other host has taken the queue."""
    server = daemon.files.heartbeat().get("server")
    return isinstance(server, dict) and server.get("state") == "starting"


def _ended_early(daemon: Daemon, starting: StartingEmacs) -> NotReady:
    problem = _log_tail(daemon, starting.log_begins)
    if _PATH_TOO_LONG in problem:
        return NotReady(
            "the path of Emacs' socket is too long",
            "have its directory shorter (XDG_RUNTIME_DIR, or else TMPDIR), or the name of the daemon: "
            f"efrit start {daemon.instance.id} --daemon-name NAME",
        )
    return NotReady(f"Emacs ended right after its start: {problem}", _log_hint(daemon))


def _log_tail(daemon: Daemon, begins: int) -> str:
    """Return the last line that Emacs wrote into its log behind `begins`: before that, another one wrote."""
    with contextlib.suppress(OSError):
        lines = (daemon.instance.queue_dir / LOG).read_bytes()[begins:].decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")[:500]
    return "it said nothing"


def _log_hint(daemon: Daemon) -> str:
    return f"see {daemon.instance.queue_dir / LOG}, or run `efrit doctor`"
