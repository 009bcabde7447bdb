"""What a server allows: the effects a tool may have at each level of access. Pure."""

from __future__ import annotations

from enum import StrEnum

from efrit.backend.interface import RequestType


class Effect(StrEnum):
    """What a call of a tool may do."""

    READS = "reads"
    ADDS = "adds"
    DESTROYS = "destroys"


class Access(StrEnum):
    """What a server allows. Without destructive calls, only chats run: their model has no tools."""

    FULL = "full"
    NOT_DESTRUCTIVE = "not-destructive"
    READ_ONLY = "read-only"


_ALLOWED = {
    Access.FULL: frozenset(Effect),
    Access.NOT_DESTRUCTIVE: frozenset({Effect.READS, Effect.ADDS}),
    Access.READ_ONLY: frozenset({Effect.READS}),  # gate: read-only
}


def allows(access: Access, effect: Effect) -> bool:
    """Return whether a server with `access` may offer a tool with `effect`."""
    return effect in _ALLOWED[access]


def allows_reply(access: Access, request_type: RequestType | None) -> bool:
    """Return whether a server with `access` may continue a session of this type when its question is answered."""
    # gate: reply-not-destructive
    return access is Access.FULL or (access is Access.NOT_DESTRUCTIVE and request_type is RequestType.CHAT)
