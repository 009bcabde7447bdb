"""What a failed test tells beside its own words: the logs of what it worked with, which are gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TELLERS: dict[str, Callable[[], str]] = {}


@contextmanager
def logs_on_failure(name: str, teller: Callable[[], str]) -> Iterator[None]:
    """Have every test that fails meanwhile tell what `teller` returns, under `name`."""
    _TELLERS[name] = teller
    try:
        yield
    finally:
        del _TELLERS[name]


def stories() -> list[tuple[str, str]]:
    """Return what there is to tell now."""
    return [(name, teller()) for name, teller in _TELLERS.items()]
