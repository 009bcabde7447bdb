"""An event loop that ends leaves no connection open, at whatever stage it is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import warnings

from tests.support.transports import abort_all, all_accepted


async def _served(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        writer.close()


def _is_accepting() -> bool:
    """Return whether asyncio has accepted a connection, and a task of its own is to make a transport for it."""
    return any("_accept_connection2" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_a_connection_that_was_accepted_right_before_its_server_closes_is_closed_too() -> None:
    server = await asyncio.start_server(_served, "127.0.0.1", 0)
    with (
        warnings.catch_warnings(record=True) as unclosed,
        socket.create_connection(server.sockets[0].getsockname()) as peer,
    ):
        warnings.simplefilter("always")
        while not _is_accepting():  # noqa: ASYNC110 - only the loop itself goes on
            await asyncio.sleep(0)
        await all_accepted()
        server.close()
        await abort_all(asyncio.get_running_loop())
        gc.collect()
        peer.setblocking(False)
        with contextlib.suppress(ConnectionResetError):
            assert peer.recv(1) == b""
    assert [str(warning.message) for warning in unclosed] == []
