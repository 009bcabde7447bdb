"""The Emacs daemon of one instance: whether it serves, and making it listen. `emacs_process` starts and ends it.

Blocking. The queue decides what runs: an Emacs of another host is used, too, and never signalled.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from msgspec import Struct

from efrit.backend.local.files import QueueFiles
from efrit.backend.local.hosts import RemoteEmacs, place_of, remote_emacs
from efrit.backend.local.mounts import Mount, mount_of, takeover_seconds
from efrit.backend.local.process import Emacs, emacs_of
from efrit.backend.local.settings import LocalInstance
from efrit.queue.process_place import here

LOG = "daemon.log"
STARTED_WITH = "daemon.json"
"""What the running Emacs was started with; nobody but clients of this machine reads it."""
_POLL_SECONDS = 0.02


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

    def signal_cancel_check(self) -> None:
        """Make a busy Emacs check whether the request it runs is to stop."""
        emacs = self.running()
        if emacs is not None:
            emacs.resume()
            emacs.send(signal.SIGUSR2)

    def kill(self) -> None:
        """Kill an Emacs that does not respond; the next one answers the request it was running."""
        emacs = self.running()
        if emacs is not None:
            emacs.send(signal.SIGKILL)
            limit = time.monotonic() + 10
            while emacs.alive and time.monotonic() < limit:
                time.sleep(_POLL_SECONDS)
