"""Counts tokens, and which of them come from the prompt cache, as the API would. The cache is the only state.

A token is four bytes here. The prefix up to each `cache_control` is kept; a later request reads the longest kept
prefix that ends within 20 blocks before one of its own marks; below 1024 tokens, none is kept or read.
https://docs.claude.com/en/docs/build-with-claude/prompt-caching
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from .conversation import blocks

Json = dict[str, Any]
LEAST_CACHED = 1024
LOOK_BACK = 20


def tokens(value: object) -> int:
    """Return how many tokens VALUE is."""
    return max(1, len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) // 4)


class PromptCache:
    """The prefixes that were sent before. Not for several threads at once."""

    def __init__(self) -> None:
        self._kept: set[str] = set()

    def usage(self, body: Json) -> Json:
        """Return the input's part of `usage`, and keep the prefixes of BODY."""
        digest = hashlib.sha256(str(body["model"]).encode())
        ends: list[tuple[str, int, bool]] = []
        total = 0
        for block in _prefix_blocks(body):
            plain = {name: value for name, value in block.items() if name != "cache_control"}
            digest.update(json.dumps(plain, sort_keys=True).encode())
            total += tokens(plain)
            ends.append((digest.hexdigest(), total, "cache_control" in block))
        marks = [place for place, (_, size, marked) in enumerate(ends) if marked and size >= LEAST_CACHED]
        read = max(
            (
                ends[place][1]
                for mark in marks
                for place in range(max(0, mark - LOOK_BACK), mark + 1)
                if ends[place][0] in self._kept
            ),
            default=0,
        )
        written = max((ends[mark][1] for mark in marks), default=0)
        self._kept.update(ends[mark][0] for mark in marks)
        return {
            "input_tokens": total - max(read, written),
            "cache_creation_input_tokens": max(0, written - read),
            "cache_read_input_tokens": read,
        }


def _prefix_blocks(body: Json) -> list[Json]:
    return [
        *(body.get("tools") or []),
        *blocks(body.get("system") or []),
        *({"role": message["role"], **block} for message in body["messages"] for block in blocks(message["content"])),
    ]
