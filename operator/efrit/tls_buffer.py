"""How much asyncio keeps for each TLS connection: bridge and controller have many, and read little of each."""

from __future__ import annotations

from asyncio import sslproto

TLS_BUFFER_BYTES = 16 * 1024
"""What asyncio keeps for each TLS connection, and allocates for each read of one. By default that is 256 KiB, though
no record has more than this. A piece of 32 KiB is taken from the system and given back (`give_memory_back`)."""


def keep_small() -> None:
    """Have every connection of this process that is opened from now on keep no more."""
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
