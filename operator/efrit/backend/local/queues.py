"""The queues of this machine without an event loop: choose an instance, start its Emacs, store work, read its state.

`LocalBackend` puts the interface of all backends on it. `efrit eval` uses it as it is: an answer is usually there
before asyncio would be imported. An answer is archived only after it was handed over: with the next work, or at
`close`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from efrit.backend.errors import InstanceNotFound, NoInstance, NotReady, Refused, RequestNotFound
from efrit.backend.interface import ANY_INSTANCE, Handle, Instance, RequestState, Work
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.files import QueueFiles
from efrit.backend.local.instances import instance_of
from efrit.backend.local.poll_interval import PollInterval
from efrit.backend.local.request_file import check, id_of, request_for
from efrit.backend.local.settings import (
    LocalInstance,
    LocalSettings,
    config_path,
    legacy_home,
    load,
    load_named,
)
from efrit.backend.placement import default_instance, least_loaded
from efrit.entry_point import load_entry_point
from efrit.protocol.ids import is_request_id

ARCHIVE_SECONDS = 86400.0


class WaitInterrupted(Exception):  # noqa: N818 - it is what happened
    """Ctrl-C, while `LocalQueues.run` waited for `handle`."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle.id)
        self.handle = handle


class LocalQueues:
    """The instances of one configuration with their queues."""

    def __init__(self, settings: LocalSettings, notify: Callable[[str], None] = lambda text: None) -> None:
        """Take `settings`; `notify` is called with messages for the user that no response contains."""
        self.settings = settings
        self.notify = notify
        self._daemons: dict[str, Daemon] = {}
        self._handed_over: dict[str, QueueFiles] = {}

    @classmethod
    def configured(cls, path: Path | None = None, notify: Callable[[str], None] = lambda text: None) -> LocalQueues:
        """Return those with the settings in `path`, or in the usual file. Raises `WrongSettings`."""
        settings = load_named(path) if path else load(config_path(os.environ))
        if legacy_home().is_dir():
            settings, notices = load_entry_point("efrit.backend.local.legacy:migrate")(settings)
            for text in notices:
                notify(text)
        return cls(settings, notify)

    def close(self, *, handed_over: bool = True) -> None:
        """Archive the responses that were handed over, and clean up where that is due."""
        try:
            if handed_over:
                self._archive()
        finally:
            for daemon in self._daemons.values():
                self.sweep(daemon)
                daemon.files.close()
            self._daemons.clear()

    def sweep(self, daemon: Daemon) -> None:
        """Clean up the queue of an instance where that is due."""
        if daemon.instance.queue_dir.is_dir():
            daemon.files.sweep_if_due(self.settings.cleanup_interval, ARCHIVE_SECONDS)

    def _archive(self) -> None:
        while self._handed_over:
            rid, files = self._handed_over.popitem()
            files.acknowledge(rid)

    # Instances

    def daemon(self, name: str) -> Daemon:
        """Return the daemon of an instance. Raises `InstanceNotFound`."""
        daemon = self._daemons.get(name)
        return daemon if daemon is not None else self.add_instance(self.settings.instance(name))

    def add_instance(self, instance: LocalInstance) -> Daemon:
        """Take the instance as it is described here; return its daemon."""
        self.forget(instance.id)
        daemon = self._daemons[instance.id] = Daemon(instance, QueueFiles(instance.queue_dir))
        return daemon

    def forget(self, name: str) -> None:
        """Close the files of an instance."""
        before = self._daemons.pop(name, None)
        if before is not None:
            before.files.close()

    def instances(self) -> list[Instance]:
        """Return the instances in the configuration, by id."""
        return [instance_of(self.daemon(name)) for name in sorted(self.settings.require_instances())]

    def start(self, daemon: Daemon, give_up: Callable[[], bool] | None = None) -> bool:
        """Start Emacs where it does not run, unless `give_up` returns True; return whether that was needed."""
        start: Callable[..., bool] = load_entry_point("efrit.backend.local.emacs_process:start")
        started = start(daemon, give_up)
        if started and (problem := daemon.init_problem()) is not None:
            self.notify(f"the init file of {daemon.instance.id} failed: {problem}; see {daemon.log}")
        return started

    def wake(self, daemon: Daemon, give_up: Callable[[], bool] | None = None) -> None:
        """Start Emacs for work, where the configuration allows that. Raises `NotReady`."""
        if not daemon.instance.auto_start:
            name = daemon.instance.id
            raise NotReady(f"{name} does not run", f"start it with `efrit start {name}`")
        self.start(daemon, give_up)

    # Work

    def run(self, work: Work, seconds: float) -> tuple[Handle, RequestState | None]:
        """Submit the work and wait; the state is None if `seconds` were not enough. Raises `WaitInterrupted`."""
        daemon, rid = self.choose(work)
        if not daemon.is_served():
            self.wake(daemon)
        handle = Handle(rid, daemon.instance.id)
        interval, began = PollInterval(self.settings.polling_interval), time.monotonic()
        try:
            self.store(daemon, rid, work)
            while not daemon.files.is_answered(rid):
                waited = time.monotonic() - began
                if waited > seconds:
                    return handle, None
                time.sleep(interval.pause(waited))
        except KeyboardInterrupt as pressed:
            if not daemon.files.has_request(rid):
                raise
            raise WaitInterrupted(handle) from pressed
        return handle, self.state(daemon, handle)

    def choose(self, work: Work) -> tuple[Daemon, str]:
        """Return the instance for the work, and the id that the request has there."""
        self._archive()
        rid = id_of(work)
        return self._choose(work, rid), rid

    def store(self, daemon: Daemon, rid: str, work: Work) -> Handle:
        """Store the request in the queue. Raises `NotReady` where the queue has no room."""
        name, files = daemon.instance.id, daemon.files
        pending, processing, _ = files.counts()
        if pending + processing >= self.settings.max_concurrent_requests and not files.has_request(rid):
            raise NotReady(
                f"{pending + processing} requests wait or run on {name}, max_concurrent_requests allows no more",
                "wait for one of them, or raise the number in the configuration",
            )
        files.submit(request_for(rid, work))
        return Handle(rid, name)

    def find(self, handle: Handle) -> tuple[Daemon, Handle]:
        """Return the instance that has the request. Raises `InstanceNotFound`, `RequestNotFound`."""
        if handle.instance is not None and handle.instance not in self.settings.require_instances():
            raise InstanceNotFound(f"there is no instance {handle.instance!r}", "see `efrit instances`")
        daemon = self._instance_of_request(handle)
        if daemon is None:
            raise RequestNotFound(
                f"there is no request {handle.id}", "finished ones are kept for a day: see `efrit requests`"
            )
        return daemon, Handle(handle.id, daemon.instance.id)

    def blind_seconds(self, handle: Handle) -> float:
        """Return how long a request that another host has moved may be seen in no queue from here."""
        if not is_request_id(handle.id):
            return 0.0
        names = self.settings.require_instances() if handle.instance is None else (handle.instance,)
        daemons = (self.daemon(str(name)) for name in names)
        return max(
            (daemon.mount().blind_seconds for daemon in daemons if daemon.instance.queue_dir.is_dir()), default=0.0
        )

    def state(self, daemon: Daemon, handle: Handle) -> RequestState:
        """Return the present state; a final one counts as handed over. Raises `RequestNotFound`."""
        state = daemon.files.state(handle)
        if state is None:
            raise RequestNotFound(f"the request {handle.id} is no longer there")
        if state.final:
            self.mark_handed_over(daemon, handle)
        return state

    def mark_handed_over(self, daemon: Daemon, handle: Handle) -> None:
        """Have the answer archived with the next work, or at `close`."""
        self._handed_over[handle.id] = daemon.files

    def _choose(self, work: Work, rid: str) -> Daemon:
        if work.pool is not None or work.selector is not None:
            raise Refused("only a cluster has pools and labels", "leave them out, or name a cluster")
        check(work)
        if work.instance not in (None, ANY_INSTANCE):
            return self.daemon(str(work.instance))
        if work.key is not None and (daemon := self._instance_of_request(Handle(rid))) is not None:
            return daemon
        if work.session is not None and len(self.settings.require_instances()) > 1:
            for name in self.settings.require_instances():
                if (
                    self.settings.require_instances()[name].queue_dir / "sessions" / f"{work.session}.ndjson"
                ).exists():
                    return self.daemon(name)
            raise NoInstance(f"no instance has the session {work.session}", "begin a new one")
        if work.instance is None:
            return self.daemon(default_instance(self.settings.require_instances()))
        return self.daemon(least_loaded(self.instances()).id)

    def _instance_of_request(self, handle: Handle) -> Daemon | None:
        if not is_request_id(handle.id):
            return None
        first = [handle.instance] if handle.instance in self.settings.require_instances() else []
        for name in (*first, *self.settings.require_instances()):
            daemon = self.daemon(str(name))
            if daemon.instance.queue_dir.is_dir() and daemon.files.has_request(handle.id):
                return daemon
        return None
