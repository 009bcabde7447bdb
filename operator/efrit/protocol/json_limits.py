"""How much a JSON text weighs once it is parsed: each value costs a hundred bytes, however few it is written in.

A file of `{},{},…` within the limits of a file would fill a process's memory. Pure; parses nothing.
"""

import re

MAX_PARTS = 100_000
"""Commas, brackets and braces outside of strings: an answer with all its context has a few hundred."""

_UNCHECKED_BYTES = 64 * 1024
# Always matches where a string begins, so that the search stays linear for a text cut off in one.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


def exceeds_part_limit(data: bytes) -> bool:
    """Return whether `data` has more parts than anything we write or take."""
    return len(data) > _UNCHECKED_BYTES and has_more_parts(data, MAX_PARTS)


def has_more_parts(data: bytes, most: int) -> bool:
    """Return whether `data` has more than `most` commas, brackets and braces outside of strings."""
    if len(data) <= most:
        return False
    count = data.count
    parts, at = 0, 0
    # Nearly every text has few, even with those in its strings, for which alone each string would be looked for.
    if count(b",") + count(b"[") + count(b"{") <= most:
        return False
    for string in _STRING.finditer(data):
        start = string.start()
        parts += count(b",", at, start) + count(b"[", at, start) + count(b"{", at, start)
        at = string.end()
        if parts > most:
            return True
    return parts + count(b",", at) + count(b"[", at) + count(b"{", at) > most
