"""JSON pointers (RFC 6901): where a JSON patch changes or tests a value."""

from __future__ import annotations


def json_pointer(*keys: str | int) -> str:
    """Return the pointer to what these keys and places lead to, from the outermost on."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in keys)
