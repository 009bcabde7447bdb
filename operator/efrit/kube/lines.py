"""Reads the lines of a body, whatever their length."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable


async def lines_of(chunks: AsyncIterable[bytes], most: int | None = None) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body without their ends, the last one whether it has one or not.

    most: bytes of a line; None for no bound. Raises ValueError for a line that is longer. The transport's own way of
    reading lines has a limit that objects exceed, and copies what it has of a long one with each part that comes.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end)) if parts else end
            parts, size = [], 0
        if rest:
            parts.append(rest)
            size += len(rest)
        if most is not None and size > most:  # gate: watch-line
            raise ValueError(f"a line of more than {most} bytes")
    if parts:
        yield b"".join(parts)
