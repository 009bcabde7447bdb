"""A loopback port of the machine that leads into the node's network: what makes KUBECONFIG work everywhere.

The listening socket is made outside and inherited; the process itself runs in the node's namespace, so each
connection it opens belongs to the node's network.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence

from tests.cluster.paths import REPOSITORY, Layout
from tests.cluster.processes import Daemon
from tests.cluster.progress import ClusterError

FIRST_CHOICE = 16443
CHUNK = 256 * 1024


def daemon(layout: Layout, descriptor: int, host: str, port: int) -> Daemon:
    """Return the forwarder of one bare cluster; `descriptor` is the inherited listening socket."""
    script = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from tests.cluster import forward; "
    command = [*layout.inside(), sys.executable, "-c", script + "forward.main(sys.argv[1:])"]
    command += [f"--cluster={layout.name}", f"--descriptor={descriptor}", f"--host={host}", f"--port={port}"]
    return Daemon("forward", tuple(command), layout.data)


def start(layout: Layout, host: str, port: int, *, listen_on: int | None) -> int:
    """Start the forwarder and return its port: `listen_on`, else 16443 or any free one."""
    candidates = [listen_on] if listen_on else [FIRST_CHOICE, 0]
    for candidate in candidates:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with listener:
            try:
                listener.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            listener.listen(128)
            chosen = int(listener.getsockname()[1])
            daemon(layout, listener.fileno(), host, port).start(keep=[listener.fileno()])
            return chosen
    raise ClusterError(f"Port {listen_on} on loopback is taken; run `down`, then `up` picks another one.")


async def _serve(descriptor: int, host: str, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(host, port, limit=CHUNK)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, upstream_writer), _copy(upstream_reader, writer))

    server = await asyncio.start_server(connected, sock=socket.socket(fileno=descriptor), limit=CHUNK)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    # One side ending ends both: the API server's protocols never use a half-open connection.
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()


def main(arguments: Sequence[str]) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", help="whose forwarder this is, for people and for teardown")
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args(arguments)
    asyncio.run(_serve(chosen.descriptor, chosen.host, chosen.port))
