"""Tokens by kind, as metrics count them; no client needs it."""

from __future__ import annotations

from efrit.protocol.session import Usage

TOKEN_DIRECTIONS = tuple(name.removesuffix("_tokens") for name in Usage.__struct_fields__ if name.endswith("_tokens"))
"""The kinds of tokens that are counted, as labels of a metric."""


def tokens_of(usage: Usage, direction: str) -> int:
    """Return the tokens of one of `TOKEN_DIRECTIONS`."""
    count: int = getattr(usage, f"{direction}_tokens")
    return count
