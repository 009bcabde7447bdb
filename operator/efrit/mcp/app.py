"""The program `efrit-mcp`: opens the backend, serves it over stdio or HTTP, lets go of it at the end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

from efrit.client.backends import open_backend
from efrit.errors import EfritError
from efrit.mcp import settings as options
from efrit.mcp.failures import in_words
from efrit.mcp.fresh import FreshBackend
from efrit.mcp.server import make_server


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs until the client closes stdin, or until it is told to stop."""
    settings = options.read(arguments)
    # Stdout is the protocol's.
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if settings.verbose else logging.WARNING,
        format="efrit-mcp: %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("efrit.mcp.audit").setLevel(logging.INFO)
    try:
        anyio.run(_serve, settings)
    except KeyboardInterrupt:
        sys.exit(130)
    except EfritError as error:
        sys.exit(f"efrit-mcp: {in_words(error)}")


async def _serve(settings: options.Settings) -> None:
    if settings.http is not None:
        from efrit.mcp.http import serve_http

        await serve_http(settings, settings.http)
        return
    fresh = FreshBackend(lambda: open_backend(settings.place))
    # What is wrong with the settings is told at once, not with the first call.
    backend = await fresh.current()
    try:
        server = make_server(
            lambda _: fresh.current(), settings.access, plans=backend.kind == "cluster", one_client=True
        )
        await speak(server)
    finally:
        with anyio.CancelScope(shield=True):
            await fresh.close()


async def speak(server: Server[Any]) -> None:
    """Speaks over stdin and stdout until stdin ends."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    main()
