"""Leaves a namespace alone in which nothing can be created: it is being deleted, or it is gone.

One create at a time finds out whether that is still so; between two of them, with growing pauses, every other fails
at once without a call. Kept in memory only: a new process asks once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from efrit.errors import ApiNamespaceTerminating

FIRST_PAUSE_SECONDS = 2.0
LAST_PAUSE_SECONDS = 60.0
MAX_NAMESPACES = 1000
"""The one that refused longest ago is forgotten, and asked again, when there are more."""


@dataclass(slots=True)
class _Pause:
    until: float
    seconds: float
    sentence: str


class TerminatingNamespaces:
    """The namespaces that have lately refused a create, and until when nothing is created in them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take `clock`, which returns monotonic seconds."""
        self._clock = clock
        self._pauses: OrderedDict[str, _Pause] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pauses)

    @contextmanager
    def creating(self, namespace: str) -> Iterator[None]:
        """Guard a call that creates in a namespace. Raises ApiNamespaceTerminating instead of it during a pause."""
        pause, now = self._pauses.get(namespace), self._clock()
        if pause is not None and now < pause.until:
            text = f"nothing can be created in namespace {namespace}: {pause.sentence}"
            raise ApiNamespaceTerminating(text, pause.sentence, retry_after=pause.until - now)
        if pause is not None:
            # The others wait for what this call finds out.
            pause.until = now + pause.seconds
        try:
            yield
        except ApiNamespaceTerminating as error:
            error.retry_after = self._begin_pause(namespace, pause, error.sentence)
            raise
        self._pauses.pop(namespace, None)

    def _begin_pause(self, namespace: str, before: _Pause | None, sentence: str) -> float:
        """Begin a pause, longer than the one before it, and return its seconds."""
        pause = self._pauses.get(namespace)
        if pause is not None and pause is not before:
            # Another call that was under way at the same time has begun it.
            return pause.seconds
        seconds = FIRST_PAUSE_SECONDS if before is None else min(before.seconds * 2, LAST_PAUSE_SECONDS)
        self._pauses.pop(namespace, None)
        self._pauses[namespace] = _Pause(self._clock() + seconds, seconds, sentence)
        while len(self._pauses) > MAX_NAMESPACES:
            self._pauses.popitem(last=False)
        return seconds
