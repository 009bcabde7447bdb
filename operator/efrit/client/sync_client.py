"""The client of a Python program: `connect`. Each method is the one of `AsyncClient`, which says what it raises.

It works in any thread, in a notebook, and from several threads at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, Unpack

from efrit.backend.claims import Claim
from efrit.backend.interface import (
    MAX_LISTED,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    Removed,
    RequestState,
    RequestType,
    Setup,
    Started,
    Stopped,
    Update,
)
from efrit.backend.plans import Intent, PlanState
from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone
from efrit.client.async_client import AsyncClient, AsyncSession, PlaceOptions, WorkOptions, connect_async
from efrit.client.async_plans import AsyncPlans, PlanOptions
from efrit.client.event_loop import EventLoop


def connect(*, notify: Callable[[str], None] | None = None, **place: Unpack[PlaceOptions]) -> Client:
    """Return a client of this machine or of a cluster, connected. Close it, or use it in a `with` block.

    `notify` is called with what a person has to know and no answer says; by default it is logged as a warning of
    `efrit.client`. Raises `WrongSettings`, `NoCluster`.
    """
    return Client(connect_async(notify=notify, **place))


class Client:
    """Work for Emacs: `with connect() as client: client.eval("(+ 1 2)")`.

    Leaving the block, or Ctrl-C while it waits, ends no work: it goes on, and any process can wait for it by
    its name.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._loop = EventLoop()
        # Also for a program that ends without closing it: answers it has read are archived then.
        self._finalizer = weakref.finalize(self, self._loop.stop, client.close)
        try:
            self._loop.run(client.backend)
        except BaseException:
            self._finalizer()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections. Work goes on."""
        self._finalizer()

    @property
    def _running(self) -> EventLoop:
        if not self._finalizer.alive:
            raise RuntimeError("the client is closed: call connect() for another one")
        return self._loop

    # Work

    def eval(self, form: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Run Lisp and return how it ended: `result` is the printed value of the last form, `text` the same unquoted.

        Raises `RequestFailed` unless it succeeded, `ResultTruncated` where Emacs kept only the beginning of the
        result; with `check=False` neither, the state says so. Raises what `submit` raises.
        """
        return self._running.run(self._client.eval, form, check=check, **options)

    def command(self, text: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Have the model work in Emacs until it is done, and return how it ended. Raises as `eval`."""
        return self._running.run(self._client.command, text, check=check, **options)

    def chat(self, text: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Ask the model and return its answer. Raises as `eval`."""
        return self._running.run(self._client.chat, text, check=check, **options)

    def submit(
        self,
        content: str,
        *,
        type: RequestType | str = "eval",  # noqa: A002
        **options: Unpack[WorkOptions],
    ) -> Handle:
        """Hand work over and return at once; once this returns it will be answered.

        Raises `NoInstance`, `InstanceNotFound`, `NotReady`, `Refused`, `Conflict`.
        """
        return self._running.run(self._client.submit, content, type=type, **options)

    def wait(self, request: Handle | str, *, timeout: float | None = None, check: bool = True) -> RequestState:
        """Wait until a request is over and return how it ended, with its whole result.

        `timeout`, in seconds, bounds the waiting, not the work: raises `WaitTimeout`. Raises `RequestNotFound`, and
        as `eval`.
        """
        return self._running.run(self._client.wait, request, timeout=timeout, check=check)

    def watch(self, request: Handle | str, *, words: bool = False) -> Iterator[Update]:
        """Yield its state, then each change, and what the model says meanwhile; ends once it is final.

        `words`: have the model's words even where that takes the right to run a command in the pod. Raises
        `RequestNotFound`.
        """
        return self._running.iterate(self._client.watch(request, words=words))

    def get(self, request: Handle | str) -> RequestState:
        """Return a request as it is now. Raises `RequestNotFound`."""
        return self._running.run(self._client.get, request)

    def cancel(self, request: Handle | str) -> RequestState:
        """Ask a request to stop, and return its state, which need not be final yet. Raises `RequestNotFound`."""
        return self._running.run(self._client.cancel, request)

    def result(self, request: Handle | str) -> str:
        """Return the whole result. Raises `RequestNotFound`, `NotFinished`, `ResultGone`, `ResultTruncated`."""
        return self._running.run(self._client.result, request)

    def log(self, request: Handle | str, *, follow: bool = False) -> Iterator[str]:
        """Yield the lines of its work log (JSON objects); with `follow`, until it is over."""
        return self._running.iterate(self._client.log(request, follow=follow))

    def requests(self, instance: str | None = None, *, limit: int = MAX_LISTED) -> Sequence[RequestState]:
        """Return the newest `limit` requests, oldest first: the open ones and those still kept."""
        return self._running.run(self._client.requests, instance, limit=limit)

    def session(self, id: str | None = None, **options: Unpack[WorkOptions]) -> Session:  # noqa: A002
        """Return a session with the model: a new one, or the one called `id`. Nothing is sent yet.

        `options` hold for each of its requests.
        """
        return Session(self, self._client.session(id, **options))

    # Instances

    def instances(self) -> Sequence[Instance]:
        """Return all instances, by name."""
        return self._running.run(self._client.instances)

    def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""
        return self._running.run(self._client.instance, name)

    def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start an instance, made if there is none, and wait until it takes work.

        Raises `NotReady`, `NoEmacs`, `Refused`.
        """
        return self._running.run(self._client.start, name, setup)

    def stop(self, name: str) -> Stopped:
        """Let what runs end, then stop the instance; its files stay. Raises `InstanceNotFound`."""
        return self._running.run(self._client.stop, name)

    def remove(self, name: str, *, files: bool = False) -> Removed:
        """Remove a stopped instance and its queue; with `files`, its workspace.

        Raises `InstanceNotFound`, and `Refused` while it runs or work waits for it.
        """
        return self._running.run(self._client.remove, name, files=files)

    def stats(self, name: str) -> InstanceStats:
        """Return the figures of an instance's queue. Raises `InstanceNotFound`."""
        return self._running.run(self._client.stats, name)

    def doctor(self) -> Sequence[Finding]:
        """Return what is right and what is wrong here, as `efrit doctor` does."""
        return self._running.run(self._client.doctor)

    # Pools, which only a cluster has

    def pools(self) -> Sequence[Pool]:
        """Return all pools, by name. Raises `Refused` on a laptop."""
        return self._running.run(self._client.pools)

    def pool(self, name: str) -> Pool:
        """Return one pool. Raises `PoolNotFound`, `Refused`."""
        return self._running.run(self._client.pool, name)

    def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Set how many members a pool is to have. Raises `PoolNotFound`, and `Refused` for one that scales itself."""
        return self._running.run(self._client.scale_pool, name, replicas)

    def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Return the templates of a pool that are kept, the oldest first. Raises `PoolNotFound`, `Refused`."""
        return self._running.run(self._client.pool_history, name)

    def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Give a pool a former template again: that of `to_revision`, or the one before the current.

        Raises `PoolNotFound`, `NotFound` where it is not kept, `NotReady`, `Conflict`, `Refused`.
        """
        return self._running.run(self._client.undo_pool, name, to_revision)

    # Exclusive claims on members of pools

    def claims(self) -> Sequence[Claim]:
        """Return all claims, by name. Raises `Refused` on a laptop."""
        return self._running.run(self._client.claims)

    def claim(self, name: str) -> Claim:
        """Return one claim. Raises `ClaimNotFound`, `Refused`."""
        return self._running.run(self._client.claim, name)

    def claim_member(
        self,
        pool: str,
        *,
        name: str | None = None,
        holder: str | None = None,
        ttl: float | None = None,
        recycle: bool = True,
        wait: float | None = None,
    ) -> Claim:
        """Return a claim once it has a ready member of the pool, which nobody else gets: `claim.instance`.

        `name` makes it idempotent. `ttl`: seconds, an hour if it is not given. `recycle`: the member is deleted in
        the end, or else goes back to the pool as it is. `wait`: seconds, 0 returns the claim as it is made; without
        it, waits for as long as it takes. Raises `PoolNotFound`, `Conflict`, `Refused`; and `WaitTimeout`, where the
        claim goes on waiting.
        """
        return self._running.run(
            self._client.claim_member, pool, name=name, holder=holder, ttl=ttl, recycle=recycle, wait=wait
        )

    def release_claim(self, name: str) -> Claim:
        """End a claim: its member is deleted, or goes back to the pool. Raises `ClaimNotFound`, `Refused`."""
        return self._running.run(self._client.release_claim, name)

    # Plans

    @property
    def plans(self) -> Plans:
        """Return what can be done with plans."""
        return Plans(self, self._client.plans)


class Session:
    """A conversation with the model: each request continues the one before. `id` is known after the first.

    A request that ends with a question of the model raises nothing: `question` holds it, `answer` answers it.
    """

    def __init__(self, client: Client, session: AsyncSession) -> None:
        self._client = client
        self._session = session

    @property
    def id(self) -> str | None:
        """The name of the session."""
        return self._session.id

    @property
    def question(self) -> str | None:
        """What the model asks, if the last request ended so."""
        return self._session.question

    def chat(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Say something and return the model's answer. Raises as `Client.chat`."""
        return self._client._running.run(self._session.chat, text, **options)

    def command(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Have the model work in Emacs until it is done or asks something. Raises as `Client.command`."""
        return self._client._running.run(self._session.command, text, **options)

    def answer(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Answer the model's question, so that it goes on. Raises `Refused` if there is none."""
        return self._client._running.run(self._session.answer, text, **options)


class Plans:
    """What can be done with plans. Only a cluster has them: on this machine each call raises `Refused`."""

    def __init__(self, client: Client, plans: AsyncPlans) -> None:
        self._client = client
        self._plans = plans

    def create(self, intent: str | Intent | None = None, **options: Unpack[PlanOptions]) -> PlanState:
        """Hand a plan over; the operator carries it out.

        Raises `NoInstance`, `InstanceNotFound`, `Refused`, `Conflict`.
        """
        return self._client._running.run(self._plans.create, intent, **options)

    def run(self, intent: str | Intent | None = None, **options: Unpack[PlanOptions]) -> PlanState:
        """Hand a plan over, wait until it is over, and return how it ended. Raises as `create` and `wait`."""
        return self._client._running.run(self._plans.run, intent, **options)

    def wait(self, name: str, *, timeout: float | None = None, check: bool = True) -> PlanState:
        """Wait until a plan is over, and return how it ended.

        `timeout`, in seconds, bounds the waiting, not the plan: raises `WaitTimeout`. Raises `PlanNotFound`, and
        `PlanFailed` unless it succeeded; with `check=False` the state says so.
        """
        return self._client._running.run(self._plans.wait, name, timeout=timeout, check=check)

    def watch(self, name: str) -> Iterator[PlanState]:
        """Yield its state, then each change; ends once it is final. Raises `PlanNotFound`."""
        return self._client._running.iterate(self._plans.watch(name))

    def get(self, name: str) -> PlanState:
        """Return a plan as it is now. Raises `PlanNotFound`."""
        return self._client._running.run(self._plans.get, name)

    def list(self) -> Sequence[PlanState]:
        """Return all plans, oldest first."""
        return self._client._running.run(self._plans.list)

    def amend(self, name: str, text: str) -> PlanState:
        """Add to what was said. Raises `PlanNotFound`, `Refused`."""
        return self._client._running.run(self._plans.amend, name, text)

    def suspend(self, name: str) -> PlanState:
        """Have it begin nothing more until it is resumed. Raises `PlanNotFound`, `Refused`."""
        return self._client._running.run(self._plans.suspend, name)

    def resume(self, name: str) -> PlanState:
        """Let it go on. Raises `PlanNotFound`, `Refused`."""
        return self._client._running.run(self._plans.resume, name)

    def cancel(self, name: str) -> PlanState:
        """End it. Raises `PlanNotFound`, `Refused`."""
        return self._client._running.run(self._plans.cancel, name)

    def history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return what its repository holds: intent, amendments, the last `limit` commits or all, the tree.

        Raises `PlanNotFound`, `NotReady`, `Refused`.
        """
        return self._client._running.run(self._plans.history, name, limit)
