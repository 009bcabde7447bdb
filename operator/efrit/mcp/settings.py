"""How `efrit-mcp` was started: its command line as one immutable value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from efrit.client.backends import Place
from efrit.mcp.catalogue import Access

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Http:
    """Where the HTTP transport listens and whom it serves. `authenticated` is False on a loopback address only."""

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None
    authenticated: bool = True
    audiences: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    state_key: Path | None = None


@dataclass(frozen=True)
class Settings:
    """What to serve and how; without `http`, over stdin and stdout."""

    place: Place
    access: Access = Access.FULL
    http: Http | None = None
    verbose: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def parser() -> argparse.ArgumentParser:
    """The options; docs/mcp.md shows what they are for."""
    options = _Parser(
        prog="efrit-mcp",
        description="Serve Efrit's instances and requests over the Model Context Protocol.",
        allow_abbrev=False,
    )
    where = options.add_argument_group("where the work is done")
    where.add_argument(
        "--backend", choices=("local", "cluster"), help="this machine or a cluster; default: found out"
    )
    where.add_argument("--config", type=Path, help="configuration file of this machine's instances")
    where.add_argument("--kubeconfig", type=Path, help="as kubectl's")
    where.add_argument("--context", help="as kubectl's")
    where.add_argument("--namespace", "-n", help="as kubectl's")
    what = options.add_argument_group("what is allowed")
    what.add_argument("--read-only", action="store_true", help="offer only the tools that change nothing")
    what.add_argument(
        "--disable-destructive",
        action="store_true",
        help="offer no tool that can destroy something: of the work, only chats, whose model has no tools",
    )
    how = options.add_argument_group("how it is served")
    how.add_argument("--transport", choices=("stdio", "http"), default="stdio", help="default: stdio")
    how.add_argument("--host", default="127.0.0.1", help="address to listen on (http); default: 127.0.0.1")
    how.add_argument("--port", type=int, default=8443, help="port to listen on (http); default: 8443")
    how.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate (http); read again when it changes")
    how.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    how.add_argument(
        "--auth",
        choices=("kubernetes", "none"),
        default="kubernetes",
        help="who may call (http): whoever the cluster's API server lets, by bearer token; or, on loopback, anybody",
    )
    how.add_argument("--audience", action="append", default=[], help="audience a token must have; may be repeated")
    how.add_argument("--allowed-host", action="append", default=[], help="Host header to accept; may be repeated")
    how.add_argument("--allowed-origin", action="append", default=[], help="Origin header to accept; may be repeated")
    how.add_argument("--state-key", type=Path, metavar="FILE", help="32 bytes or more, the same in all replicas")
    options.add_argument("--verbose", "-v", action="store_true", help="log more, to stderr")
    return options


def read(arguments: Sequence[str] | None = None) -> Settings:
    """The settings; ends the program with a sentence where they cannot be."""
    options = parser()
    given = options.parse_args(arguments)
    http = _http(options, given) if given.transport == "http" else None
    access = (
        Access.READ_ONLY if given.read_only else Access.NOT_DESTRUCTIVE if given.disable_destructive else Access.FULL
    )
    return Settings(
        Place(given.backend, given.config, given.kubeconfig, given.context, given.namespace),
        access,
        http,
        given.verbose,
    )


def _http(options: argparse.ArgumentParser, given: argparse.Namespace) -> Http:
    authenticated = given.auth == "kubernetes"
    if not authenticated and given.host not in LOOPBACK:
        options.error("--auth none is for a loopback --host: anybody who reaches the port may run code")
    if (given.tls_cert is None) != (given.tls_key is None):
        options.error("--tls-cert and --tls-key go together")
    if given.tls_cert is None and given.host not in LOOPBACK:
        options.error("without --tls-cert only a loopback --host is served: tokens would travel in the clear")
    return Http(
        given.host,
        given.port,
        given.tls_cert,
        given.tls_key,
        authenticated,
        tuple(given.audience),
        tuple(given.allowed_host),
        tuple(given.allowed_origin),
        given.state_key,
    )
