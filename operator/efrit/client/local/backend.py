"""The backend of this machine: requests into a queue directory, an Emacs started when there is work for it.

An answer is archived only after it was handed over: with the next call, or at `close`. Whoever waits looks after the
time limits that Emacs cannot keep itself, and starts Emacs again if it dies. asyncio is imported where it is needed:
what is answered at once (`run_blocking`) does without, for it would take longer to import than to answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TypeVar

from msgspec.structs import replace

from efrit.client import eval_log
from efrit.client.errors import (
    InstanceNotFound,
    NoInstance,
    NotFinished,
    NotReady,
    Refused,
    RequestNotFound,
    RestartNeeded,
)
from efrit.client.interface import (
    ANY_INSTANCE,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    Removed,
    RequestState,
    RequestType,
    Setup,
    Started,
    StartStatus,
    Stopped,
    StopStatus,
    Update,
    Work,
)
from efrit.client.local.daemon import Daemon
from efrit.client.local.files import QueueFiles
from efrit.client.local.instances import instance_of, stats_of
from efrit.client.local.legacy import adopt
from efrit.client.local.model import NAME, differences, settings_in
from efrit.client.local.poll_interval import PollInterval
from efrit.client.local.request_file import check, id_of, request_for
from efrit.client.local.settings import (
    LocalInstance,
    LocalSettings,
    add_instance,
    check_queue_is_unique,
    config_path,
    daemon_name,
    load,
    load_named,
    new_instance,
)
from efrit.client.placement import least_loaded, unnamed
from efrit.protocol.ids import is_request_id

T = TypeVar("T")

ARCHIVE_SECONDS = 86400.0
STOP_SECONDS = 30.0
_MOST_LISTED = 200


class WaitInterrupted(Exception):  # noqa: N818 - it is what happened
    """Ctrl-C, while `run_blocking` waited for `handle`."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle.id)
        self.handle = handle


class LocalBackend:
    """`efrit.client.interface.Backend` on this machine."""

    kind = "local"

    def __init__(self, settings: LocalSettings, notify: Callable[[str], None] = lambda text: None) -> None:
        """Take `settings`; `notify` is called with messages for the user that no response contains."""
        self.settings = settings
        self._notify = notify
        self._daemons: dict[str, Daemon] = {}
        self._handed_over: dict[str, QueueFiles] = {}

    @classmethod
    def configured(cls, path: Path | None = None, notify: Callable[[str], None] = lambda text: None) -> LocalBackend:
        """Return a backend with the settings in `path`, or in the usual file. Raises `WrongSettings`."""
        settings, notices = adopt(load_named(path) if path else load(config_path(os.environ)))
        for notice in notices:
            notify(notice)
        return cls(settings, notify)

    @property
    def place(self) -> str:
        """The configuration file."""
        return str(self.settings.path)

    async def close(self, *, handed_over: bool = True) -> None:
        """Archive the responses that were handed over, and clean up where that is due."""
        if handed_over:
            self._archive()
        self._tidy()

    def _tidy(self) -> None:
        for daemon in self._daemons.values():
            self._sweep(daemon)
            daemon.files.close()
        self._daemons.clear()

    def _sweep(self, daemon: Daemon) -> None:
        if daemon.instance.queue_dir.is_dir():
            daemon.files.sweep_if_due(self.settings.cleanup_interval, ARCHIVE_SECONDS)

    def _archive(self) -> None:
        while self._handed_over:
            rid, files = self._handed_over.popitem()
            files.acknowledge(rid)

    def _daemon(self, name: str) -> Daemon:
        daemon = self._daemons.get(name)
        if daemon is None:
            instance = self.settings.instance(name)
            daemon = self._daemons[name] = Daemon(instance, QueueFiles(instance.queue_dir))
        return daemon

    # Instances

    async def instances(self) -> Sequence[Instance]:
        """Return the instances in the configuration, by id."""
        return self._instances()

    def _instances(self) -> list[Instance]:
        return [instance_of(self._daemon(name)) for name in sorted(self.settings.known())]

    async def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""
        return instance_of(self._daemon(name))

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start the instance's Emacs. An instance that is not in the configuration is added to it."""
        from efrit.client.local.model_probe import key_problem

        setup = setup or Setup()
        if setup.image is not None:
            raise Refused("an instance on this machine has no image", "leave the image out, or name a cluster")
        existing = self.settings.instances.get(name)
        instance = _with(setup, existing or new_instance(name))
        check_queue_is_unique(self.settings.path, self.settings.instances, instance)
        if existing is not None and instance != existing and self._daemon(name).running() is not None:
            raise Refused(
                f"{name} runs already, with other directories, another daemon name or another choice of init file",
                f"stop it first: efrit stop {name}",
            )
        before = self._daemons.pop(name, None)
        daemon = self._daemons[name] = Daemon(instance, QueueFiles(instance.queue_dir))
        if before is not None:
            before.files.close()
        if daemon.running() is None and (problem := key_problem(os.environ)) is not None:
            # Told before the start: Emacs may refuse to, and evals need no key.
            self._notify(f"{name} cannot ask a model: {problem}")
        started = await _in_a_thread(lambda: self._start(daemon))
        # Only what has started is remembered: a slip in a name or a directory leaves nothing behind.
        if instance != existing:
            self.settings = add_instance(self.settings, instance)
        return Started(
            StartStatus.STARTED if started else StartStatus.ALREADY_RUNNING,
            f"{name} takes work" if started else f"{name} was running",
            str(daemon.instance.queue_dir),
            daemon.instance.daemon_name,
        )

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Stop the instance's Emacs once the running request has ended, after half a minute at most.

        Pending requests stay pending. With `now`, the running request is cancelled, and an Emacs that does not
        respond is killed after a few seconds.
        """
        daemon = self._daemon(name)
        if daemon.running() is None:
            stopped = False
        elif now:
            from efrit.client.local.stop_now import stop_now

            stopped = await stop_now(daemon)
        else:
            stopped = await _in_a_thread(lambda: daemon.stop(STOP_SECONDS))
        if not stopped:
            return Stopped(StopStatus.NOT_RUNNING, f"{name} does not run")
        return Stopped(StopStatus.STOPPED, f"{name} is stopped")

    def _start(self, daemon: Daemon) -> bool:
        started = daemon.start()
        if started and (problem := daemon.init_problem()) is not None:
            self._notify(f"the init file of {daemon.instance.id} failed: {problem}; see {daemon.log}")
        return started

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Take it out of the configuration, and delete its directories where they are at their usual places."""
        from efrit.client.local.removal import remove

        daemon = self._daemon(name)
        removed = await _in_a_thread(lambda: remove(self.settings, daemon, files=files))
        self._daemons.pop(name).files.close()
        self.settings = removed[0]
        return removed[1]

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of the instance's queue; responses are counted since Emacs was started."""
        return stats_of(self._daemon(name))

    def attach_command(self, name: str) -> Sequence[str]:
        """Return the command that runs `emacsclient` in this terminal."""
        instance = self.settings.instance(name)
        return ["emacsclient", "--tty", f"--socket-name={instance.daemon_name}"]

    async def examine(self) -> Sequence[Finding]:
        """Examine Emacs, the Lisp, the configuration, each queue and its daemon."""
        from efrit.client.local.doctor import examine

        return await _in_a_thread(lambda: examine(self.settings))

    def planning(self) -> NoReturn:
        """Never: the operator of a cluster carries plans out."""
        raise Refused("plans need a cluster", "name one with --context or --namespace, or use `kubectl efrit plan`")

    # Work

    async def submit(self, work: Work) -> Handle:
        """Store the request in the queue of its instance; start Emacs where that is allowed."""
        daemon, rid = self._chosen(work)
        # A server is not closed for weeks: what is due cannot wait for that.
        await _in_a_thread(lambda: self._sweep(daemon))
        if not daemon.serves():
            await _in_a_thread(lambda: self._wake(daemon))
        elif work.type is not RequestType.EVAL:
            self._compare_models(daemon)
        return self._store(daemon, rid, work)

    def _compare_models(self, daemon: Daemon) -> None:
        """Tell a caller whose environment names another model than the daemon has. Raises `RestartNeeded`."""
        daemon_model = daemon.model_settings()
        difference = "" if daemon_model is None else differences(daemon_model, settings_in(os.environ))
        if not difference:
            return
        name = daemon.instance.id
        if not (daemon_model or {}).get(NAME) and os.environ.get(NAME):
            raise RestartNeeded(
                f"{name} was started without a model ({difference})", f"restart it: efrit restart {name}", name
            )
        self._notify(
            f"{name} was started with other settings of the model: {difference}; "
            f"to change that, restart it: efrit restart {name}"
        )

    def run_blocking(self, work: Work, seconds: float) -> tuple[Handle, RequestState | None]:
        """Submit the work and wait without an event loop; the state is None if `seconds` were not enough."""
        daemon, rid = self._chosen(work)
        if not daemon.serves():
            self._wake(daemon)
        handle = Handle(rid, daemon.instance.id)
        interval, began = PollInterval(self.settings.polling_interval), time.monotonic()
        try:
            self._store(daemon, rid, work)
            while not daemon.files.answered(rid):
                waited = time.monotonic() - began
                if waited > seconds:
                    return handle, None
                time.sleep(interval.pause(waited))
        except KeyboardInterrupt as pressed:
            if not daemon.files.knows(rid):
                raise
            raise WaitInterrupted(handle) from pressed
        return handle, self._state(daemon, handle)

    def result_blocking(self, handle: Handle) -> str:
        """Return the whole result of a finished request; empty if it has none. Raises `ResultGone`."""
        return self._find(handle)[0].files.result(handle.id) or ""

    def close_blocking(self) -> None:
        """Do what `close` does, without an event loop."""
        self._archive()
        self._tidy()

    def _chosen(self, work: Work) -> tuple[Daemon, str]:
        self._archive()
        rid = id_of(work)
        return self._choose(work, rid), rid

    def _wake(self, daemon: Daemon) -> None:
        if not daemon.instance.auto_start:
            name = daemon.instance.id
            raise NotReady(f"{name} does not run", f"start it with `efrit start {name}`")
        self._start(daemon)

    def _store(self, daemon: Daemon, rid: str, work: Work) -> Handle:
        name, files = daemon.instance.id, daemon.files
        pending, processing, _ = files.counts()
        if pending + processing >= self.settings.max_concurrent_requests and not files.knows(rid):
            raise NotReady(
                f"{pending + processing} requests wait or run on {name}, max_concurrent_requests allows no more",
                "wait for one of them, or raise the number in the configuration",
            )
        files.submit(request_for(rid, work))
        return Handle(rid, name)

    def _choose(self, work: Work, rid: str) -> Daemon:
        if work.pool is not None or work.selector is not None:
            raise Refused("only a cluster has pools and labels", "leave them out, or name a cluster")
        check(work)
        if work.instance not in (None, ANY_INSTANCE):
            return self._daemon(str(work.instance))
        if work.key is not None and (daemon := self._holder(Handle(rid))) is not None:
            return daemon
        if work.session is not None and len(self.settings.known()) > 1:
            for name in self.settings.known():
                if (self.settings.known()[name].queue_dir / "sessions" / f"{work.session}.ndjson").exists():
                    return self._daemon(name)
            raise NoInstance(f"no instance has the session {work.session}", "begin a new one")
        if work.instance is None:
            return self._daemon(unnamed(self.settings.known()))
        return self._daemon(least_loaded(self._instances()).id)

    def _holder(self, handle: Handle) -> Daemon | None:
        if not is_request_id(handle.id):
            return None
        first = [handle.instance] if handle.instance in self.settings.known() else []
        for name in (*first, *self.settings.known()):
            daemon = self._daemon(str(name))
            if daemon.instance.queue_dir.is_dir() and daemon.files.knows(handle.id):
                return daemon
        return None

    def _find(self, handle: Handle) -> tuple[Daemon, Handle]:
        if handle.instance is not None and handle.instance not in self.settings.known():
            raise InstanceNotFound(f"there is no instance {handle.instance!r}", "see `efrit instances`")
        daemon = self._holder(handle)
        if daemon is None:
            raise RequestNotFound(
                f"there is no request {handle.id}", "finished ones are kept for a day: see `efrit requests`"
            )
        return daemon, Handle(handle.id, daemon.instance.id)

    async def get(self, handle: Handle) -> RequestState:
        """Return the present state. Raises `RequestNotFound`."""
        daemon, handle = self._find(handle)
        return self._state(daemon, handle)

    def _state(self, daemon: Daemon, handle: Handle) -> RequestState:
        state = daemon.files.state(handle)
        if state is None:
            raise RequestNotFound(f"the request {handle.id} is no longer there")
        if state.final:
            self._handed_over[handle.id] = daemon.files
        return state

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield the request's states as they change, and the model's text in between."""
        from efrit.client.local.supervise import follow

        daemon, handle = self._find(handle)
        async for update in follow(daemon, handle, PollInterval(self.settings.polling_interval)):
            if update.state is not None and update.state.final:
                self._handed_over[handle.id] = daemon.files
            yield update

    async def cancel(self, handle: Handle) -> RequestState:
        """Withdraw a pending request; have Emacs stop a running one, or stop Emacs."""
        from efrit.client.local.supervise import end

        daemon, handle = self._find(handle)
        if not daemon.files.answered(handle.id) and not daemon.files.withdraw(handle.id):
            await end(daemon, handle)
        return self._state(daemon, handle)

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        """Return the whole result; empty if there is none."""
        daemon, handle = self._find(handle)
        state = self._state(daemon, handle)
        if not state.final:
            raise NotFinished(f"{handle.id} is {state.reason}: it has no result yet", f"efrit wait {handle.id}")
        if before_rest is not None:
            await before_rest()
        return daemon.files.result(handle.id) or ""

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the lines of the request's work log."""
        import asyncio

        daemon, handle = self._find(handle)
        if eval_log.is_eval(self._state(daemon, handle)):
            async for line in self._log_of_eval(handle, follow):
                yield line
            return
        offset = 0
        while True:
            over = not follow or daemon.files.answered(handle.id)
            lines, offset = daemon.files.log_from(handle.id, offset)
            for line in lines:
                yield line
            if over and not lines:
                return
            if not lines:
                await asyncio.sleep(0.05)

    async def _log_of_eval(self, handle: Handle, follow: bool) -> AsyncIterator[str]:
        state = await self.get(handle)
        if follow:
            async for update in self.watch(handle):
                state = update.state or state
        for line in eval_log.lines(state):
            yield line

    async def requests(self, instance: str | None = None, *, limit: int | None = None) -> Sequence[RequestState]:
        """Return the newest `limit`, or the newest 200 of each instance, for callers that list them repeatedly."""
        names = [instance] if instance is not None else list(self.settings.known())
        states: list[RequestState] = []
        most = limit or _MOST_LISTED
        for name in names:
            daemon = self._daemon(name)
            if daemon.instance.queue_dir.is_dir():
                handles = [Handle(rid, name) for rid in daemon.files.ids()[-most:]]
                states += [state for handle in handles if (state := daemon.files.state(handle)) is not None]
        ordered = sorted(states, key=lambda state: state.created or datetime.fromtimestamp(0, UTC))
        return ordered if limit is None else ordered[-limit:]


async def _in_a_thread(work: Callable[[], T]) -> T:
    import asyncio

    return await asyncio.to_thread(work)


def _with(setup: Setup, instance: LocalInstance) -> LocalInstance:
    def path(value: str | None, usual: Path) -> Path:
        return usual if value is None else Path(value).expanduser()

    queue = path(setup.queue_dir, instance.queue_dir)
    # A name that follows from the queue follows it when that changes.
    derived = instance.daemon_name == daemon_name(instance.id, instance.queue_dir)
    return replace(
        instance,
        queue_dir=queue,
        daemon_name=setup.daemon_name or (daemon_name(instance.id, queue) if derived else instance.daemon_name),
        workspace_dir=path(setup.workspace_dir, instance.workspace_dir),
        init=instance.init if setup.init is None else setup.init,
    )
