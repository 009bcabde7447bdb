"""Decodes the JSON of an API server, whatever its depth.

The API server takes ten thousand levels: in the data of a ControllerRevision, and in metadata.managedFields of every
object, which whoever creates it may write. The decoders end before, and what then cannot be read would end a watch or
a list, of all namespaces, again and again. Nothing that is read here is as deep.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

MAX_DEPTH = 100
"""Of lists and objects within one another; null stands for what is deeper."""
READABLE_DEPTH = 500
"""Every decoder takes so many."""
BRACKETS_PER_TURN = 5000
"""That are read before other tasks run."""
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}])', re.DOTALL)


async def decoded(data: bytes | bytearray | msgspec.Raw, kind: Any = Any) -> Any:
    """Return what JSON says. Raises ValueError for what is none."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        return msgspec.json.decode(await flattened(bytes(data)), type=kind)  # gate: json-depth


async def flattened(data: bytes) -> bytes:
    """Return JSON that every decoder takes, with null for what is within more than `MAX_DEPTH` lists and objects."""
    if data.count(b"{") + data.count(b"[") <= READABLE_DEPTH:
        return data
    parts, begin, depth = [], 0, 0
    for count, bracket in enumerate(_NEXT_BRACKET.finditer(data), 1):
        if bracket[1] in b"[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                parts += [data[begin : bracket.start(1)], b"null"]
        else:
            if depth == MAX_DEPTH + 1:
                begin = bracket.end()
            depth -= 1
        if count % BRACKETS_PER_TURN == 0:
            await asyncio.sleep(0)
    return b"".join([*parts, data[begin:]])
