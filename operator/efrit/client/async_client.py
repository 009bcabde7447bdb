"""The client of a Python program that uses asyncio: `connect_async`. A thin surface over one `Backend`.

What it returns are the values of `efrit.backend.interface` and `efrit.backend.plans`; what it raises, those of
`efrit.backend.errors`. `efrit.client.sync_client` is the same without asyncio.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack, cast

from efrit.backend.claims import Claim, NewClaim, bound_claim
from efrit.backend.errors import Refused, WaitTimeout, check_directory, check_name, check_options
from efrit.backend.interface import (
    MAX_LISTED,
    Backend,
    Budget,
    Finding,
    Handle,
    Instance,
    InstanceStats,
    Removed,
    RequestReason,
    RequestState,
    RequestType,
    Setup,
    Started,
    Stopped,
    Update,
    Work,
)
from efrit.backend.open import open_backend
from efrit.backend.outcomes import raise_for_outcome
from efrit.backend.place import Place
from efrit.backend.pools import Pool, PoolRevision, Scaled, Undone
from efrit.backend.whole_result import completed
from efrit.client.async_plans import AsyncPlans

_log = logging.getLogger("efrit.client")


class PlaceOptions(TypedDict, total=False):
    """Where to work: this machine or a cluster. None of them: as the command line finds it out.

    `backend` is `local` or `cluster`, `config` the configuration of this machine; `kubeconfig`, `context` and
    `namespace` are kubectl's.
    """

    backend: str | None
    config: str | os.PathLike[str] | None
    kubeconfig: str | os.PathLike[str] | None
    context: str | None
    namespace: str | None


class WorkOptions(TypedDict, total=False):
    """How a request is run, as in `Work`; times in seconds.

    Where: `instance` (`*`: the least loaded one), or else `pool` or `selector` (a cluster's), or else `default`.
    `directory`: where it begins, on this machine the current directory if it is not given. `timeout`: how long it
    may run. `key`: the same key is the same request, however often it is submitted. `budget`: a `Budget` or a
    mapping of its fields.
    """

    instance: str | None
    pool: str | None
    selector: Mapping[str, str] | None
    timeout: float | None
    queue_timeout: float | None
    return_context: bool
    budget: Budget | Mapping[str, Any] | None
    session: str | None
    priority: int
    retry: bool
    max_attempts: int | None
    key: str | None
    keep: float | None
    directory: str | os.PathLike[str] | None


def connect_async(*, notify: Callable[[str], None] | None = None, **place: Unpack[PlaceOptions]) -> AsyncClient:
    """Return a client for a program that uses asyncio; it connects when it is first used.

    `notify` is called with what a person has to know and no answer says; by default it is logged as a warning of
    `efrit.client`. Raises `WrongSettings` for an empty value.
    """
    notify = notify or (lambda text: _log.warning("%s", text))
    check_options(**place)
    return AsyncClient(lambda: open_backend(_place(**place), notify))


def _place(
    backend: str | None = None,
    config: str | os.PathLike[str] | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Place:
    return Place(backend, _path(config), _path(kubeconfig), context, namespace)


def _path(text: str | os.PathLike[str] | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


class AsyncClient:
    """Work for Emacs, from asyncio: `async with connect_async() as client: await client.eval("(+ 1 2)")`.

    Leaving the block, or cancelling a task that waits, ends no work: it goes on, and any process can wait for it by
    its name.
    """

    def __init__(self, open_backend: Callable[[], Awaitable[Backend]]) -> None:
        self._open = open_backend
        self._backend: Backend | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.backend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def backend(self) -> Backend:
        """Return the backend behind this client, opened if need be. Raises `WrongSettings`, `NoCluster`."""
        async with self._opening:
            if self._closed:
                raise RuntimeError("the client is closed: call connect() for another one")
            if self._backend is None:
                self._backend = await self._open()
            return self._backend

    async def close(self) -> None:
        """Let go of connections. Work goes on."""
        async with self._opening:
            self._closed = True
            backend, self._backend = self._backend, None
            if backend is not None:
                await backend.close()

    # Work

    async def eval(self, form: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Run Lisp and return how it ended: `result` is the printed value of the last form, `text` the same unquoted.

        Raises `RequestFailed` unless it succeeded, `ResultTruncated` where Emacs kept only the beginning of the
        result; with `check=False` neither, the state says so. Raises what `submit` raises.
        """
        return await self.wait(await self.submit(form, **options), check=check)

    async def command(self, text: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Have the model work in Emacs until it is done, and return how it ended. Raises as `eval`."""
        return await self.wait(await self.submit(text, type="command", **options), check=check)

    async def chat(self, text: str, *, check: bool = True, **options: Unpack[WorkOptions]) -> RequestState:
        """Ask the model and return its answer. Raises as `eval`."""
        return await self.wait(await self.submit(text, type="chat", **options), check=check)

    async def submit(
        self,
        content: str,
        *,
        type: RequestType | str = "eval",  # noqa: A002
        **options: Unpack[WorkOptions],
    ) -> Handle:
        """Hand work over and return at once; once this returns it will be answered.

        Raises `NoInstance`, `InstanceNotFound`, `NotReady`, `Refused`, `Conflict`.
        """
        backend = await self.backend()
        return await backend.submit(_work(backend.kind, type, content, options))

    async def wait(
        self,
        request: Handle | str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        check: bool = True,
    ) -> RequestState:
        """Wait until a request is over and return how it ended, with its whole result.

        `timeout`, in seconds, bounds the waiting, not the work: raises `WaitTimeout`. Raises `RequestNotFound`, and
        as `eval`.
        """
        handle = _handle(request)
        backend = await self.backend()
        last: list[RequestState] = []
        try:
            async with asyncio.timeout(timeout):
                async with aclosing(backend.watch(handle)) as updates:  # type: ignore[type-var]
                    async for update in updates:
                        if update.state is not None:
                            last[:] = [update.state]
        except TimeoutError:
            if timeout is None:
                raise
            suffix = f": it is {last[0].reason}" if last else ""
            raise WaitTimeout(
                f"{handle.id} has not finished after {timeout:g} s{suffix}", "it goes on: wait again, or cancel it"
            ) from None
        state = last[0]
        if check:
            raise_for_outcome(state)
        state, missing = await completed(backend, state)
        if check and missing is not None:
            raise missing
        return state

    async def watch(self, request: Handle | str, *, words: bool = False) -> AsyncIterator[Update]:
        """Yield its state, then each change, and what the model says meanwhile; ends once it is final.

        `words`: have the model's words even where that takes the right to run a command in the pod. Raises
        `RequestNotFound`.
        """
        backend = await self.backend()
        async with aclosing(backend.watch(_handle(request), words=words)) as updates:  # type: ignore[type-var]
            async for update in updates:
                yield update

    async def get(self, request: Handle | str) -> RequestState:
        """Return a request as it is now. Raises `RequestNotFound`."""
        return await (await self.backend()).get(_handle(request))

    async def cancel(self, request: Handle | str) -> RequestState:
        """Ask a request to stop, and return its state, which need not be final yet. Raises `RequestNotFound`."""
        return await (await self.backend()).cancel(_handle(request))

    async def result(self, request: Handle | str) -> str:
        """Return the whole result. Raises `RequestNotFound`, `NotFinished`, `ResultGone`, `ResultTruncated`."""
        return await (await self.backend()).result(_handle(request))

    async def log(self, request: Handle | str, *, follow: bool = False) -> AsyncIterator[str]:
        """Yield the lines of its work log (JSON objects); with `follow`, until it is over."""
        backend = await self.backend()
        async with aclosing(backend.log(_handle(request), follow=follow)) as lines:  # type: ignore[type-var]
            async for line in lines:
                yield line

    async def requests(self, instance: str | None = None, *, limit: int = MAX_LISTED) -> Sequence[RequestState]:
        """Return the newest `limit` requests, oldest first: the open ones and those still kept.

        Raises `Refused` where `limit` is less than one.
        """
        if limit < 1:
            raise Refused(f"limit is {limit}", "ask for one request or more")
        check_options(instance=instance)
        return await (await self.backend()).requests(instance, limit=limit)

    def session(self, id: str | None = None, **options: Unpack[WorkOptions]) -> AsyncSession:  # noqa: A002
        """Return a session with the model: a new one, or the one called `id`. Nothing is sent yet.

        `options` hold for each of its requests.
        """
        return AsyncSession(self, id, **options)

    # Instances

    async def instances(self) -> Sequence[Instance]:
        """Return all instances, by name."""
        return await (await self.backend()).instances()

    async def instance(self, name: str) -> Instance:
        """Return one instance. Raises `InstanceNotFound`."""
        return await (await self.backend()).instance(check_name(name, "instance"))

    async def start(self, name: str, setup: Setup | None = None) -> Started:
        """Start an instance, made if there is none, and wait until it takes work.

        Raises `NotReady`, `NoEmacs`, `Refused`.
        """
        return await (await self.backend()).start(check_name(name, "instance"), setup)

    async def stop(self, name: str) -> Stopped:
        """Let what runs end, then stop the instance; its files stay. Raises `InstanceNotFound`."""
        return await (await self.backend()).stop(check_name(name, "instance"))

    async def remove(self, name: str, *, files: bool = False) -> Removed:
        """Remove a stopped instance and its queue; with `files`, its workspace.

        Raises `InstanceNotFound`, and `Refused` while it runs or work waits for it.
        """
        return await (await self.backend()).remove(check_name(name, "instance"), files=files)

    async def stats(self, name: str) -> InstanceStats:
        """Return the figures of an instance's queue. Raises `InstanceNotFound`."""
        return await (await self.backend()).stats(check_name(name, "instance"))

    async def doctor(self) -> Sequence[Finding]:
        """Return what is right and what is wrong here, as `efrit doctor` does."""
        return await (await self.backend()).examine()

    # Pools, which only a cluster has

    async def pools(self) -> Sequence[Pool]:
        """Return all pools, by name. Raises `Refused` on a laptop."""
        return await (await self.backend()).pools()

    async def pool(self, name: str) -> Pool:
        """Return one pool. Raises `PoolNotFound`, `Refused`."""
        return await (await self.backend()).pool(check_name(name, "pool"))

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        """Set how many members a pool is to have. Raises `PoolNotFound`, and `Refused` for one that scales itself."""
        return await (await self.backend()).scale_pool(check_name(name, "pool"), replicas)

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        """Return the templates of a pool that are kept, the oldest first. Raises `PoolNotFound`, `Refused`."""
        return await (await self.backend()).pool_history(check_name(name, "pool"))

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        """Give a pool a former template again: that of `to_revision`, or the one before the current.

        Raises `PoolNotFound`, `NotFound` where it is not kept, `NotReady`, `Conflict`, `Refused`.
        """
        return await (await self.backend()).undo_pool(check_name(name, "pool"), to_revision)

    # Exclusive claims on members of pools

    async def claims(self) -> Sequence[Claim]:
        """Return all claims, by name. Raises `Refused` on a laptop."""
        return await (await self.backend()).claims()

    async def claim(self, name: str) -> Claim:
        """Return one claim. Raises `ClaimNotFound`, `Refused`."""
        return await (await self.backend()).claim(check_name(name, "claim"))

    async def claim_member(
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
        check_options(name=name, holder=holder)
        new = NewClaim(check_name(pool, "pool"), name, holder, ttl, recycle)
        backend = await self.backend()
        claim = await backend.claim_member(new)
        return claim if claim.settled or wait == 0 else await bound_claim(backend, claim.name, wait)

    async def release_claim(self, name: str) -> Claim:
        """End a claim: its member is deleted, or goes back to the pool. Raises `ClaimNotFound`, `Refused`."""
        return await (await self.backend()).release_claim(check_name(name, "claim"))

    # Plans

    @property
    def plans(self) -> AsyncPlans:
        """Return what can be done with plans."""
        return AsyncPlans(self)


class AsyncSession:
    """A conversation with the model: each request continues the one before. `id` is known after the first.

    A request that ends with a question of the model raises nothing: `question` holds it, `answer` answers it.
    """

    def __init__(self, client: AsyncClient, id: str | None = None, **options: Unpack[WorkOptions]) -> None:  # noqa: A002
        check_options(id=id)
        self._client = client
        self._options = options
        self._asked = RequestType.CHAT
        self.id = id
        self.question: str | None = None

    async def chat(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Say something and return the model's answer. Raises as `AsyncClient.chat`."""
        return await self._turn(RequestType.CHAT, text, options)

    async def command(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Have the model work in Emacs until it is done or asks something. Raises as `AsyncClient.command`."""
        return await self._turn(RequestType.COMMAND, text, options)

    async def answer(self, text: str, **options: Unpack[WorkOptions]) -> RequestState:
        """Answer the model's question, so that it goes on. Raises `Refused` if there is none."""
        if self.question is None:
            raise Refused("the model has asked nothing", "send a chat or a command")
        return await self._turn(self._asked, text, options)

    async def _turn(self, kind: RequestType, text: str, options: WorkOptions) -> RequestState:
        merged: WorkOptions = {**self._options, **options, "session": self.id}
        handle = await self._client.submit(text, type=kind, **merged)
        state = await self._client.wait(handle, check=False)
        if state.session is not None and state.session.id is not None:
            self.id = state.session.id
            # A session lives on the queue of its instance.
            self._options = {**self._options, "instance": state.handle.instance}
        asks = state.reason is RequestReason.INPUT_REQUIRED and state.session is not None
        self._asked = kind
        self.question = state.session.question if asks and state.session is not None else None
        if not asks:
            raise_for_outcome(state)
        if state.truncated:
            # Not whole even after the wait: this says why.
            await self._client.result(handle)
        return state


def _handle(request: Handle | str) -> Handle:
    handle = request if isinstance(request, Handle) else Handle(request)
    check_name(handle.id, "request")
    return handle


def _work(backend: str, kind: RequestType | str, content: str, options: WorkOptions) -> Work:
    if not isinstance(content, str):
        raise Refused(f"the content is of type {type(content).__name__}", "give it as a string")
    arguments: dict[str, Any] = {**options}
    check_options(**{name: arguments.get(name) for name in ("instance", "pool", "session", "key")})
    if isinstance(budget := arguments.get("budget"), Mapping):
        names = [name for name in Budget.__struct_fields__ if name != "extra"]
        if unknown := [str(name) for name in budget if name not in names]:
            raise Refused(f"a budget has no {', '.join(unknown)}", f"use {', '.join(names)}")
        arguments["budget"] = Budget(**budget)
    check_directory(directory := arguments.get("directory"))
    if directory is not None or backend == "local":
        arguments["directory"] = os.path.abspath(os.path.expanduser(directory or "."))  # noqa: PTH100, PTH111 - keeps `..`
    return Work(cast(RequestType, kind), content, **arguments)
