"""The Emacs daemon of one instance: starting it when it is wanted, stopping it, making it listen.

Blocking. The queue decides what runs: whoever starts second finds the first one's Emacs and uses it. That of another
host is used, too, and never signalled.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

import efrit
from efrit.client.errors import NoEmacs, NotReady
from efrit.client.local.files import QueueFiles, storage_problem
from efrit.client.local.hosts import RemoteEmacs, place_of, remote_emacs
from efrit.client.local.limits import check_limits
from efrit.client.local.model import settings_in
from efrit.client.local.mounts import TAKEOVER_VARIABLE, Mount, mount_of, takeover_seconds
from efrit.client.local.process import Emacs, emacs_of
from efrit.client.local.settings import LocalInstance, data_directory
from efrit.queue.layout import Area
from efrit.queue.process_place import here

if TYPE_CHECKING:
    from efrit.client.local.start_lock import StartingEmacs

EMACS_VARIABLE = "EFRIT_EMACS"
LOG = "daemon.log"
STARTED_WITH = "daemon.json"
"""What the running Emacs was started with; nobody but clients of this machine reads it."""
_LOCK = "daemon.lock"
_PAUSE = "pause"
_OF_A_POD = ("EFRIT_BRIDGE", "EFRIT_GENERATION")
"""What run-emacs passes to an Emacs, and to whatever that starts, about the queue of their own pod."""
_LONGEST_LOG = 1 << 20
_POLL_SECONDS = 0.02

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
    import shutil

    program = os.environ.get(EMACS_VARIABLE) or "emacs"
    path = shutil.which(program)
    if path is None:
        raise NoEmacs(
            f"there is no {program!r} on this machine",
            f"install Emacs 28 or later (emacs-nox will do), or set {EMACS_VARIABLE} to its path",
        )
    return path


class Daemon(Struct, frozen=True):
    """The Emacs of one instance and its queue."""

    instance: LocalInstance
    files: QueueFiles

    def running(self) -> Emacs | None:
        """Return the Emacs of this host that serves the queue, if there is one."""
        if not self.instance.queue_dir.is_dir():
            return None
        heartbeat = self.files.heartbeat()
        server = heartbeat.get("server")
        # On another host the same number is another process.
        if isinstance(server, dict) and not here().same(place_of(server)):  # gate: foreign-pid
            return None
        return emacs_of(heartbeat)

    def remote_emacs(self) -> RemoteEmacs | None:
        """Return the Emacs of another host that wrote the last heartbeat, also if it is silent; None without one."""
        if not self.instance.queue_dir.is_dir():
            return None
        heartbeat = self.files.heartbeat()
        if not isinstance(heartbeat.get("server"), dict):
            return None
        mount = self.mount()
        return remote_emacs(
            heartbeat,
            self.files.heartbeat_age,
            takeover_seconds(mount, os.environ),
            remote=mount.remote,
            place=here(),
        )

    def mount(self) -> Mount:
        """Return the file system of the queue."""
        return mount_of(self.instance.queue_dir)

    def is_served(self) -> bool:
        """Return whether the queue is served, by an Emacs here or by one of another host."""
        if self.running() is not None:
            return True
        other = self.remote_emacs()
        return other is not None and other.serves

    def start(self, give_up: Callable[[], bool] | None = None, *, keep: bool = False) -> bool:
        """Start Emacs and wait until it serves; return False if one did already.

        Raises `NoEmacs`, `NotReady`; `Refused` for a limit in the environment that would have no effect;
        `StartAbandoned` once `give_up` returns True. Then, and at Ctrl-C, an Emacs that nobody else waits for is
        ended, unless `keep` is true.

        An Emacs of another host that has been silent for too long loses the queue to the new one.
        """
        check_limits(os.environ)
        program, lisp = emacs_program(), lisp_directory()
        if (refusal := self.mount().refusal) is not None:
            raise NotReady(refusal, "put queue_dir on a local disk, NFS or another file system of shared files")
        self.files.ensure_journal()
        from efrit.client.local.start_lock import WAITING, StartAbandoned, is_last, lock

        with (self.instance.queue_dir / WAITING).open("a+") as waiting:
            lock(waiting, fcntl.LOCK_SH, give_up)
            try:
                with self._alone(give_up) as contended:
                    return self._start_alone(program, lisp, give_up, contended)
            except (KeyboardInterrupt, StartAbandoned):
                if not keep and is_last(waiting):
                    self._end_starting()
                raise

    def _start_alone(
        self, program: str, lisp: Path, give_up: Callable[[], bool] | None, contended: bool | None
    ) -> bool:
        """Start Emacs, or wait for the one of a process that gave up while this one waited for it."""
        from efrit.client.local.start_lock import StartAbandoned, forget, signals_deferred, starting_emacs

        if self.is_served():
            return False
        directory = self.instance.queue_dir
        starting = None if contended is None else starting_emacs(directory)
        if starting is not None and not contended:
            # Whoever started it was killed.
            starting.end()
            starting = None
        self.files.disk.remove(Area.CONTROL, _PAUSE)
        try:
            try:
                # Ctrl-C comes when it is known which process Emacs is.
                with signals_deferred():
                    self.instance.workspace_dir.mkdir(parents=True, exist_ok=True)
                    if starting is None:
                        starting = self._spawn(program, lisp)
                    if contended is not None:
                        starting.record(directory)
            except OSError as error:
                if starting is not None:
                    starting.end()
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise storage_problem(directory, error) from error
                raise NotReady(
                    f"could not start {program}: {error}", "check the directories of the instance"
                ) from error
            try:
                self._await(starting, give_up)
            except NotReady:
                forget(directory)
                # It gives way where another host has taken the queue meanwhile.
                other = self.remote_emacs()
                if other is None or not other.serves:
                    raise
                return False
        except (KeyboardInterrupt, StartAbandoned):
            if contended is None and starting is not None:
                starting.end()
            raise
        forget(directory)
        return True

    def _end_starting(self) -> None:
        """End the Emacs that does not serve yet; one that has come up meanwhile is as good as any."""
        from efrit.client.local.start_lock import forget, starting_emacs

        starting = starting_emacs(self.instance.queue_dir)
        if starting is not None and not self._serves(starting):
            starting.end()
        forget(self.instance.queue_dir)

    def _serves(self, starting: StartingEmacs) -> bool:
        emacs = self.running()
        return emacs is not None and emacs.pid == starting.pid and not self._is_starting_up()

    @property
    def log(self) -> Path:
        """Where Emacs writes what it prints."""
        return self.instance.queue_dir / LOG

    def init_problem(self) -> str | None:
        """Return what went wrong with the user's init file when Emacs started; None where nothing did."""
        problem = self.files.heartbeat().get("init_problem")
        return problem if isinstance(problem, str) and problem else None

    def model_settings(self) -> dict[str, str] | None:
        """Return the settings of the model that the running Emacs was started with; None where that is not known."""
        try:
            settings = json.loads((self.instance.queue_dir / STARTED_WITH).read_text())["model"]
            return {str(name): str(value) for name, value in settings.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # Started by an earlier version, or changed by hand: then nothing is compared.
            return None

    def _spawn(self, program: str, lisp: Path) -> StartingEmacs:
        log = self.instance.queue_dir / LOG
        if log.exists() and log.stat().st_size > _LONGEST_LOG:
            log.unlink()
        log.touch(mode=0o600)
        # Before the start, so that a full disk is noticed while nothing runs yet.
        started_with = {"model": settings_in(os.environ)}
        (self.instance.queue_dir / STARTED_WITH).write_text(json.dumps(started_with) + "\n")
        command = [
            program,
            f"--fg-daemon={self.instance.daemon_name}",
            *([] if self.instance.init else ["-Q", "--eval", f"(progn {_OWN_DIRECTORY})"]),
            "--eval",
            _NO_COMPILER,
            "-L",
            str(lisp),
            "--eval",
            _SERVE,
        ]
        environment = {
            **{key: value for key, value in os.environ.items() if key not in _OF_A_POD},
            "EFRIT_QUEUE_DIR": str(self.instance.queue_dir.absolute()),
            "EFRIT_WORKSPACE": str(self.instance.workspace_dir.absolute()),
            "EFRIT_DAEMON_NAME": self.instance.daemon_name,
            "EFRIT_REQUEST_TIMEOUT": f"{self.instance.timeout:g}",
        }
        own_directory = data_directory() / "emacs"
        if not self.instance.init:
            own_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            environment["EFRIT_EMACS_DIRECTORY"] = str(own_directory)
            if "XDG_CONFIG_HOME" in environment:
                environment["EFRIT_XDG_CONFIG_HOME"] = environment["XDG_CONFIG_HOME"]
            environment["XDG_CONFIG_HOME"] = str(own_directory.parent)
        environment[TAKEOVER_VARIABLE] = f"{takeover_seconds(self.mount(), os.environ):g}"
        environment.setdefault("EFRIT_MAX_RESULT_BYTES", str(MAX_RESULT_BYTES))
        # Most evals find their Emacs running.
        import subprocess

        from efrit.client.local.start_lock import StartingEmacs

        # The shell ends at once: Emacs is nobody's child, and outlives who started it.
        completed = subprocess.run(
            ["/bin/sh", "-c", 'exec </dev/null 2>>"$0"; "$@" >&2 & echo $!', str(log), *command],
            env=environment,
            cwd=self.instance.workspace_dir,
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return StartingEmacs.of_pid(int(completed.stdout))

    def _await(self, starting: StartingEmacs, give_up: Callable[[], bool] | None) -> None:
        from efrit.client.local.start_lock import StartAbandoned

        seconds = INIT_SECONDS if self.instance.init else START_SECONDS
        limit = time.monotonic() + seconds
        while not self._serves(starting):
            if not _exists(starting.pid):
                raise NotReady(f"Emacs ended right after its start: {self._log_tail()}", self._log_hint())
            if time.monotonic() > limit:
                starting.end()
                raise NotReady(f"Emacs did not come up within {seconds:g} s", self._log_hint())
            if give_up is not None and give_up():
                raise StartAbandoned
            time.sleep(_POLL_SECONDS)

    def _is_starting_up(self) -> bool:
        """Return whether Emacs still makes sure that no other host has taken the queue."""
        server = self.files.heartbeat().get("server")
        return isinstance(server, dict) and server.get("state") == "starting"

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self.instance.queue_dir / LOG).read_text(errors="replace").split("\n")
            return next((line for line in reversed(lines) if line.strip()), "it said nothing")[:500]
        return "it said nothing"

    def _log_hint(self) -> str:
        return f"see {self.instance.queue_dir / LOG}, or run `efrit doctor`"

    def stop(self, grace_seconds: float) -> bool:
        """Let running requests end for `grace_seconds`, then stop Emacs; return False if none was running."""
        with self._alone():
            emacs = self.running()
            if emacs is None:
                return False
            (self.instance.queue_dir / Area.CONTROL / _PAUSE).touch(mode=0o600)
            try:
                limit = time.monotonic() + grace_seconds
                # It may have been between its look for the pause and its claim.
                time.sleep(0.1)
                while self.files.counts()[1] and emacs.alive and time.monotonic() < limit:
                    time.sleep(_POLL_SECONDS)
                self._end(emacs)
            finally:
                self.files.disk.remove(Area.CONTROL, _PAUSE)
        return True

    def _end(self, emacs: Emacs) -> None:
        for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            emacs.send(number)
            limit = time.monotonic() + seconds
            while emacs.alive and time.monotonic() < limit:
                time.sleep(_POLL_SECONDS)

    def signal_cancel_check(self) -> None:
        """Make a busy Emacs check whether the request it runs is to stop."""
        emacs = self.running()
        if emacs is not None:
            emacs.send(signal.SIGUSR2)

    def kill(self) -> None:
        """Kill an Emacs that does not respond; the next one answers the request it was running."""
        emacs = self.running()
        if emacs is not None:
            emacs.send(signal.SIGKILL)
            limit = time.monotonic() + 10
            while emacs.alive and time.monotonic() < limit:
                time.sleep(_POLL_SECONDS)

    @contextlib.contextmanager
    def _alone(self, give_up: Callable[[], bool] | None = None) -> Iterator[bool | None]:
        """Hold the lock; yield whether another process had it, None where there are no locks."""
        # Most evals find their Emacs running, and need no lock.
        from efrit.client.local.start_lock import lock

        with (self.instance.queue_dir / _LOCK).open("a+") as file:
            # A file server may have no locks. They only save a start in vain: Emacs takes the queue by a link.
            yield lock(file, fcntl.LOCK_EX, give_up)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
