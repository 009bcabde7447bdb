"""The program `efrit-mcp`: open the backend, serve it over stdio or HTTP, close it at the end."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

from efrit.backend.open import open_backend
from efrit.entry_point import load_entry_point
from efrit.errors import EfritError
from efrit.log_format import OneLineFormatter
from efrit.mcp import settings as options
from efrit.mcp.error_text import error_text
from efrit.mcp.json_lines import JsonLines
from efrit.mcp.reloading_backend import ReloadingBackend
from efrit.mcp.server import make_server
from efrit.mcp.state_key import own_key


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until the client closes stdin or the process gets a signal to stop."""
    settings = options.read(arguments)
    # Stdout carries the protocol.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("efrit-mcp: %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if settings.verbose else logging.WARNING, handlers=[handler])
    logging.getLogger("efrit.mcp.audit").setLevel(logging.INFO)
    if settings.http is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # At once, as SIGTERM: a server that is cancelled waits for the thread that reads stdin, until its next line.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        anyio.run(_serve, settings)
    except KeyboardInterrupt:
        sys.exit(130)
    except EfritError as error:
        sys.exit(f"efrit-mcp: {error_text(error)}")


async def _serve(settings: options.Settings) -> None:
    if settings.http is not None:
        await load_entry_point("efrit.mcp.http:serve_http")(settings, settings.http)
        return
    reloading = ReloadingBackend(lambda: open_backend(settings.place))
    key = own_key()
    try:
        # Wrong settings are reported at once, not by the first call.
        async with reloading.use() as backend:
            plans = backend.kind == "cluster"
        server = make_server(
            lambda _: reloading.use(),
            settings.access,
            plans=plans,
            state_keys=[key] if key is not None else None,
            one_client=True,
        )
        await serve_stdio(server)
    finally:
        with anyio.CancelScope(shield=True):
            await reloading.close()


async def serve_stdio(server: Server[Any]) -> None:
    """Serve on stdin and stdout until stdin ends."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(JsonLines(incoming, outgoing), outgoing, server.create_initialization_options())


if __name__ == "__main__":
    main()
