"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

Minutes of backoff pass in no time, and the order of what happens is the same at every run. Only for code that waits
for timers and for itself; a loop that waits for the network needs real time.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class _JumpingSelector(selectors.SelectSelector):
    """Never blocks: time that would be waited is added to the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("nothing will ever happen any more: everything waits and no timer is set")
        self.now += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` starts at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def burn(self, seconds: float) -> None:
        self._jumping.now += seconds


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a `VirtualLoop`."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


async def elapse(seconds: float) -> None:
    """Let virtual time pass, and with it everything that is due."""
    await asyncio.sleep(seconds)


def burn(seconds: float) -> None:
    """Let virtual time pass while the loop does nothing else, as where a processor is busy."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.burn(seconds)


def now() -> float:
    return asyncio.get_running_loop().time()
