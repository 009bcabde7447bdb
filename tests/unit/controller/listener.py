"""A sink that remembers what it was told and lets a test wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Listener:
    """Takes every call of the `Sink` protocol; `told` is a list of (name, arguments)."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[Any, ...]]] = []
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def submit_begins(self, *arguments: Any) -> bool:
        return True

    def close_begins(self, *arguments: Any) -> bool:
        return True

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)

        def take_in(*arguments: Any, **named: Any) -> None:
            self.told.append((name, (*arguments, *named.values())))
            task = asyncio.ensure_future(self._notify())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return take_in

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of this name."""
        return [arguments for called, arguments in self.told if called == name]

    async def hears(self, name: str, count: int = 1) -> tuple[Any, ...]:
        """Wait until a call has come this often; return the arguments of the last of them."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: len(self.of(name)) >= count), 30)
        return self.of(name)[count - 1]
