"""How much a JSON text weighs once it is parsed: each value costs a hundred bytes, however few it is written in.

A file of `{},{},…` within the limits of a file would fill a process's memory. Pure; parses nothing.
"""

import re

MAX_PARTS = 100_000
"""Commas, brackets and braces outside of strings: an answer with all its context has a few hundred."""

_UNCHECKED_BYTES = 64 * 1024
_PART = rb"""(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+[,\[{]"""
"""All up to the next part, with whole strings; possessive, so that it stays linear, for a text cut off, too."""


def exceeds_part_limit(data: bytes) -> bool:
    """Return whether `data` has more parts than anything we write or take."""
    return len(data) > _UNCHECKED_BYTES and has_more_parts(data, MAX_PARTS)


def has_more_parts(data: bytes, limit: int) -> bool:
    """Return whether `data` has more than `limit` commas, brackets and braces outside of strings."""
    # Nearly every text has few, even with those in its strings, for which alone it is looked through.
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= limit:
        return False
    return re.match(b"(?:%b){%d}+" % (_PART, limit + 1), data, re.DOTALL) is not None
