"""What a failed test prints besides its own message: the logs of what it worked with, which are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SOURCES: dict[str, Callable[[], str]] = {}


@contextmanager
def logs_on_failure(name: str, source: Callable[[], str]) -> Iterator[None]:
    """Have every test that fails meanwhile print what `source` returns, under `name`."""
    _SOURCES[name] = source
    try:
        yield
    finally:
        del _SOURCES[name]


def captured_logs() -> list[tuple[str, str]]:
    """Return the name and text of each source."""
    return [(name, source()) for name, source in _SOURCES.items()]
