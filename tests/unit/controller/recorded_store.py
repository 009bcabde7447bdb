"""A store that records the calls of actions and lets a test wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from efrit.controller.store.store import Store
from tests.support.timeout import TIMEOUT

KINDS = {"EfritInstance": "instances", "EfritRequest": "requests", "EfritPlan": "plans"}
ALLOWED = ("handovers.submit_begins", "handovers.close_begins", "children.apply_begins", "instances.replace_begins")


class _Part:
    """One part of the store."""

    def __init__(self, recorded: RecordedStore, name: str) -> None:
        self._recorded = recorded
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._recorded.call(f"{self._name}.{name}")


class RecordedStore:
    """Takes every call of a part of the store; `calls` is a list of (part and method, arguments).

    `returns` has what a method returns, None by default.
    """

    def __init__(self) -> None:
        self.returns: dict[str, Any] = {}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def store(self) -> Store:
        """Itself, typed as the store it replaces."""
        return cast(Store, self)

    def __getattr__(self, name: str) -> _Part:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Part(self, name)

    def call(self, name: str) -> Callable[..., Any]:
        def take_in(*arguments: Any, **named: Any) -> Any:
            if name in ALLOWED:
                return True
            self.calls.append((name, (*arguments, *named.values())))
            task = asyncio.ensure_future(self._notify())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return self.returns.get(name)

        return take_in

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def of(self, kind: str) -> _Part:
        """Return the part of a kind of objects."""
        return _Part(self, KINDS[kind])

    def requeue_after(self, *arguments: Any) -> None:
        self.call("requeue_after")(*arguments)

    def set_aside(self, *arguments: Any) -> None:
        self.call("set_aside")(*arguments)

    def backlog(self, namespace: str) -> int:
        return 0

    def detach(self, *arguments: Any) -> None:
        self.call("detach")(*arguments)

    def release(self, *arguments: Any) -> None:
        self.call("release")(*arguments)

    def calls_of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the arguments of every call of this name."""
        return [arguments for called, arguments in self.calls if called == name]

    async def until_called(self, name: str, count: int = 1) -> tuple[Any, ...]:
        """Wait until a call has come this often; return the arguments of the last of them."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: len(self.calls_of(name)) >= count), TIMEOUT)
        return self.calls_of(name)[count - 1]
