"""The backend of this machine: requests into a queue directory, an Emacs started when there is work for it.

The interface of all backends around `LocalQueues`, which does all that needs no event loop. Whoever waits looks after
the time limits that Emacs cannot keep itself, and starts Emacs again if it dies.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

import efrit.backend.eval_log as eval_log
from efrit.backend.errors import NotFinished, Refused, RequestNotFound, RestartNeeded, check_directory
from efrit.backend.interface import (
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
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.doctor import examine
from efrit.backend.local.emacs_process import stop
from efrit.backend.local.heartbeat import check_heartbeat
from efrit.backend.local.instances import instance_of, stats_of
from efrit.backend.local.model import NAME, differences, settings_in
from efrit.backend.local.model_probe import key_problem
from efrit.backend.local.poll_interval import PollInterval
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.removal import remove
from efrit.backend.local.request_file import id_of_key
from efrit.backend.local.settings import (
    LocalInstance,
    add_instance,
    check_queue_is_unique,
    daemon_name,
    data_directory,
    new_instance,
)
from efrit.backend.local.start_thread import start_in_thread
from efrit.backend.local.stop_now import stop_now
from efrit.backend.local.supervise import follow, poll_until_visible, stop_request, visible_state
from efrit.backend.local.work_log import lines_from
from efrit.entry_point import load_entry_point

if TYPE_CHECKING:
    from efrit.backend.claims import Claim, NewClaim
    from efrit.backend.plans import Plans
    from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone

STOP_SECONDS = 30.0
_MAX_LISTED = 200


class LocalBackend:
    """`efrit.backend.interface.Backend` on this machine."""

    kind = "local"

    def __init__(self, queues: LocalQueues) -> None:
        self._queues = queues

    @classmethod
    def configured(cls, path: Path | None = None, notify: Callable[[str], None] = lambda text: None) -> LocalBackend:
        """Return a backend with the settings in `path`, or in the usual file. Raises `WrongSettings`."""
        return cls(LocalQueues.configured(path, notify))

    @property
    def place(self) -> str:
        """The configuration file."""
        return str(self._queues.settings.path)

    async def close(self, *, handed_over: bool = True) -> None:
        """Archive the responses that were handed over, and clean up where that is due."""
        self._queues.close(handed_over=handed_over)

    # Instances

    async def instances(self) -> Sequence[Instance]:
        """Return the instances in the configuration, by id."""
        return self._queues.instances()

    async def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""
        return instance_of(self._queues.daemon(name))

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start the instance's Emacs. An instance that is not in the configuration is added to it."""
        setup = setup or Setup()
        if setup.image is not None:
            raise Refused("an instance on this machine has no image", "leave the image out, or name a cluster")
        settings = self._queues.settings
        existing = settings.instances.get(name)
        instance = _merged_setup(setup, existing or new_instance(name))
        check_queue_is_unique(settings.path, settings.instances, instance)
        if existing is not None and instance != existing and self._queues.daemon(name).is_served():
            raise Refused(
                f"{name} runs already, with other directories, another daemon name or another choice of init file",
                f"stop it first: efrit stop {name}",
            )
        daemon = self._queues.add_instance(instance)
        if not daemon.is_served() and (problem := key_problem(os.environ)) is not None:
            # Reported before the start: Emacs may refuse to, and evals need no key.
            self._queues.notify(f"{name} cannot ask a model: {problem}")
        started = await start_in_thread(partial(self._queues.start, daemon))
        # Only what has started is remembered: a slip in a name or a directory leaves nothing behind.
        if instance != existing:
            self._queues.settings = add_instance(self._queues.settings, instance)
        return Started(
            StartStatus.STARTED if started else StartStatus.ALREADY_RUNNING,
            f"{name} takes work" if started else f"{name} {self._remote_server_phrase(daemon) or 'was running'}",
            str(daemon.instance.queue_dir),
            daemon.instance.daemon_name,
        )

    async def stop(self, name: str, *, now: bool = False) -> Stopped:
        """Stop the instance's Emacs once the running request has ended, after half a minute at most.

        Pending requests stay pending. With `now`, the running request is cancelled, and an Emacs that does not
        respond is killed after a few seconds.
        """
        daemon = self._queues.daemon(name)
        if (serving := self._remote_server_phrase(daemon)) is not None:
            raise Refused(f"{name} {serving}: no signal reaches it from here", f"on that host: efrit stop {name}")
        if daemon.running() is None:
            check_heartbeat(daemon)
            stopped = False
        elif now:
            stopped = await stop_now(daemon)
        else:
            stopped = await asyncio.to_thread(stop, daemon, STOP_SECONDS)
        if not stopped:
            return Stopped(StopStatus.NOT_RUNNING, f"{name} does not run")
        return Stopped(StopStatus.STOPPED, f"{name} is stopped")

    def _remote_server_phrase(self, daemon: Daemon) -> str | None:
        """Return who serves the queue where that is another host, in a phrase."""
        other = daemon.remote_emacs()
        return f"is {other}" if other is not None and other.serves else None

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Take it out of the configuration, and delete its directories where they are at their usual places."""
        settings, removed = await asyncio.to_thread(
            remove, self._queues.settings, self._queues.daemon(name), files=files
        )
        self._queues.forget(name)
        self._queues.settings = settings
        return removed

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of the instance's queue; responses are counted since Emacs was started."""
        daemon = self._queues.daemon(name)
        if (serving := self._remote_server_phrase(daemon)) is not None:
            self._queues.notify(f"{name} {serving}")
        return stats_of(daemon)

    def attach_command(self, name: str) -> Sequence[str]:
        """Return the command that runs `emacsclient` in this terminal."""
        instance = self._queues.settings.instance(name)
        return ["emacsclient", "--tty", f"--socket-name={instance.daemon_name}"]

    async def examine(self) -> Sequence[Finding]:
        """Examine Emacs, the Lisp, the configuration, each queue and its daemon."""
        return await asyncio.to_thread(examine, self._queues.settings)

    def planning(self) -> Plans:
        """Return the plans of this machine, which are driven by whoever watches them."""
        queues, local_plans = self._queues, load_entry_point("efrit.backend.local.plans:LocalPlans")
        plans: Plans = local_plans(self, queues.settings, data_directory() / "plans", queues.notify, self._has_model)
        return plans

    async def pools(self) -> Sequence[Pool]:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_pools()

    async def pool(self, name: str) -> Pool:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_pools()

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_pools()

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_pools()

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_pools()

    async def claims(self) -> Sequence[Claim]:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_claims()

    async def claim(self, name: str) -> Claim:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_claims()

    async def claim_member(self, new: NewClaim) -> Claim:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_claims()

    def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_claims()

    async def release_claim(self, name: str) -> Claim:
        """Raise `Refused`: only a cluster has pools."""
        raise _no_claims()

    def _has_model(self, name: str) -> bool:
        """Return whether chats can be answered: by the Emacs that runs, or by one that is started from here."""
        if settings_in(os.environ).get(NAME):
            return True
        daemon = self._queues.daemon(name)
        if not daemon.is_served():
            return False
        model = daemon.model_settings()
        # Of an Emacs that an earlier version has started nothing is known.
        return model is None or bool(model.get(NAME))

    # Work

    async def submit(self, work: Work) -> Handle:
        """Store the request in the queue of its instance; start Emacs where that is allowed."""
        daemon, rid = self._queues.choose(work)
        # A server is not closed for weeks: what is due cannot wait for that.
        await asyncio.to_thread(self._queues.sweep, daemon)
        if not daemon.is_served():
            await start_in_thread(partial(self._queues.wake, daemon))
        elif work.type is not RequestType.EVAL:
            self._compare_models(daemon)
        return self._queues.store(daemon, rid, work)

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
        self._queues.notify(
            f"{name} was started with other settings of the model: {difference}; "
            f"to change that, restart it: efrit restart {name}"
        )

    def handle_of(self, key: str, instance: str | None = None) -> Handle:
        """Return the handle of the request that was submitted with `key`, if one was."""
        return Handle(id_of_key(key), instance)

    async def get(self, handle: Handle) -> RequestState:
        """Return the present state. Raises `RequestNotFound`."""
        return (await self._state(handle))[2]

    async def watch(self, handle: Handle, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield the request's states as they change, and the model's text in between."""
        daemon, handle = await self._find(handle)
        async for update in follow(daemon, handle, PollInterval(self._queues.settings.polling_interval)):
            if update.state is not None and update.state.final:
                self._queues.mark_handed_over(daemon, handle)
            yield update

    async def cancel(self, handle: Handle) -> RequestState:
        """Withdraw a pending request; have Emacs stop a running one, or stop Emacs."""
        daemon, handle = await self._find(handle)
        if not daemon.files.is_answered(handle.id) and not daemon.files.withdraw(handle.id):
            await stop_request(daemon, handle)
        daemon, handle, state = await self._state(handle)
        if not state.final and (serving := self._remote_server_phrase(daemon)) is not None:
            name = daemon.instance.id
            self._queues.notify(f"{handle.id} is to stop, and runs on: {name} {serving}, which has not answered yet")
        return state

    async def _find(self, handle: Handle) -> tuple[Daemon, Handle]:
        """Return the instance that has the request, which another host may have moved just now."""

        def find_or_none() -> tuple[Daemon, Handle] | None:
            try:
                return self._queues.find(handle)
            except RequestNotFound:
                return None

        return await poll_until_visible(
            find_or_none, lambda: self._queues.blind_seconds(handle)
        ) or self._queues.find(handle)

    async def _state(self, handle: Handle) -> tuple[Daemon, Handle, RequestState]:
        """Return the instance that has the request, and its state; a final one counts as handed over."""
        daemon, handle = await self._find(handle)
        state = await visible_state(daemon, handle)
        if state.final:
            self._queues.mark_handed_over(daemon, handle)
        return daemon, handle, state

    async def result(self, handle: Handle, *, before_rest: Callable[[], Awaitable[None]] | None = None) -> str:
        """Return the whole result; empty if there is none."""
        daemon, handle, state = await self._state(handle)
        if not state.final:
            raise NotFinished(f"{handle.id} is {state.reason}: it has no result yet", f"efrit wait {handle.id}")
        if before_rest is not None:
            await before_rest()
        # Another host may have archived the answer meanwhile.
        return (
            await poll_until_visible(lambda: daemon.files.result(handle.id), lambda: daemon.mount().blind_seconds)
            or ""
        )

    async def log(self, handle: Handle, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the lines of the request's work log."""
        daemon, handle, state = await self._state(handle)
        if eval_log.is_eval(state):
            async for line in self._log_of_eval(handle, follow):
                yield line
            return
        offset = 0
        while True:
            over = not follow or daemon.files.is_answered(handle.id)
            lines, offset = lines_from(daemon.files, handle.id, offset)
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

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> Sequence[RequestState]:
        """Return the newest `limit`, or the newest 200 of each instance, for callers that list them repeatedly."""
        names = [instance] if instance is not None else list(self._queues.settings.require_instances())
        states: list[RequestState] = []
        count = limit or _MAX_LISTED
        for name in names:
            daemon = self._queues.daemon(name)
            if daemon.instance.queue_dir.is_dir():
                handles = [Handle(rid, name) for rid in daemon.files.ids()[-count:]]
                states += [state for handle in handles if (state := daemon.files.state(handle)) is not None]
        ordered = sorted(states, key=lambda state: state.created or datetime.fromtimestamp(0, UTC))
        return ordered if limit is None else ordered[-limit:]


def _merged_setup(setup: Setup, instance: LocalInstance) -> LocalInstance:
    def path(name: str, value: str | None, usual: Path) -> Path:
        check_directory(value, name)
        return usual if value is None else Path(value).expanduser().absolute()

    queue = path("queue_dir", setup.queue_dir, instance.queue_dir)
    # A name that follows from the queue follows it when that changes.
    derived = instance.daemon_name == daemon_name(instance.id, instance.queue_dir)
    return replace(
        instance,
        queue_dir=queue,
        daemon_name=setup.daemon_name or (daemon_name(instance.id, queue) if derived else instance.daemon_name),
        workspace_dir=path("workspace_dir", setup.workspace_dir, instance.workspace_dir),
        init=instance.init if setup.init is None else setup.init,
    )


def _no_claims() -> Refused:
    return Refused(
        "only a cluster has pools to claim a member of", "start an instance of your own with `efrit start NAME`"
    )


def _no_pools() -> Refused:
    return Refused("only a cluster has pools", "name a cluster, for example with --backend cluster")
